"""A launch that goes round in circles: every thread spins, and nobody is left who could end it.

A group of threads that stands where it stood before, with the same in all registers that decide
where it goes (:mod:`.deciding`), while no memory has changed that it looks at for that, will stand
there again.  When that holds of every thread which does not wait, none of them will ever leave its
loop, and the launch never ends: so it is called what it is at once, not after all the turns of
loops that it may take.  What a loop counts meanwhile, and what it stores where no loop looks, makes
no difference.

The machine is watched now and then, for a while: the watch ends without a verdict when a block of
the program ran that does more than read, compute, store and wait, or when memory changed that some
loop looks at.  Whom a clock decides, or memory that the host may write meanwhile, is not judged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.errors import Livelock
from phasebit.emulator.findings import BlockThreads, Sentence, Threads, joined, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.deciding import Deciding, deciding
from phasebit.emulator.machine.group import AccessObserver, Group, place
from phasebit.emulator.machine.running_launch import RunningLaunch
from phasebit.emulator.machine.standing import not_started
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array, Value

PAUSE = 512
"""Turns of loops until the first watch; then twice as many after each that saw nothing."""

WATCHED = 8
"""The part of all turns that is watched: one in so many."""

TURNS_EACH = 3
"""But so many for each group that is ready, if that is more."""

NAMED = 4
"""Blocks that a report names one by one."""

GLANCE = 16
"""Turns after which a watch ends if it is clear that something happens."""

MOST_PLACES = 64
"""Of one instruction: sets of addresses, one a thread, that are kept."""


class Stood:
    """Where a group stood, with which deciding registers."""

    def __init__(self, g: Group, mine: tuple[int, ...], live: list[tuple[int, ...]]) -> None:
        # Values are never changed in place, so it suffices to hold on to them.
        self.lanes = g.lanes
        self.files = [[g.registers[i] for i in mine]]
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


class Touched:
    """Words of memory: those of an instruction's accesses, or all words where that is not known."""

    def __init__(self) -> None:
        self._seen: dict[bytes, Array] = {}
        self.anywhere = False

    def add(self, places: Array, width: int) -> None:
        """These bytes of the buffer, and those up to ``width``."""
        key = places.tobytes()
        if key in self._seen or self.anywhere:
            return
        if len(self._seen) == MOST_PLACES:
            self.anywhere = True
            return
        steps = np.arange(0, max(width, 4), 4)
        self._seen[key] = np.unique((places.reshape(-1, 1) + steps) >> 2)

    def __bool__(self) -> bool:
        return self.anywhere or bool(self._seen)

    def words(self) -> Array:
        """Their numbers."""
        return np.concatenate([np.zeros(0, np.int64), *self._seen.values()])

    def meets(self, others: list[Touched]) -> bool:
        """Whether a word of these may be one of others."""
        others = [each for each in others if each]
        if not self:
            return False
        if self.anywhere or any(each.anywhere for each in others):
            return bool(others)
        mine = self.words()
        return any(bool(np.isin(mine, each.words()).any()) for each in others)


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
        self.outside: set[Instruction] = set()
        """Instructions that used what the host may write."""
        self.touched: dict[Instruction, Touched] = {}
        """Loads, stores and atomics -> where."""
        self.changed = Touched()
        self.storing: list[tuple[Array, int, Array]] = []
        """What the block that runs is about to write: places, width, what is there."""
        self.values: frozenset[Instruction] = frozenset()
        """Stores and atomics that write where some loop looks."""
        self.deciding = Deciding({}, frozenset(), False, False)

    # -- memory ---------------------------------------------------------------

    def global_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """See :class:`AccessObserver`."""
        if access >= 0:
            self.looks[int(g.lanes[0])] = access
        outside = self.machine.memory.others_write(first, span)
        self._touch(g.spread(first).view(np.int64) - GLOBAL_BASE, span, access, outside)

    def shared_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """See :class:`AccessObserver`."""
        offset = g.spread(first).astype(np.int64) & 0xFFFFFFFF
        apart = self.machine.cluster_size > 1  # whose memory that is says the address
        self._touch(None if apart else offset + g.window, span, access)

    def local_addresses(self, g: Group, first: Value, span: int, align: int, access: int) -> None:
        """See :class:`AccessObserver`."""
        offset = g.spread(first).astype(np.int64) & 0xFFFFFFFF
        here = g.lanes * g.batch.local_stride + g.batch.local_base
        self._touch(here + offset, span, access)

    def _touch(self, places: Array | None, span: int, access: int, outside: bool = False) -> None:
        """The accesses that begin at these bytes of the buffer; None: somewhere."""
        program = self.machine.program
        alone = [(program.instructions[access], 0, span)] if access >= 0 else []
        for instruction, start, width in program.covered.get(access) or alone:
            touched = self.touched.setdefault(instruction, Touched())
            if outside:
                self.outside.add(instruction)
            if places is None:
                touched.anywhere = True
            else:
                touched.add(places + start, width)
            if not self._writes(instruction):
                continue
            if places is None:
                self.changed.anywhere = True
                continue
            if not self.storing:
                self.machine.after_block.append(self._compare)
            at = (places + start).reshape(-1, 1) + np.arange(width)
            self.storing.append((at, width, self.machine.memory.u1[at]))

    def _compare(self) -> None:
        """The block has run: what have its stores changed?"""
        seen: list[Array] = []
        for at, width, before in self.storing:
            moved = (self.machine.memory.u1[at] != before).any(axis=1)
            # Of two stores to one place the second may hide what the first has changed.
            moved |= np.isin(at[:, 0] >> 2, np.concatenate([np.zeros(0, np.int64), *seen]))
            seen.append(np.unique(at >> 2))
            if moved.any():
                self.changed.add(at[moved, 0], width)
        self.storing.clear()

    # -- turns ----------------------------------------------------------------

    def turn(self, g: Group) -> bool:
        """A group is about to take a loop's turn: whether all that spin have now come back."""
        self.turns += 1
        if self.turns & (self.turns - 1) == 0:
            self.renew()
        live = self.machine.program.live
        key = (id(g.batch), int(g.lanes[0]), g.n, g.pc, g.stack)
        now = Stood(g, self.deciding.registers.get(g.pc, live[g.pc]), live)
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

    def renew(self) -> bool:
        """Look again which registers decide: whether others do than one thought so far."""
        machine = self.machine
        ran = zip(machine.block_runs, self.before, strict=True)
        blocks = frozenset(at for at, (now, then) in enumerate(ran) if now != then)
        values: frozenset[Instruction] = frozenset()
        beside = machine.seat is not None  # another launch may look anywhere
        while True:
            known = machine.deciding.get((blocks, values))
            if known is None:
                known = machine.deciding[blocks, values] = deciding(
                    machine.program, blocks, values
                )
            looked = [self.touched[each] for each in known.loads if each in self.touched]
            more = frozenset(
                each for each, touched in self.touched.items()
                if self._writes(each) and (beside or touched.meets(looked))
            )  # fmt: skip
            if more <= values:
                break
            values |= more
        if known == self.deciding:
            return False
        self.deciding = known
        self.stood.clear()
        self.again.clear()
        self.who.clear()
        return True

    def _writes(self, instruction: Instruction) -> bool:
        entry = self.machine.program.entry_of(instruction)
        assert entry is not None
        return entry.traits.written == "store" or bool(entry.family == "atomic")

    def came_back(self, g: Group) -> int:
        """How many threads of a group have."""
        again = self.again.get(g.batch)
        return 0 if again is None else int(np.count_nonzero(again[g.lanes]))

    def order(self, g: Group) -> tuple[bool, tuple[bool, int, int]]:
        """Who has not come back yet comes first."""
        return (self.came_back(g) == g.n, place(g))

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

    def quiet(self, all_here: bool = True) -> bool:
        """Whether nothing happened meanwhile that could let a thread leave its loop.

        ``all_here``: all threads that are left spin here, or wait.
        """
        found = self.deciding
        if found.noticed or found.clocked or found.loads & self.outside:
            return False
        if self.machine.changes != self.changes:
            return False
        if not all_here or self.machine.seat is not None:  # others may look elsewhere
            return not self.changed
        return not self.changed.meets([self.touched[x] for x in found.loads if x in self.touched])


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


__all__ = ["GLANCE", "PAUSE", "TURNS_EACH", "WATCHED", "Watch", "livelock"]
