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

Warps of a block may meet at different barrier instructions: a barrier counts who comes, and
the ISA asks for one place of the threads of a warp only.  CUDA C++ asks it of the whole
block, for ``__syncthreads``.  Hence nothing is said of
``if (warp == 0) __syncthreads(); else __syncthreads();``, nor of a warp that has one meeting
more and has it where all ways have met: the others are then like threads that left early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.findings import say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.named_barriers import BlockBarrierObserver, NamedBarrier
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array, Value

ALL = np.uint32(0xFFFFFFFF)


class Convergence(LaunchObserver, BlockBarrierObserver):
    """Looks at barriers and ``.sync`` instructions; reports to ``findings``."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.findings = findings

    def divides(self, g: Group, p: Array, join: int) -> None:
        """A branch divides a group by a predicate; its parts inherit what is noted here."""
        if join < 0:
            return
        parts = p[1:] != p[:-1]
        warp = g.batch.warp_of[g.lanes]
        if (parts & (warp[1:] == warp[:-1])).any():
            g.cuts, g.joins = (*g.cuts, (join, g.lanes)), g.joins | {join}
        block = g.batch.slots(g.lanes)
        if (parts & (block[1:] == block[:-1])).any():
            g.bypasses, g.joins = (*g.bypasses, (join, g.lanes)), g.joins | {join}

    def opens_barrier(
        self, barrier: NamedBarrier, lanes: Array, groups: Sequence[Group],
        instructions: Sequence[Instruction | None], everyone: bool,
    ) -> None:  # fmt: skip
        """A barrier opens for groups that waited."""
        for g, instruction in zip(groups, instructions, strict=True):
            self._barrier(g, lanes, instruction)

    def passes_barrier(self, g: Group) -> None:
        """A barrier does not keep a group waiting."""
        if g.cuts or g.bypasses:
            self._barrier(g, g.lanes, self.machine.executing())

    def _barrier(self, g: Group, present: Array, instruction: Instruction | None) -> None:
        """A barrier opens for a group that waited at this instruction, with those present."""
        if instruction is None or not (g.cuts or g.bypasses):
            return
        if self.machine.program.traits(instruction).is_aligned(instruction):
            self._gone_around(g, present, instruction, None)
        if g.bypasses and len(instruction.operands) == 1:
            self._bypassed(g, present, instruction)

    def _bypassed(self, g: Group, present: Array, instruction: Instruction) -> None:
        """A barrier of all threads opens, since some have left who went around it and on."""
        batch = g.batch
        for join, lanes in g.bypasses:
            gone = np.setdiff1d(lanes[~batch.alive[lanes]], present)
            gone = gone[np.isin(batch.slots(gone), batch.slots(g.lanes))]
            if len(gone) and not self._leads_out(join):
                self.findings.report(
                    "divergent-barrier",
                    say(
                        "{} stand at `{}` at {}, but {} of the same block went around it and left, "
                        "and all threads of the block must come to it",
                        batch.describe(g.lanes), instruction.text, instruction.where,
                        batch.describe(gone),
                    ),
                    -1, ("around", instruction), instruction,
                )  # fmt: skip

    def shuffles_from(self, g: Group, sources: Array, wrong: Array) -> None:
        """Threads take a value of a lane that has left; of one that never was nothing is said."""
        batch, instruction = g.batch, self.machine.executing()
        lane = g.lanes % batch.threads
        other = g.lanes - lane % 32 + sources
        left = wrong & (lane - lane % 32 + sources < batch.threads)
        if instruction is not None and left.any():
            self.findings.report(
                "shuffle-from-departed",
                say(
                    "{} takes the value of {} at `{}` at {}: its mask names that thread, which has "
                    "left the kernel, and the value is undefined (PTX ISA 9.7.9.6)",
                    batch.describe(g.lanes[left][:1]), batch.describe(other[left][:1]),
                    instruction.text, instruction.where,
                ),
                -1, ("shuffle", instruction), instruction,
            )  # fmt: skip

    def gathered(self, g: Group, membermask: Any, all_here: bool) -> None:
        """The threads of a ``.sync`` instruction are together."""
        if all_here and not g.cuts:
            return
        instruction = self.machine.executing()
        if membermask is not None and instruction is not None:
            self._check_masks(g, membermask, instruction)
        if g.cuts and instruction is not None:
            self._gone_around(g, g.lanes, instruction, membermask)

    def _gone_around(
        self, g: Group, present: Array, instruction: Instruction, membermask: Any
    ) -> None:
        batch = g.batch
        named = np.zeros(len(batch.alive_mask), np.uint32)
        masks = ALL if membermask is None else membermask
        np.bitwise_or.at(named, batch.warp_of[g.lanes], np.asarray(masks, np.uint32))
        for join, lanes in g.cuts:
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
                    "divergent-barrier" if membermask is None else "divergent-sync",
                    say(
                        "{} stand at `{}` at {}, but {} of the same warp went around it, and they "
                        "{}",
                        batch.describe(here), instruction.text, instruction.where,
                        batch.describe(gone), waits,
                    ),
                    -1, ("around", instruction), instruction,
                )  # fmt: skip

    def _leads_out(self, block: int) -> bool:
        """Whether nothing but the end of the kernel is there."""
        program = self.machine.program
        here = program.blocks[block]
        return (
            program.functions[block].is_entry and not here.body and here.collective is None
            and here.skip is None and here.leaves
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
                "wrong-member-mask",
                say(
                    "{} {}: `{}` at {}",
                    batch.describe(g.lanes[out][:1]), text, instruction.text, instruction.where,
                ),
                -1, ("mask", instruction), instruction,
            )  # fmt: skip


__all__ = ["Convergence"]
