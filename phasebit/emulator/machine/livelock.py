"""A launch that goes round in circles: every thread spins, and nobody is left who could end it.

A group of threads that stands where it stood before with the same registers, while no memory has
changed, will stand there again.  When that holds of every thread which does not wait, memory will
never change, and the launch never ends: so it is called what it is at once, not after all the
turns of loops that it may take.

The machine is watched now and then, for a while: the watch ends without a verdict when a block of
the program ran that does more than read, compute and wait, or when an atomic changed something.
Who reads a clock, or memory that the host may write meanwhile, is not judged; a loop that counts
its turns does not come back to the same registers.  Loops that store, even what is there already,
are left to the limit of turns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.errors import Livelock
from phasebit.emulator.findings import BlockThreads, Sentence, Threads, joined, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import AccessObserver, Group
from phasebit.emulator.machine.program import Program
from phasebit.emulator.machine.running_launch import RunningLaunch
from phasebit.emulator.machine.special_registers import CLOCKS
from phasebit.emulator.machine.standing import not_started
from phasebit.emulator.ptx.control_flow import Block, loops
from phasebit.emulator.ptx.types import Value

PAUSE = 512
"""Turns of loops until the first watch; then twice as many after each that saw nothing."""

WATCHED = 8
"""The part of all turns that is watched: one in so many."""

NAMED = 4
"""Blocks that a report names one by one."""

GLANCE = 16
"""Turns after which a watch ends if it is clear that something happens."""

_FAMILIES = ("warp", "atomic")
"""Atomics are quiet as long as they change nothing, which is counted where they are executed."""


class Stood:
    """Where a group stood, with which registers."""

    def __init__(self, g: Group, live: list[tuple[int, ...]]) -> None:
        # Values are never changed in place, so it suffices to hold on to them.
        self.lanes = g.lanes
        self.files = [[g.registers[i] for i in live[g.pc]]]
        self.files += [[f.registers[i] for i in live[f.resume]] for f in g.frames]

    def same(self, other: Stood) -> bool:
        """Whether that is the same."""
        return np.array_equal(self.lanes, other.lanes) and all(
            _same(a, b)
            for mine, its in zip(self.files, other.files, strict=True)
            for a, b in zip(mine, its, strict=True)
        )


def _same(a: Any, b: Any) -> bool:
    """Whether two registers of the same threads hold the same bits."""
    if a is b:
        return True
    if a is None or b is None:
        return False
    if isinstance(a, np.ndarray) != isinstance(b, np.ndarray):
        a, b = np.broadcast_arrays(a, b)
    return bool(a.tobytes() == b.tobytes())


class Watch(AccessObserver):
    """What is seen of a launch for a while."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.before = list(machine.block_runs)
        self.changes = machine.changes
        self.turns = 0
        self.stood: dict[tuple[int, ...], tuple[Stood, int]] = {}
        self.again: dict[Batch, Any] = {}
        """For each thread whether it has come back to where it was."""
        self.told_no: dict[Batch, Any] = {}
        """For each thread whether a waiting test told it "not yet", and so sent it round."""
        self.who: dict[Sentence, list[BlockThreads]] = {}
        """Where threads look again and again -> which threads."""
        self.looks: dict[int, int] = {}
        """Batch and first thread -> the access that looked at global memory last."""
        self.outside = False
        """Whether a thread looked at what the host may write."""

    def global_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """See :class:`AccessObserver`."""
        if access >= 0:
            self.looks[int(g.lanes[0])] = access
        self.outside = self.outside or self.machine.memory.others_write(first, span)

    def turn(self, g: Group) -> bool:
        """A group is about to take a loop's turn: whether all that spin have now come back."""
        self.turns += 1
        key = (id(g.batch), int(g.lanes[0]), g.n, g.pc, g.stack)
        now = Stood(g, self.machine.program.live)
        before, turns = self.stood.get(key, (None, 0))
        if before is None or not before.same(now):
            # Kept at the first, second, fourth, eighth … turn, so any period is found (Brent).
            if before is None or turns & (turns - 1) == 0:
                before = now
            self.stood[key] = before, turns + 1
            return False
        again = self.again.setdefault(g.batch, np.zeros(g.batch.lanes, bool))
        if not again[g.lanes].all():
            again[g.lanes] = True
            access = self.looks.get(int(g.lanes[0]), -1)
            where = self.machine.place(access) if access >= 0 else self.machine.where(g)
            self.who.setdefault(where, []).extend(g.batch.describe(g.lanes).blocks)
        return self._everyone()

    def came_back(self, g: Group) -> int:
        """How many threads of a group have."""
        again = self.again.get(g.batch)
        return 0 if again is None else int(np.count_nonzero(again[g.lanes]))

    def answered(self, g: Group) -> None:
        """A group that waits for an mbarrier is told "not yet": it will take a turn, and wait."""
        self.told_no.setdefault(g.batch, np.zeros(g.batch.lanes, bool))[g.lanes] = True

    def only_waits(self) -> bool:
        """Whether all who came back wait for mbarriers: a deadlock, of which more can be said."""
        return not any(
            (again & batch.alive & ~self.told_no.get(batch, np.zeros(batch.lanes, bool))).any()
            for batch, again in self.again.items()
        )

    def _everyone(self) -> bool:
        """Whether each thread has come back, or waits for others, or sleeps."""
        there = dict.fromkeys(self.machine.batches, 0)
        for g in self.machine.parked:
            there[g.batch] += g.n
        for _, g in self.machine.sleeping:
            there[g.batch] += g.n - self.came_back(g)
        for batch, again in self.again.items():
            if batch in there:
                there[batch] += int(np.count_nonzero(again & batch.alive))
        return all(count >= batch.live for batch, count in there.items())

    def quiet(self) -> bool:
        """Whether nothing happened meanwhile that another thread could notice."""
        machine = self.machine
        if self.outside or machine.changes != self.changes:
            return False
        ran = zip(machine.program.blocks, machine.block_runs, self.before, strict=True)
        return all(now == then or quiet(machine.program, block) for block, now, then in ran)


