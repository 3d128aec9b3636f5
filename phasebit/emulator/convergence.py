"""Do the threads of a warp come together where they must?

An aligned barrier (``bar.sync`` is one) needs all threads of the warp, a ``.sync``
instruction those that its member mask names.  Threads that have left the kernel are
not waited for, so that ``if (i >= n) return;`` may stand before either.  A thread that
goes *around* the instruction and on is another matter: then the barrier stands in a
branch on which the warp was divided, and what happens is undefined (PTX ISA 9.7.13.1,
9.7.13.2).

A branch that divides a warp notes on both parts, as a *cut*, who was there and the
block where their ways meet again.  A part that waits before that block, for threads
which have passed it and are gone, has been gone around.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.syntax import Instruction
from phasebit.emulator.types import Array, Value

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.hazards import Findings
    from phasebit.emulator.machine import Machine

Cut = tuple[int, Array]
"""The block where the ways of a branch meet again, and the lanes that stood at the branch."""

ALL = np.uint32(0xFFFFFFFF)


class Convergence:
    """Looks at barriers and ``.sync`` instructions; reports to ``findings``."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.findings = findings

    def divided(self, g: Group, p: Array, join: int) -> None:
        """A branch divides a group by a predicate; its parts inherit what is noted here."""
        warp = g.batch.warp_of[g.lanes]
        if join >= 0 and ((p[1:] != p[:-1]) & (warp[1:] == warp[:-1])).any():
            g.cuts = (*(cut for cut in g.cuts if cut[0] in g.rejoin), (join, g.lanes))

    def barrier(self, g: Group, present: Array, instruction: Instruction | None) -> None:
        """A barrier opens for a group that waited at this instruction, with those present."""
        if instruction is None or not g.cuts:
            return
        if instruction.mnemonic == "bar" or "aligned" in instruction.modifiers:
            self._gone_around(g, present, instruction, None)

    def members(self, g: Group, membermask: Any) -> None:
        """The threads of a ``.sync`` instruction are together."""
        instruction = self.machine.program.executing()
        if membermask is not None and instruction is not None:
            self._check_masks(g, membermask, instruction)
        if g.cuts and instruction is not None:
            self._gone_around(g, g.lanes, instruction, membermask)

    def _gone_around(
        self, g: Group, present: Array, instruction: Instruction, membermask: Any
    ) -> None:
        batch = g.batch
        pending = tuple(cut for cut in g.cuts if cut[0] in g.rejoin)
        g.cuts = pending
        named = np.zeros(len(batch.alive_mask), np.uint32)
        masks = ALL if membermask is None else membermask
        np.bitwise_or.at(named, batch.warp_of[g.lanes], np.asarray(masks, np.uint32))
        for join, lanes in pending:
            if self._leads_out(join):
                continue
            gone = lanes[~batch.alive[lanes]]
            gone = gone[(named[batch.warp_of[gone]] & batch.lane_bit[gone]) != 0]
            gone = np.setdiff1d(gone, present)
            if len(gone):
                warp = np.unique(batch.warp_of[gone])
                here = g.lanes[np.isin(batch.warp_of[g.lanes], warp)]
                waits = "must come to it" if membermask is None else "are named in its mask"
                self.findings.report(
                    "barrier",
                    f"{batch.describe(here)} stand at `{instruction.text}` at {instruction.where}, "
                    f"but {batch.describe(gone)} of the same warp went around it, and they {waits}",
                    -1, ("around", instruction), instruction,
                )  # fmt: skip

    def _leads_out(self, block: int) -> bool:
        """Whether nothing but the end of the kernel is there."""
        program = self.machine.program
        here = program.blocks[block]
        return (
            program.functions[block].is_entry and not here.body and here.collective is None
            and here.skip is None and (here.end is None or here.end.mnemonic in ("ret", "exit"))
        )  # fmt: skip

    def _check_masks(self, g: Group, membermask: Value, instruction: Instruction) -> None:
        """A thread must be named in its own mask, and members must give one mask."""
        if not isinstance(membermask, np.ndarray) and membermask == ALL:
            return
        batch = g.batch
        masks = g.spread(membermask).astype(np.uint32)
        out = (masks & batch.lane_bit[g.lanes]) == 0
        text = "is not named in the member mask that it gives"
        if not out.any():
            table = np.zeros((len(batch.alive_mask), 32), np.uint32)
            lane = g.lanes % batch.threads % 32
            table[batch.warp_of[g.lanes], lane] = masks
            given = table[batch.warp_of[g.lanes]]
            named = (masks[:, None] >> np.arange(32, dtype=np.uint32)) & 1 != 0
            out = (named & (given != 0) & (given != masks[:, None])).any(axis=1)
            text = "gives another member mask than a thread that it names"
        if out.any():
            self.findings.report(
                "barrier",
                f"{batch.describe(g.lanes[out][:1])} {text}: "
                f"`{instruction.text}` at {instruction.where}",
                -1, ("mask", instruction), instruction,
            )  # fmt: skip


__all__ = ["Convergence", "Cut"]
