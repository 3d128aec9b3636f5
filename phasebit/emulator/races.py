"""Races, by happens-before (PTX ISA 8, the memory consistency model).

Two accesses to one place race when at least one writes, nothing orders them, and
not both are strong (atomic, volatile, relaxed or stronger).  Threads are ordered
by what they do at barriers.  The checker keeps:

*time*      one counter; it advances when a thread publishes what it has done
*shadow*    for each word who wrote it last and when, and when each thread last
            read it
*clocks*    ``clock[t, u]``: what thread ``u`` did up to this time is ordered before
            what ``t`` does now

An arrival at a barrier publishes the arriving threads' clocks, with their own
time set to now; a wait takes over what was published.  So an access is ordered
after an earlier one by thread ``u`` at time ``s`` exactly when ``clock[t, u] >= s``.
A barrier of the whole block moves a *floor*: whatever is older is ordered before
all threads of the block, and need not be looked up.

In shared memory this is exact, thread by thread, except that every strong write
is taken to release and every strong read to acquire.  In global memory the last
two readers of a word are remembered, and blocks order each other as wholes: a
race can be missed there, but no order that exists is overlooked.

Source: Flanagan and Freund, "FastTrack: efficient and precise dynamic race
detection", PLDI 2009, for epochs and clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasebit.emulator.layout import readable
from phasebit.emulator.types import SIZE, Array

if TYPE_CHECKING:
    from phasebit.emulator.footprint import Footprint
    from phasebit.emulator.group import Group
    from phasebit.emulator.hazards import Findings
    from phasebit.emulator.machine import Batch, Machine

I4 = np.int32

PENDING = 256
"""Reads of shared memory that are noted before they are entered word by word."""


class SharedShadow:
    """What the checker knows about the shared memory of a batch, and its threads' clocks."""

    def __init__(self, batch: Batch, shift: int, copies: bool) -> None:
        self.batch = batch
        self.team = batch.threads * batch.machine.cluster_size
        """Threads that can reach one shared memory: those of the cluster."""
        words = (batch.count * batch.shared_stride) >> shift
        self.base = batch.shared_base >> shift
        self.write_time = np.zeros(words, I4)
        self.writer = np.zeros(words, I4)
        self.write_access = np.zeros(words, I4)
        self.write_strong = np.zeros(words, bool)
        self.read_time = np.zeros(words, I4)
        self.read_access = np.zeros(words, I4)
        self.readers = np.zeros((words, self.team), I4)
        """When each thread last read each word, but for the reads that are ``pending``."""
        self.pending: list[tuple[Footprint, int, Array, int]] = []
        """Reads not yet entered there: words, their start, columns of the threads, the time.
        Most are ordered before everything that follows, at the latest by the next barrier, before
        anybody needs to know who it was; then they need not be entered at all."""
        self.last_read = np.zeros(self.team, I4)
        """When each thread last read any word."""
        agents = self.team * (2 if copies else 1)
        self.clock = np.zeros((batch.lanes, agents), I4)
        """Columns past ``team`` belong to the asynchronous copies of each thread."""
        self.floor = np.zeros(batch.count, np.int64)
        self.lowest = 0
        """The least of the floors."""
        self.version = 0
        """How often a floor or a clock has moved."""
        self.news = np.zeros(batch.lanes, bool)
        """Threads that have acquired something since their warp last shuffled."""

    def threads(self, lanes: Array) -> Array:
        """The columns of these threads."""
        return lanes if self.team == self.batch.lanes else lanes % self.team

    def learn(self, lanes: Array, known: Array) -> None:
        """What is ``known`` (a row for all, or one for each) is ordered before these threads."""
        rows = run(lanes)
        self.clock[rows] = np.maximum(self.clock[rows], known)
        self.version += 1

    def barrier(self, slots: Array, now: int) -> None:
        """Everything up to now is ordered before what these blocks do."""
        self.floor[slots] = now
        self.lowest = int(self.floor.min())
        self.version += 1
        if self.lowest == now:
            self.pending.clear()

    def ordered(self, g: Group, agents: Array | slice, times: Array) -> bool:
        """Is what these agents did at these times ordered before every thread of the group?

        True is certain; False may also mean: before some of them.  It compares with what all of
        the group know, one row instead of one for each thread.  That row is kept with the group:
        clocks and floors never go back, so an old one errs on the safe side.
        """
        version, known = g.known or (-1, None)
        if known is not None and not np.count_nonzero(times > known[agents]):
            return True
        if version == self.version:
            return False
        known = np.maximum(self.clock[run(g.lanes)].min(axis=0), self.lowest)
        g.known = (self.version, known)
        return not np.count_nonzero(times > known[agents])

    def note_read(self, g: Group, words: Footprint, start: int, now: int) -> None:
        """These threads read these words."""
        columns = self.threads(g.lanes)
        self.last_read[columns] = now
        self.pending.append((words, start, columns, now))
        if len(self.pending) > PENDING:
            alive = self.clock[self.batch.alive, : self.team].min(axis=0)
            known = np.maximum(alive, self.lowest)
            self.pending = [p for p in self.pending if np.count_nonzero(p[3] > known[p[2]])]
            if len(self.pending) > PENDING // 2:
                self.enter_reads()

    def enter_reads(self) -> None:
        """Enter the reads that are pending."""
        for words, start, columns, time in self.pending:
            self.readers[words.every + start, columns] = time
        self.pending.clear()

    def floor_of(self, g: Group) -> int:
        if self.batch.count == 1:
            return int(self.floor[0])
        return int(self.floor[self.batch.slots(g.lanes)].min())