def quiet(program: Program, block: Block) -> bool:
    """Whether a block of the program does nothing that another thread could notice."""
    for instruction in filter(None, [*block.instructions, block.skip]):
        entry = program.entry_of(instruction)
        if any(f"%{clock}" in instruction.text for clock in CLOCKS):
            return False
        if entry is None:
            if not loops(instruction):
                return False
        elif entry.traits.sees_grouping or not (
            entry.kind == "value"
            or entry.traits.written == "load"
            or entry.traits.unnoticed
            or entry.family in _FAMILIES
        ):
            return False
    return True


def livelock(machine: RunningLaunch, watch: Watch, unstarted: int) -> Livelock:
    """The error for a launch of which each thread spins or waits.

    ``unstarted``: blocks, for lack of room.
    """
    lines = [
        say(
            "livelock: every thread that is left spins or waits, finds what it found before, and "
            "nobody is left who could change that"
        )
    ]
    lines += [say("  {} at {}", _some(who), where) for where, who in watch.who.items()]
    lines += [
        say("  {} wait for {}: {}", g.batch.describe(g.lanes), why.what, why.where)
        for g, why in machine.parked.items()
    ]
    return Livelock(joined("\n", lines + not_started(unstarted)))


def _some(who: list[BlockThreads]) -> Sentence:
    """Threads of a few blocks, or of how many."""
    blocks = {part.block for part in who}
    if len(blocks) <= NAMED:
        return say("{}", Threads(tuple(who)))
    return say("{} and threads of {} more blocks", Threads((who[0],)), len(blocks) - 1)


__all__ = ["GLANCE", "PAUSE", "WATCHED", "Watch", "livelock"]
