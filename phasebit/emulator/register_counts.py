"""``setmaxnreg`` in the checker: the warps of a warp group must agree (PTX ISA 9.7.19.5).

All threads of all four execute the same instructions with the same numbers, in one order.
Registers are given to a warp group as a whole, so what they do not agree on has no meaning; and an
``inc`` waits until the multiprocessor has so many, which may be never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.hazards import Findings
    from phasebit.emulator.machine import Batch
    from phasebit.emulator.syntax import Instruction

WARPS = 4
"""Warps of a warp group."""
THREADS = 32 * WARPS
REGISTERS = 1 << 16
"""Of a multiprocessor, since sm_90 (CUDA C++ Programming Guide, compute capabilities)."""


class RegisterCounts:
    """What each warp of each warp group has asked for."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.agreed: dict[tuple[Batch, int, int], list[tuple[str, int, str]]] = {}
        """Batch, block, warp group -> the requests in order: ``inc`` or ``dec``, the number, and
        the instruction of the warp that came first."""
        self.done: dict[tuple[Batch, int], int] = {}
        """Batch, warp -> how many it has executed."""
        self.counts: dict[Batch, Array] = {}
        """How many each thread has executed."""
        self.last: dict[tuple[Batch, int, int], Instruction | None] = {}
        """The last of each warp group."""

    def executed(
        self, g: Group, word: str, number: int, where: str, instruction: Instruction | None
    ) -> None:
        """These warps execute ``setmaxnreg``."""
        batch = g.batch
        if batch not in self.counts:
            self.counts[batch] = np.zeros(batch.count * batch.threads, np.int64)
        self.counts[batch][g.lanes] += 1
        for warp in np.unique(batch.warp_of[g.lanes]).tolist():
            slot, inside = divmod(warp, batch.warps)
            group = (batch, slot, inside // WARPS)
            self.last[group] = instruction
            requests = self.agreed.setdefault(group, [])
            at = self.done.get((batch, warp), 0)
            self.done[batch, warp] = at + 1
            if at == len(requests):
                requests.append((word, number, where))
                self._never(batch, slot, word, number, where)
            elif requests[at][:2] != (word, number):
                first = requests[at]
                self.findings.report(
                    "barrier",
                    f"warp {inside} of block {int(batch.blocks[slot])} executes setmaxnreg.{word} "
                    f"{number}, another warp of its warp group setmaxnreg.{first[0]} {first[1]}: "
                    f"{where}; {first[2]}; all four must ask for the same number",
                    -1, ("setmaxnreg", where, first[2]),
                )  # fmt: skip

    def _never(self, batch: Batch, slot: int, word: str, number: int, where: str) -> None:
        """Do the warp groups of a block ask for more than there is, all of them together?"""
        asked = [x[-1][1] for (b, s, _), x in self.agreed.items() if b is batch and s == slot]
        wanted = THREADS * sum(asked)
        if word == "inc" and wanted > REGISTERS:
            self.findings.report(
                "barrier",
                f"setmaxnreg.inc {number} waits for ever: {len(asked)} warp groups of block "
                f"{int(batch.blocks[slot])} ask for {' + '.join(map(str, asked))} registers a "
                f"thread, {wanted} in all, and a multiprocessor has {REGISTERS}: {where}",
                -1, ("registers", where),
            )  # fmt: skip

    def _alone(self, batch: Batch) -> None:
        """Did threads of a warp group execute it without the others?"""
        counts = self.counts.pop(batch, None)
        for (of, slot, group), instruction in self.last.items():
            if of is not batch or counts is None or instruction is None:
                continue
            first = slot * batch.threads + group * THREADS
            lanes = np.arange(first, min(first + THREADS, (slot + 1) * batch.threads))
            missing = lanes[counts[lanes] < counts[lanes].max()]
            if len(missing):
                self.findings.report(
                    "barrier",
                    f"{batch.describe(np.setdiff1d(lanes, missing))} executed "
                    f"`{instruction.text}` at {instruction.where}, {batch.describe(missing)} of "
                    "the same warp group did not; all its threads must",
                    -1, ("alone", instruction), instruction,
                )  # fmt: skip

    def _starved(self, batch: Batch) -> None:
        """Did some warp groups ask for more than the others, or nobody, had given back?

        A block has what its threads began with: at most an equal part of all registers for each.
        """
        most = min(256, REGISTERS // batch.threads) // 8 * 8
        for slot in range(batch.count):
            asked = [x[-1] for (b, s, _), x in self.agreed.items() if b is batch and s == slot]
            more = [(number, where) for word, number, where in asked if word == "inc"]
            wanted = sum(number for _, number, _ in asked)
            if more and most * len(asked) < wanted <= REGISTERS // THREADS:
                number, where = more[-1]
                self.findings.report(
                    "barrier",
                    f"setmaxnreg.inc {number} waits for ever: {batch.threads} threads begin with "
                    f"at most {most} registers each, and the other warp groups of block "
                    f"{int(batch.blocks[slot])} have not given back enough: {where}; let them "
                    "execute setmaxnreg.dec",
                    -1, ("starved", where),
                )  # fmt: skip

    def finish(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self._alone(batch)
        self._starved(batch)
        self.last = {key: x for key, x in self.last.items() if key[0] is not batch}
        self.agreed = {key: x for key, x in self.agreed.items() if key[0] is not batch}
        self.done = {key: x for key, x in self.done.items() if key[0] is not batch}


__all__ = ["RegisterCounts"]