class GlobalShadow:
    """Last writer and last two readers of each word of global memory."""

    def __init__(self) -> None:
        self.size = 0
        self.write_time = np.zeros(0, I4)
        self.writer = np.zeros(0, np.int64)
        self.write_access = np.zeros(0, I4)
        self.write_strong = np.zeros(0, bool)
        self.read_time = [np.zeros(0, I4), np.zeros(0, I4)]
        self.reader = [np.zeros(0, np.int64), np.zeros(0, np.int64)]
        self.read_access = np.zeros(0, I4)

    def fit(self, size: int) -> None:
        """Cover ``size`` words; new ones were never touched."""
        if size <= self.size:
            return

        def grown(array: Array) -> Array:
            new = np.zeros(size, array.dtype)
            new[: self.size] = array
            return new

        self.write_time, self.writer = grown(self.write_time), grown(self.writer)
        self.write_access, self.write_strong = grown(self.write_access), grown(self.write_strong)
        self.read_time = [grown(a) for a in self.read_time]
        self.reader = [grown(a) for a in self.reader]
        self.read_access = grown(self.read_access)
        self.size = size


class Races:
    """Watches accesses and synchronisation; reports to ``findings``."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.findings = findings
        self.shift = _granule_shift(machine)
        self.copies = any(i.mnemonic == "cp" for b in machine.program.blocks for i in b.body)
        self.shadows: dict[Batch, SharedShadow] = {}
        self.world = GlobalShadow()
        self.cross: dict[int, dict[int, int]] = {}
        """Block -> other block -> the time up to which the other is ordered before it."""
        self.messages: dict[int, _Message] = {}
        """Address of a strong write -> what it published."""

    def start(self, batch: Batch) -> None:
        self.shadows[batch] = SharedShadow(batch, self.shift, self.copies)
        self.world.fit(len(self.machine.memory.u1) >> self.shift)

    def finish(self, batch: Batch) -> None:
        del self.shadows[batch]

    # -- shared memory --------------------------------------------------------
    # Each looks first at every word once, and whether the whole group is ordered after the latest
    # of what was done to it.  Only where that is not certain, threads are looked at one by one.

    def shared_load(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool
    ) -> None:
        s = self.shadows[g.batch]
        start -= s.base
        once = words.once + start
        times = s.write_time[once]
        if times.min() == 0:
            self._uninitialised(g, words.every + start, access)
        if times.max() > s.lowest and not s.ordered(g, s.writer[once], times):
            self._against_writer(s, g, words.every + start, access, strong, "reads")
        if not strong:
            s.note_read(g, words, start, self.machine.now)
            s.read_time[once] = self.machine.now
            s.read_access[once] = access

    def shared_store(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool,
        copies: bool = False,
    ) -> None:  # fmt: skip
        """Like ``shared_load``; ``copies``: asynchronous copies of the threads write."""
        s = self.shadows[g.batch]
        start -= s.base
        once = words.once + start
        times = s.write_time[once]
        if times.max() > s.lowest and not s.ordered(g, s.writer[once], times):
            self._against_writer(s, g, words.every + start, access, strong, "writes")
        # A thread read these words neither after anybody did, nor after it read its last word.
        latest = np.minimum(s.last_read, s.read_time[once].max())
        if latest.max() > s.lowest and not s.ordered(g, slice(s.team), latest):
            s.enter_reads()
            self._against_readers(s, g, words.every + start, s.floor_of(g), access)
        writers = s.threads(g.lanes) + (s.team if copies else 0)
        s.write_time[once] = self.machine.now
        s.writer[once] = writers[words.owner]
        s.write_access[once] = access
        s.write_strong[once] = strong

    def _against_writer(
        self, s: SharedShadow, g: Group, x: Array, access: int, strong: bool, verb: str
    ) -> None:
        """Is every last write ordered before this access?  ``x``: words, one column a thread."""
        times, writers = s.write_time[x], s.writer[x]
        lanes = np.broadcast_to(g.lanes, x.shape)
        bad = (times > s.clock[lanes, writers]) & (writers != s.threads(g.lanes))
        bad &= times > s.floor_of(g)
        if strong:
            bad &= ~s.write_strong[x]
        if bad.any():
            other = s.write_access[x][bad][0]
            self._report(s, g, x, bad, access, verb, int(writers[bad][0]), other, "wrote")

    def _against_readers(
        self, s: SharedShadow, g: Group, x: Array, floor: int, access: int
    ) -> None:
        """Is every thread's last read ordered before this write?"""
        own = s.threads(g.lanes)
        team = s.team
        every = np.arange(g.n)
        for row in np.atleast_2d(x):
            late = s.readers[row] > s.clock[g.lanes, :team]
            late &= s.readers[row] > floor
            late[every, own] = False
            if late.any():
                i, reader = (int(v[0]) for v in np.nonzero(late))
                bad = np.zeros(g.n, bool)
                bad[i] = True
                self._report(s, g, row, bad, access, "writes", reader,
                             s.read_access[row[i]], "read")  # fmt: skip
                return

    def _uninitialised(self, g: Group, x: Array, access: int) -> None:
        s = self.shadows[g.batch]
        bad = s.write_time[x] == 0
        bad &= (x << self.shift) % s.batch.shared_stride < self.machine.reserved
        if not bad.any():  # what the system keeps for itself, it has also initialised
            return
        lanes = np.broadcast_to(g.lanes, x.shape)[bad]
        where = self._shared_name(s, int(x[bad][0]))
        self.findings.report(
            "uninitialised",
            f"{g.batch.describe(lanes[:1])} reads {where}, which nobody has written; "
            f"{self.findings.place(access)}",
            access, ("uninitialised", access),
        )  # fmt: skip

    def _shared_name(self, s: SharedShadow, word: int) -> str:
        offset = (word << self.shift) % s.batch.shared_stride
        name = self.machine.program.layout.shared_name(offset)
        return f"{readable(name.split('+')[0])}[{name.split('+')[-1]} bytes in]"

    def _report(
        self, s: SharedShadow, g: Group, x: Array, bad: Array, access: int, verb: str,
        other: int, other_access: int, other_verb: str,
    ) -> None:  # fmt: skip
        lanes = np.broadcast_to(g.lanes, np.shape(x))[bad]
        lane = int(lanes[0])
        where = self._shared_name(s, int(x[bad][0]))
        team = lane - lane % s.team
        copy = other >= s.team
        other_lane = np.array([team + other % s.team])
        who = g.batch.describe(other_lane)
        message = (
            f"{g.batch.describe(np.array([lane]))} {verb} {where}: {self.findings.place(access)}; "
        )
        if copy:
            message += (
                f"an asynchronous copy of {who} writes it and nobody has waited for it: "
                f"{self.findings.place(int(other_access))}"
            )
        else:
            message += (
                f"{who} {other_verb} it, and nothing orders the two: "
                f"{self.findings.place(int(other_access))}"
            )
        self.findings.report("async" if copy else "race", message, access,
                             (access, int(other_access), verb, copy))  # fmt: skip

    # -- publishing and learning ----------------------------------------------

    def frontier(self, batch: Batch, lanes: Array) -> Array:
        """What these threads publish: all they know, and all they did until now."""
        s = self.shadows[batch]
        known: Array = s.clock[run(lanes)].max(axis=0)
        known[s.threads(lanes)] = self.machine.now
        if self.machine.cluster_size == 1:
            floor = s.floor[batch.slots(lanes[:1])[0]]
            known = np.maximum(known, floor) if floor and not self.copies else known
        return known

    def acquire(self, g: Group, published: Array) -> None:
        self.shadows[g.batch].learn(g.lanes, published)

    def block_barrier(self, batch: Batch, slots: Array) -> None:
        """All threads of these blocks were here: everything so far is ordered before them."""
        s = self.shadows[batch]
        gone = batch.live < batch.lanes  # leaving the kernel orders nothing
        if gone or batch.machine.cluster_size > 1 or (batch.copies and batch.copies.copies):
            for slot in slots:
                lanes = np.arange(slot * batch.threads, (slot + 1) * batch.threads)
                lanes = lanes[batch.alive[lanes]]
                s.learn(lanes, self.frontier(batch, lanes))
        else:
            s.barrier(slots, self.machine.now)
        self.machine.now += 1

    def warp_barrier(self, g: Group) -> None:
        """The threads of each warp here wait for each other."""
        s = self.shadows[g.batch]
        warp = g.batch.warp_of[g.lanes]
        starts = np.flatnonzero(np.concatenate([[True], warp[1:] != warp[:-1]]))
        known = np.maximum.reduceat(s.clock[run(g.lanes)], starts, axis=0)
        number = np.cumsum(np.concatenate([[0], warp[1:] != warp[:-1]]))
        known[number, s.threads(g.lanes)] = self.machine.now
        s.learn(g.lanes, known[number])
        self.machine.now += 1

    def shuffle(self, g: Group) -> None:
        """What a lane has acquired from other warps, the lanes it tells may rely on.

        A shuffle is no barrier: it orders nothing that the warp's own lanes did.
        """
        s = self.shadows[g.batch]
        if not s.news[g.lanes].any():
            return
        warps = g.batch.warp_of[g.lanes]
        for warp in np.unique(warps[s.news[g.lanes]]):
            lanes = g.lanes[warps == warp]
            known = s.clock[lanes].max(axis=0)
            own = s.threads(np.flatnonzero(g.batch.warp_of == warp))
            known[own] = 0
            s.learn(lanes, known)
            s.news[lanes] = False

    # -- asynchronous copies --------------------------------------------------

    def copy_observed(self, batch: Batch, lanes: Array, started: int) -> None:
        """These threads waited for copies that they started at this time."""
        s = self.shadows[batch]
        column = s.team + s.threads(lanes)
        s.clock[lanes, column] = np.maximum(s.clock[lanes, column], started)
        s.version += 1

    def copies_frontier(self, batch: Batch, lanes: Array) -> Array:
        """What an arrival by the threads' copies publishes: the copies."""
        s = self.shadows[batch]
        known = np.zeros(s.clock.shape[1], I4)
        known[s.team + s.threads(lanes)] = self.machine.now
        return known

    # -- global memory --------------------------------------------------------

    def _thread_numbers(self, g: Group) -> Array:
        """Numbers of threads through the whole grid."""
        batch = g.batch
        numbers: Array
        if batch.count == 1:
            numbers = g.lanes + batch.blocks[0] * batch.threads
            return numbers
        slot = batch.slots(g.lanes)
        numbers = batch.blocks[slot] * batch.threads + (g.lanes - slot * batch.threads)
        return numbers

    def _unordered(self, g: Group, times: Array, who: Array, me: Array) -> Array:
        """Where an access at ``times`` by threads ``who`` is not ordered before this group."""
        threads = g.batch.threads
        s = self.shadows[g.batch]
        suspects: Array = (times > 0) & (who != me)
        if not suspects.any():
            return suspects
        their, mine = who // threads, me // threads
        same = their == mine
        lanes = np.broadcast_to(g.lanes, times.shape)
        slot_thread = who % threads
        column = s.threads(lanes - lanes % threads + slot_thread)
        floors = s.floor[lanes // threads]
        ordered = same & ((times <= s.clock[lanes, column]) | (times <= floors))
        bad: Array = suspects & ~ordered
        foreign = bad & ~same
        if foreign.any():
            mine = np.broadcast_to(mine, times.shape)
            pairs = {(int(a), int(b)) for a, b in zip(mine[foreign], their[foreign], strict=True)}
            for a, b in pairs:
                until = self.cross.get(a, {}).get(b, 0)
                bad &= ~((mine == a) & (their == b) & (times <= until))
        return bad

    def global_load(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool
    ) -> None:
        w = self.world
        w.fit(len(self.machine.memory.u1) >> self.shift)
        once = words.once + start
        if w.write_time[once].max() > 0:
            self._against_last(g, words.every + start, access, strong, "reads")
        if not strong:
            me = self._thread_numbers(g)[words.owner]
            before = w.reader[0][once]
            fresh = before != me
            if np.count_nonzero(fresh):
                moved = once[fresh]
                w.reader[1][moved] = before[fresh]
                w.read_time[1][moved] = w.read_time[0][moved]
                w.reader[0][once] = me
            w.read_time[0][once] = self.machine.now
            w.read_access[once] = access

    def global_store(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool
    ) -> None:
        w = self.world
        w.fit(len(self.machine.memory.u1) >> self.shift)
        once = words.once + start
        me = self._thread_numbers(g)
        if w.write_time[once].max() > 0:
            self._against_last(g, words.every + start, access, strong, "writes")
        for reader, read_time in zip(w.reader, w.read_time, strict=True):
            if read_time[once].max() > 0:
                x = words.every + start
                bad = self._unordered(g, read_time[x], reader[x], me)
                if bad.any():
                    self._report_global(g, x, bad, access, "writes", reader[x][bad][0],
                                        w.read_access[x][bad][0], "read")  # fmt: skip
        w.write_time[once] = self.machine.now
        w.writer[once] = me[words.owner]
        w.write_access[once] = access
        w.write_strong[once] = strong

    def _against_last(self, g: Group, x: Array, access: int, strong: bool, verb: str) -> None:
        """Is every last write ordered before this access?  ``x``: words, one column a thread."""
        w = self.world
        bad = self._unordered(g, w.write_time[x], w.writer[x], self._thread_numbers(g))
        if strong:
            bad &= ~w.write_strong[x]
        if bad.any():
            self._report_global(g, x, bad, access, verb, w.writer[x][bad][0],
                                w.write_access[x][bad][0], "wrote")  # fmt: skip

    def _report_global(
        self, g: Group, x: Array, bad: Array, access: int, verb: str, other: int,
        other_access: int, other_verb: str,
    ) -> None:  # fmt: skip
        lane = np.broadcast_to(g.lanes, x.shape)[bad][:1]
        offset = int(x[bad][0]) << self.shift
        allocation = self.machine.memory.find(offset)
        name = f"{allocation.name}[{offset - allocation.start} bytes in]" if allocation else "?"
        threads = g.batch.threads
        who = f"thread {int(other) % threads} of block {int(other) // threads}"
        self.findings.report(
            "race",
            f"{g.batch.describe(lane)} {verb} {name}: {self.findings.place(access)}; {who} "
            f"{other_verb} it, and nothing orders the two: "
            f"{self.findings.place(int(other_access))}",
            access, (access, int(other_access), verb, "global"),
        )  # fmt: skip

    # -- messages through memory ----------------------------------------------

    def send(self, g: Group, positions: Array) -> None:
        """Strong writes publish what their threads know, at their addresses."""
        batch = g.batch
        for position in np.unique(positions).tolist():
            lanes = g.lanes[positions == position]
            message = self.messages.setdefault(position, _Message())
            message.version += 1
            for slot in np.unique(batch.slots(lanes)).tolist():
                mine = lanes[batch.slots(lanes) == slot]
                block = int(batch.blocks[slot])
                known = self.frontier(batch, mine)
                before = message.clocks.get(block)
                message.clocks[block] = known if before is None else np.maximum(before, known)
                message.learn(self.cross.get(block, {}))
                message.learn({block: self.machine.now})
        self.machine.now += 1

    def receive(self, g: Group, positions: Array) -> None:
        """Strong reads learn what was published at their addresses."""
        batch = g.batch
        s = self.shadows[batch]
        for position in np.unique(positions).tolist():
            message = self.messages.get(position)
            if message is None:
                continue
            lanes = g.lanes[positions == position]
            for slot in np.unique(batch.slots(lanes)).tolist():
                block = int(batch.blocks[slot])
                mine = lanes[batch.slots(lanes) == slot]
                news = message.seen.setdefault(block, np.zeros(batch.threads, np.int64))
                threads = mine - slot * batch.threads
                if int(news[threads].min()) == message.version:
                    continue  # a spinning thread looks again at what it has seen
                news[threads] = message.version
                if block in message.clocks:
                    s.learn(mine, message.clocks[block])
                    s.news[mine] = True
                table = self.cross.setdefault(block, {})
                for other, time in message.blocks.items():
                    if other != block and time > table.get(other, 0):
                        table[other] = time


class _Message:
    """What strong writes to one address have published."""

    def __init__(self) -> None:
        self.clocks: dict[int, Array] = {}
        """Block -> clocks of its threads."""
        self.blocks: dict[int, int] = {}
        """Block -> up to which time it is published as a whole."""
        self.version = 0
        self.seen: dict[int, Array] = {}
        """Block -> the version that each of its threads has received."""

    def learn(self, table: dict[int, int]) -> None:
        for block, time in table.items():
            if time > self.blocks.get(block, 0):
                self.blocks[block] = time


def run(lanes: Array) -> Array | slice:
    """These rows of a table; lanes without a gap as a slice, which copies nothing."""
    first, last = int(lanes[0]), int(lanes[-1])
    return slice(first, last + 1) if last - first == len(lanes) - 1 else lanes


def _granule_shift(machine: Machine) -> int:
    """Look at words of 4 bytes, unless the program has narrower accesses."""
    narrowest = 4
    for graph in machine.program.graphs.values():
        for instruction, chosen in graph.selected.items():
            if instruction.mnemonic in ("ld", "st", "atom", "red") and chosen.types:
                space = chosen.options.get("space", "generic")
                if space in ("shared", "global", "generic"):
                    narrowest = min(narrowest, SIZE[chosen.types[0]])
    return narrowest.bit_length() - 1
