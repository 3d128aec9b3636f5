"""``setmaxnreg`` in the checker: the warps of a warp group must agree (PTX ISA 9.7.19.5).

All threads of all four execute the same instructions with the same numbers, in one order.
Registers are given to a warp group as a whole, so what they do not agree on has no meaning; and an
``inc`` waits until the multiprocessor has so many, which may be never.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.capabilities import limits
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array

WARPS = 4
"""Warps of a warp group."""
THREADS = 32 * WARPS
REGISTERS = limits(90).registers
"""Of a multiprocessor, since sm_90."""


class RegisterCounts(LaunchObserver):
    """What each warp of each warp group has asked for."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.findings = findings
        self.agreed: dict[tuple[Batch, int, int], list[tuple[str, int, Sentence]]] = {}
        """Batch, block, warp group -> the requests in order: ``inc`` or ``dec``, the number, and
        the instruction of the warp that came first."""
        self.done: dict[tuple[Batch, int], int] = {}
        """Batch, warp -> how many it has executed."""
        self.counts: dict[Batch, Array] = {}
        """How many each thread has executed."""
        self.last: dict[tuple[Batch, int, int], Instruction | None] = {}
        """The last of each warp group."""

    def sets_registers(self, g: Group, word: str, count: int) -> None:
        """These warps execute ``setmaxnreg``."""
        number, where, instruction = count, self.machine.where(g), self.machine.executing()
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
            elif requests[at][:2] != (word, number):
                first = requests[at]
                self.findings.report(
                    "setmaxnreg-mismatch",
                    say(
                        "warp {} of block {} executes setmaxnreg.{} {}, another warp of its warp "
                        "group setmaxnreg.{} {}: {}; {}; all four must ask for the same number",
                        inside, int(batch.blocks[slot]), word, number, first[0], first[1], where,
                        first[2],
                    ),
                    -1, ("setmaxnreg", where, first[2]),
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
                    "setmaxnreg-mismatch",
                    say(
                        "{} executed `{}` at {}, {} of the same warp group did not; all its "
                        "threads must",
                        batch.describe(np.setdiff1d(lanes, missing)), instruction.text,
                        instruction.where, batch.describe(missing),
                    ),
                    -1, ("alone", instruction), instruction,
                )  # fmt: skip

    def _starved(self, batch: Batch) -> None:
        """Did warp groups ask for more than there is, or than the others had given back?

        A block has what its threads began with: at most an equal part of all registers for each.
        Who has to wait for whom is known only now: others may have given back right after.
        """
        most = min(256, REGISTERS // batch.threads) // 8 * 8
        for slot in range(batch.count):
            asked = [x[-1] for (b, s, _), x in self.agreed.items() if b is batch and s == slot]
            more = [(number, where) for word, number, where in asked if word == "inc"]
            wanted = sum(number for _, number, _ in asked)
            if not more or wanted <= most * len(asked):
                continue
            number, where = more[-1]
            block = int(batch.blocks[slot])
            if THREADS * wanted > REGISTERS:
                why = say(
                    "{} warp groups of block {} ask for {} registers a thread, {} in all, and a "
                    "multiprocessor has {}: {}",
                    len(asked), block, " + ".join(str(n) for _, n, _ in asked), THREADS * wanted,
                    REGISTERS, where,
                )  # fmt: skip
            else:
                why = say(
                    "{} threads begin with at most {} registers each, and the other warp groups "
                    "of block {} have not given back enough: {}; let them execute setmaxnreg.dec",
                    batch.threads, most, block, where,
                )  # fmt: skip
            self.findings.report(
                "setmaxnreg-waits-for-ever",
                say("setmaxnreg.inc {} waits for ever: {}", number, why), -1, ("starved", where),
            )  # fmt: skip

    def ends(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self._alone(batch)
        self._starved(batch)
        self.last = {key: x for key, x in self.last.items() if key[0] is not batch}
        self.agreed = {key: x for key, x in self.agreed.items() if key[0] is not batch}
        self.done = {key: x for key, x in self.done.items() if key[0] is not batch}


__all__ = ["RegisterCounts"]
