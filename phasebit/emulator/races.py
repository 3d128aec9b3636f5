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

In shared memory this is exact, thread by thread.  For each word of global memory it
remembers three readers: the last one, another of the same block, and one of another
block; that finds every race but those with readers of which some are ordered before
the write and some are not.  Order that comes through memory is in
:mod:`~phasebit.emulator.messages`.

Source: Flanagan and Freund, "FastTrack: efficient and precise dynamic race
detection", PLDI 2009, for epochs and clocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from phasebit.emulator.layout import readable
from phasebit.emulator.messages import Clocks, Fenced, Messages
from phasebit.emulator.proxies import SITES
from phasebit.emulator.types import SIZE, Array

if TYPE_CHECKING:
    from phasebit.emulator.footprint import Footprint
    from phasebit.emulator.group import Group
    from phasebit.emulator.hazards import Findings
    from phasebit.emulator.machine import Batch, Machine
    from phasebit.emulator.mbarriers import BarrierSite
    from phasebit.emulator.proxies import Engine
    from phasebit.emulator.syntax import Instruction
    from phasebit.emulator.tensor_checks import TensorChecks
    from phasebit.emulator.wgmma_checks import WarpGroupChecks

I4 = np.int32

PENDING = 256
"""Reads of shared memory that are noted before they are entered word by word."""


class SharedShadow:
    """What the checker knows about the shared memory of a batch, and its threads' clocks."""

    def __init__(
        self, batch: Batch, shift: int, copies: bool, bulk: bool = False, fences: bool = False
    ) -> None:
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
        self.reader = np.zeros(words, I4)
        """The column of a thread that last read each word."""
        self.readers = np.zeros((words, self.team), I4)
        """When each thread last read each word, but for the reads that are ``pending``."""
        self.pending: list[tuple[Footprint, int, Array, int]] = []
        """Reads not yet entered there: words, their start, columns of the threads, the time.
        Most are ordered before everything that follows, at the latest by the next barrier, before
        anybody needs to know who it was; then they need not be entered at all."""
        self.last_read = np.zeros(self.team, I4)
        """When each thread last read any word."""
        self.last_remote = np.zeros(self.team, I4)
        """When each thread last used a barrier of another block."""
        columns = self.team * (2 if copies else 1)
        self.bulk = columns
        """Columns from here on belong to the mbarriers that count bulk copies."""
        if bulk:
            columns += SITES
        self.sites: dict[tuple[int, int], int] = {}
        """Rank and place of an mbarrier -> its column."""
        self.site_time = np.zeros((batch.count, SITES), I4)
        """When the last copy began that each of them counts."""
        self.inits = columns
        """Columns from here on belong to what each thread did by ``mbarrier.init``, which
        ``fence.mbarrier_init`` publishes and nothing else it did; only in a cluster."""
        if batch.machine.cluster_size > 1:
            columns += self.team
        self.proxy = columns
        """Columns from here on: what of each thread's doings ``fence.proxy.async`` has made
        visible to the copy engine."""
        if bulk:
            columns += self.team
        self.warp_groups = columns
        """Columns from here on: what each warp group's multiplications are known to have read."""
        if bulk:
            columns += -(-self.team // 128)
        self.overwrites = columns
        """Columns from here on: up to when what each thread has read may be overwritten by bulk
        copies, for a ``fence.proxy.async`` or an arrival at a barrier lies between."""
        if bulk:
            columns += self.team
        self.fences = columns
        """Columns from here on: until when each thread's doings in tensor memory are fenced,
        ``tcgen05.fence::before_thread_sync``, on the way to others."""
        if fences:
            columns += self.team
        self.clock = np.zeros((batch.lanes, columns), I4)
        """Columns past ``team`` belong to the asynchronous copies of each thread."""
        self.init_fenced = np.zeros(batch.lanes, I4)
        """When each thread last executed ``fence.mbarrier_init``."""
        self.floor = np.zeros(batch.count, I4)
        self.lowest = 0
        """The least of the floors."""
        self.version = 0
        """How often a floor or a clock has moved."""
        self.first = (batch.machine.next_block - batch.count) * batch.threads
        """The number of its first thread, through the whole grid."""
        self.fenced: dict[str, Fenced] = {}
        """``near`` and ``far``: fences for the same unit, and for others."""
        self.unsettled: dict[tuple[int, int], tuple[Array, Clocks, Clocks]] = {}
        """What relaxed reads have seen: address, unit -> by whom, and what was published there."""
        self.news = np.zeros(batch.lanes, bool)
        """Threads that have acquired something since their warp last shuffled."""

    def unit(self, lane: int) -> int:
        """The number of a thread's unit, a block or a cluster, through the whole grid."""
        return int(self.first + lane) // self.team

    def initialiser(self, lane: int) -> int:
        """The column of what a thread writes by ``mbarrier.init``, now."""
        if self.inits == self.proxy:
            return lane % self.team
        column = self.inits + lane % self.team
        self.clock[lane, column] = self.batch.machine.now
        self.version += 1
        return column

    def site(self, site: BarrierSite) -> int:
        """The column of an mbarrier that counts bulk copies."""
        key = (site.slot % self.batch.machine.cluster_size, site.offset)
        return self.bulk + self.sites.setdefault(key, len(self.sites) % SITES)

    def site_name(self, column: int) -> str:
        """What the mbarrier is called that a column belongs to."""
        rank, offset = next(k for k, v in self.sites.items() if v == column - self.bulk)
        layout = self.batch.machine.program.layout
        return readable(layout.shared_name(offset)).removesuffix("+0") + (
            f" of rank {rank}" if self.batch.machine.cluster_size > 1 else ""
        )

    def site_started(self, site: BarrierSite, now: int) -> None:
        """A copy begins that this barrier counts."""
        self.site_time[site.slot, self.site(site) - self.bulk] = now

    def unobserved(self, slot: int) -> bool:
        """Whether a bulk copy to this block has begun that none of its threads has waited for."""
        if not self.sites:
            return False
        lanes = slice(slot * self.batch.threads, (slot + 1) * self.batch.threads)
        known = self.clock[lanes, self.bulk : self.bulk + SITES].max(axis=0)
        return bool((self.site_time[slot] > known).any())

    def note_remote(self, g: Group, words: Footprint, access: int, now: int) -> None:
        """These threads use a barrier of another block, which must not end before."""
        x = words.at(-self.base)
        columns = self.threads(g.lanes)
        self.readers[words.every - self.base, columns] = now
        self.last_remote[columns] = now
        self.read_access[x] = access

    def threads(self, lanes: Array) -> Array:
        """The columns of these threads."""
        return lanes if self.team == self.batch.lanes else lanes % self.team

    def learn(self, lanes: Array, known: Array) -> None:
        """What is ``known`` (a row for all, or one for each) is ordered before these threads."""
        rows = run(lanes)
        if isinstance(rows, slice):  # in place: making a new table takes longer than the maximum
            np.maximum(self.clock[rows], known, out=self.clock[rows])
        else:
            self.clock[rows] = np.maximum(self.clock[rows], known)
        self.version += 1

    def meet(self, lanes: Array, starts: Array, known: Array) -> None:
        """Each run of these threads now knows its row of ``known``, which is all they knew."""
        ends = [*starts[1:].tolist(), len(lanes)]
        for first, end, row in zip(starts.tolist(), ends, known, strict=True):
            self.clock[run(lanes[first:end])] = row
        self.version += 1

    def barrier(self, slots: Array, now: int) -> None:
        """Everything up to now is ordered before what these blocks do."""
        self.floor[slots] = now
        self.lowest = int(self.floor.min())
        self.version += 1
        if self.lowest == now:
            self.pending.clear()

    def share_fences(self, slots: Array) -> None:
        """A barrier of whole blocks: what one thread has fenced counts for all."""
        for slot in slots.tolist():
            lanes = slice(slot * self.batch.threads, (slot + 1) * self.batch.threads)
            self.clock[lanes, self.proxy :] = self.clock[lanes, self.proxy :].max(axis=0)

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

    def floor_of(self, g: Group) -> Array:
        """The floor of each thread's block."""
        return self.floor[self.batch.slots(g.lanes)]


class GlobalShadow:
    """Last writer and three readers of each word of global memory.

    A reader is kept as ``2 * thread + strong + 1``; 0 is nobody.  ``write_time`` is 0 for
    what was written before the launch, and negative for what nobody has written.
    """

    def __init__(self) -> None:
        self.size = 0
        self.write_time = np.zeros(0, I4)
        self.writer = np.zeros(0, np.int64)
        self.write_access = np.zeros(0, I4)
        self.write_strong = np.zeros(0, bool)
        self.readers = [Readers(), Readers(), Readers()]
        """The last reader; before it, another of the same unit; one of another unit."""

    def fit(self, size: int) -> None:
        """Cover ``size`` words; new ones were never touched."""
        if size <= self.size:
            return
        self.write_time, self.writer = _grown(self.write_time, size), _grown(self.writer, size)
        self.write_access = _grown(self.write_access, size)
        self.write_strong = _grown(self.write_strong, size)
        for readers in self.readers:
            readers.fit(size)
        self.size = size

    def read(
        self, once: Array, last: Array, first: Array | None, team: int, access: int, now: int
    ) -> None:
        """These words are read by ``last``; where several threads do, also by ``first``."""
        newest, same, foreign = self.readers
        before = newest.code[once]
        moved = (before != last) & (before > 0)
        if np.count_nonzero(moved):
            words, old = once[moved], before[moved]
            apart = (old - 1) // (2 * team) != (last[moved] - 1) // (2 * team)
            for slot, which in ((same, ~apart), (foreign, apart)):
                if np.count_nonzero(which):
                    some = words[which]
                    slot.note(some, old[which], newest.time[some], newest.access[some])
        newest.note(once, last, now, access)
        if first is not None:
            apart = (first - 1) // (2 * team) != (last - 1) // (2 * team)
            for slot, which in ((same, ~apart & (first != last)), (foreign, apart)):
                if np.count_nonzero(which):
                    slot.note(once[which], first[which], now, access)


class Readers:
    """One reader of each word, when it read, and at which access."""

    def __init__(self) -> None:
        self.code = np.zeros(0, np.int64)
        self.time = np.zeros(0, I4)
        self.access = np.zeros(0, I4)
        self.used = False

    def fit(self, size: int) -> None:
        self.code, self.time = _grown(self.code, size), _grown(self.time, size)
        self.access = _grown(self.access, size)

    def note(self, words: Array, code: Array, time: Array | int, access: Array | int) -> None:
        self.used = True
        self.code[words] = code
        self.time[words] = time
        self.access[words] = access


def _grown(array: Array, size: int) -> Array:
    new = np.zeros(size, array.dtype)
    new[: len(array)] = array
    return new


class Races:
    """Watches accesses and synchronisation; reports to ``findings``."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.findings = findings
        self.shift = _granule_shift(machine)
        engines = {
            _engine(i) for b in machine.program.blocks
            for i in (*b.body, *filter(None, [b.collective, b.end]))
        }  # fmt: skip
        self.bulk = "bulk" in engines
        """Whether the program has bulk copies, or tensor cores that read as they do."""
        self.copies = self.bulk or "threads" in engines
        self.tensor_fences = {
            word for b in machine.program.blocks for i in b.body if i.mnemonic == "tcgen05"
            for word in i.modifiers if word.startswith("fence::")
        }  # fmt: skip
        """Which halves of ``tcgen05.fence`` the program has."""
        self.engine: Engine
        self.tensor: TensorChecks
        self.wgmma: WarpGroupChecks
        self.shadows: dict[Batch, SharedShadow] = {}
        self.world = GlobalShadow()
        self.messages = Messages(machine, self)
        self.unwritten = self._find_unwritten()
        self.outsiders = machine.cluster_size > 1 or self.bulk
        """Whether others than its own threads can reach the shared memory of a block."""

    def start(self, batch: Batch) -> None:
        self.shadows[batch] = SharedShadow(
            batch, self.shift, self.copies, self.bulk, bool(self.tensor_fences)
        )
        self.world.fit(len(self.machine.memory.u1) >> self.shift)

    def finish(self, batch: Batch) -> None:
        del self.shadows[batch]
        self.tensor.finish(batch)
        if self.bulk:
            self.engine.finish(batch)
            self.wgmma.finish(batch)
        if not self.shadows and self.machine.next_block >= self.machine.blocks:
            for start, words in self.unwritten.items():
                written = np.repeat(self.world.write_time[words] >= 0, 1 << self.shift)
                self.machine.memory.settle(start, written)

    def _find_unwritten(self) -> dict[int, slice]:
        """Enter what nobody has written; the words of each such allocation, by its start."""
        found = {}
        for start, written in self.machine.memory.unwritten.items():
            self.world.fit(len(self.machine.memory.u1) >> self.shift)
            unit = 1 << self.shift
            words = slice(start // unit, (start + len(written)) // unit)
            whole = written[: len(written) // unit * unit].reshape(-1, unit)
            self.world.write_time[words] = np.where(whole.all(axis=1), 0, -1)
            found[start] = words
        return found

    # -- shared memory --------------------------------------------------------
    # Each looks first at every word once, and whether the whole group is ordered after the latest
    # of what was done to it.  Only where that is not certain, threads are looked at one by one.

    def shared_load(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool,
        note: bool = True,
    ) -> None:  # fmt: skip
        s = self.shadows[g.batch]
        start -= s.base
        once = words.at(start)
        times = s.write_time[once]
        if times.min() == 0:
            self._uninitialised(g, words.every + start, access)
        if times.max() > s.lowest and not s.ordered(g, s.writer[once], times):
            self._against_writer(s, g, words.every + start, access, strong, "reads")
        if note and not strong:
            s.note_read(g, words, start, self.machine.now)
            s.read_time[once] = self.machine.now
            s.read_access[once] = access
            if self.bulk:
                s.reader[once] = s.threads(g.lanes)[words.owner]

    def shared_store(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool,
        copies: bool = False, agent: int = -1,
    ) -> None:  # fmt: skip
        """Like ``shared_load``; ``copies``: asynchronous copies of the threads write.

        ``agent``: the column of who writes, where it is no thread.
        """
        s = self.shadows[g.batch]
        if self.bulk and self.engine.reading.get(g.batch):
            self.engine.against_readers(s, g, words.once + start, access)
        if self.bulk and self.wgmma.reads.get(g.batch):
            self.wgmma.against(g, words.once + start, access)
        if self.tensor.shadows:
            self.tensor.against_readers(s, g, words.once + start, access)
        start -= s.base
        once = words.at(start)
        times = s.write_time[once]
        if times.max() > s.lowest and not s.ordered(g, s.writer[once], times):
            self._against_writer(s, g, words.every + start, access, strong, "writes")
        latest = s.read_time[once].max()
        # A thread read these words neither after anybody did, nor after it read its last word.
        if latest > s.lowest and not s.ordered(
            g, slice(s.team), np.minimum(s.last_read, latest)
        ):  # fmt: skip
            s.enter_reads()
            self._against_readers(s, g, words.every + start, s.floor_of(g), access)
        writers = s.threads(g.lanes) + (s.team if copies else 0)
        s.write_time[once] = self.machine.now
        s.writer[once] = writers[words.owner] if agent < 0 else agent
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
        if not bad.any():
            return
        other = s.write_access[x][bad][0]
        if verb == "writes" and access >= 0 and np.all(s.write_access[x][bad] == access):
            again = bad & (writers < s.team)
            if again.any():
                self._again(s, g, x, again, access, int(writers[again][0]))
            bad &= ~again
            if not bad.any():
                return
        self._report(s, g, x, bad, access, verb, int(writers[bad][0]), other, "wrote")

    def _again(
        self, s: SharedShadow, g: Group, x: Array, bad: Array, access: int, other: int
    ) -> None:
        """One instruction of several warps writes one place: a race if the values differ.

        Compilers let all threads store the same number; threads of one group may, too.
        """
        words = np.unique(x[bad]) + s.base
        before = self._bytes(words)

        def settle() -> None:
            if not np.array_equal(before, self._bytes(words)):
                self._report(s, g, x, bad, access, "writes", other, access, "wrote")

        self.machine.doubts.append(settle)

    def writers_at(self, g: Group, word: int) -> Array:
        """The lanes of a group that may write a word of shared memory: those of its block.

        Where none of them is of that block, all: they reach into another one.
        """
        batch = g.batch
        slot = ((word << self.shift) - batch.shared_base) // batch.shared_stride
        own = g.lanes[g.lanes // batch.threads == slot]
        return own if len(own) else g.lanes

    def threads_wrote(self, g: Group, position: int) -> bool:
        """Whether threads, not copies, wrote this byte of shared memory last."""
        s = self.shadows[g.batch]
        return bool(s.writer[(position >> self.shift) - s.base] < s.team)

    def _bytes(self, words: Array) -> Array:
        unit = 1 << self.shift
        found: Array = self.machine.memory.u1[words[:, None] * unit + np.arange(unit)]
        return found

    def _against_readers(
        self, s: SharedShadow, g: Group, x: Array, floor: Array, access: int
    ) -> None:
        """Is every thread's last read ordered before this write?"""
        own = s.threads(g.lanes)
        team = s.team
        every = np.arange(g.n)
        for row in np.atleast_2d(x):
            late = s.readers[row] > s.clock[g.lanes, :team]
            late &= s.readers[row] > floor[:, None]
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
        copy = s.team <= other < s.inits
        other_lane = np.array([team + other % s.team])
        who = g.batch.describe(other_lane)
        message = (
            f"{g.batch.describe(np.array([lane]))} {verb} {where}: {self.findings.place(access)}; "
        )
        if copy:
            message += (
                f"a bulk copy writes it, and this thread has not waited for mbarrier "
                f"{s.site_name(other)}: " if other >= s.bulk else
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
        if s.unsettled:
            self.messages.settle(s, lanes)
        known: Array = s.clock[run(lanes)].max(axis=0)
        known[s.threads(lanes)] = self.machine.now
        if self.machine.cluster_size == 1:
            floor = s.floor[batch.slots(lanes[:1])[0]]
            known = np.maximum(known, floor) if floor and not self.copies else known
        return known

    def know(self, g: Group, lanes: Array, published: Array) -> bool:
        """Whether what these lanes did up to ``published`` is ordered before all of this group."""
        s = self.shadows[g.batch]
        if s.unsettled:
            self.messages.settle(s, g.lanes)
        columns = s.threads(lanes)
        known = np.maximum(s.clock[np.ix_(g.lanes, columns)], s.floor_of(g)[:, None])
        own = columns == s.threads(g.lanes)[:, None]
        return bool(((known >= published[columns]) | own).all())

    def acquire(self, g: Group, published: Array) -> None:
        self.shadows[g.batch].learn(g.lanes, published)

    def block_barrier(self, batch: Batch, slots: Array) -> None:
        """All threads of these blocks were here: everything so far is ordered before them."""
        s = self.shadows[batch]
        gone = batch.live < batch.lanes  # leaving the kernel orders nothing
        if gone or batch.machine.cluster_size > 1 or (batch.copies and batch.copies.copies) or (
            self.bulk and any(map(s.unobserved, slots.tolist()))
        ) or batch in self.tensor.shadows:  # fmt: skip
            for slot in slots:
                lanes = np.arange(slot * batch.threads, (slot + 1) * batch.threads)
                lanes = lanes[batch.alive[lanes]]
                known = self.frontier(batch, lanes)
                self.may_be_overwritten(s, lanes, known)
                s.learn(lanes, known)
        else:
            self.messages.barrier(batch, slots)
            s.barrier(slots, self.machine.now)
            if self.bulk:
                s.share_fences(slots)
        self.machine.now += 1

    def warp_barrier(self, g: Group) -> None:
        """The threads of each warp here wait for each other."""
        s = self.shadows[g.batch]
        if s.unsettled:
            self.messages.settle(s, g.lanes)
        warp = g.batch.warp_of[g.lanes]
        starts = np.flatnonzero(np.concatenate([[True], warp[1:] != warp[:-1]]))
        known = np.maximum.reduceat(s.clock[run(g.lanes)], starts, axis=0)
        number = np.cumsum(np.concatenate([[0], warp[1:] != warp[:-1]]))
        known[number, s.threads(g.lanes)] = self.machine.now
        s.meet(g.lanes, starts, known)
        self.machine.now += 1

    def shuffle(self, g: Group) -> None:
        """What a lane has acquired from other warps, the lanes it tells may rely on.

        A shuffle is no barrier: it orders nothing that the warp's own lanes did.
        """
        s = self.shadows[g.batch]
        if s.unsettled:
            self.messages.settle(s, g.lanes)
        if not s.news[g.lanes].any():
            return
        warps = g.batch.warp_of[g.lanes]
        for warp in np.unique(warps[s.news[g.lanes]]):
            lanes = g.lanes[warps == warp]
            known = s.clock[lanes].max(axis=0)
            own = s.threads(np.flatnonzero(g.batch.warp_of == warp))
            known[own] = 0
            s.learn(lanes, known)
            self.messages.tell(s, lanes)
            s.news[lanes] = False

    # -- clusters -------------------------------------------------------------

    def fence_initialised(self, g: Group) -> None:
        """``fence.mbarrier_init``: the barriers that these threads initialised may be published."""
        self.shadows[g.batch].init_fenced[g.lanes] = self.machine.now

    def initialised(self, batch: Batch, lanes: Array) -> Array:
        """What a relaxed arrival publishes: initialisations of barriers by threads that fence.

        CUTLASS (to 4.5, sm_100 in pairs) initialises one more barrier after the last fence, and
        that holds on every GPU; so it is asked of a thread whether it has fenced at all.
        """
        s = self.shadows[batch]
        known = np.zeros(s.clock.shape[1], I4)
        fenced = s.init_fenced[lanes] > 0
        known[s.inits + s.threads(lanes)] = np.where(fenced, self.machine.now, 0)
        known[s.fences :] = s.clock[lanes, s.fences :].max(axis=0)
        return known

    def may_be_overwritten(self, s: SharedShadow, lanes: Array, known: Array) -> None:
        """Bulk copies may overwrite what threads with this knowledge have read, or seen read."""
        if self.bulk:
            floor = s.floor[s.batch.slots(lanes[:1])[0]]
            known[s.overwrites : s.fences] = np.maximum(known[: s.team], floor)

    def tensor_fenced(self, batch: Batch, lanes: Array) -> Array:
        """What a relaxed arrival publishes: fenced operations on tensor memory."""
        s = self.shadows[batch]
        known = np.zeros(s.clock.shape[1], I4)
        known[s.fences :] = s.clock[lanes, s.fences :].max(axis=0)
        return known

    def block_ends(self, batch: Batch, slot: int) -> None:
        """All threads of a block have left: was all that others do to its memory done before?

        Before means: before the exit of one of its threads, for the memory stays until the last.
        """
        s = self.shadows[batch]
        own = np.arange(slot * batch.threads, (slot + 1) * batch.threads)
        known = s.clock[own].max(axis=0)
        known[: s.team] = np.maximum(known[: s.team], s.floor[slot])
        known[s.threads(own)] = known[s.team : s.bulk] = np.iinfo(I4).max
        self.tensor.block_ends(batch, slot)
        if self.bulk:
            self.engine.block_ends(batch, slot, known)
        start = slot * batch.shared_stride >> self.shift
        words = slice(start, start + (self.machine.shared_size >> self.shift))
        late = np.flatnonzero(s.write_time[words] > known[s.writer[words]])
        if len(late):
            word = start + int(late[0])
            self._outlives(s, slot, word, int(s.writer[word]), int(s.write_access[word]), "writes")
        # Most threads read their last word before: no word of theirs need be looked at.
        some = np.flatnonzero(np.maximum(s.last_read, s.last_remote) > known[: s.team])
        if not len(some):
            return
        s.enter_reads()
        late = np.flatnonzero((s.readers[words, some] > known[some]).any(axis=1))
        if len(late):
            word = start + int(late[0])
            who = int(np.argmax(s.readers[word] > known[: s.team]))
            self._outlives(s, slot, word, who, int(s.read_access[word]), "uses")

    def _outlives(
        self, s: SharedShadow, slot: int, word: int, who: int, access: int, verb: str
    ) -> None:
        batch = s.batch
        team = slot * batch.threads // s.team * s.team
        other = batch.describe(np.array([team + who % s.team]))
        if s.bulk <= who < s.inits:
            other = f"a bulk copy that mbarrier {s.site_name(who)} counts"
        self.findings.report(
            "cluster",
            f"block {int(batch.blocks[slot])} may leave the kernel before {other} {verb} its "
            f"{self._shared_name(s, word)}: {self.findings.place(access)}; nothing orders the "
            "two: let the cluster wait for all before a block ends",
            access, ("outlives", access),
        )  # fmt: skip

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

    def _unordered(self, g: Group, times: Array, who: Array, me: Array) -> Array:
        """Where an access at ``times`` by threads ``who`` is not ordered before this group."""
        s = self.shadows[g.batch]
        bad: Array = (times > 0) & (who != me)
        if not bad.any():
            return bad
        lanes = np.broadcast_to(g.lanes, times.shape)
        same = who // s.team == me // s.team
        near = bad & same
        if near.any():
            some, when = lanes[near], times[near]
            late = (when > s.clock[some, who[near] % s.team]) & (
                when > s.floor[some // g.batch.threads]
            )
            bad[near] = late
        far = bad & ~same
        if far.any():
            bad[far] = self.messages.unordered(s, lanes[far], times[far], who[far])
        return bad

    def global_load(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool
    ) -> None:
        w = self.world
        if self.bulk and self.engine.writing:
            self.engine.against_writers(g, words.once + start, access, "reads")
        w.fit(len(self.machine.memory.u1) >> self.shift)
        once = words.once + start
        times = w.write_time[once]
        if times.max() > 0:
            self._against_last(g, words.every + start, access, strong, "reads")
        if times.min() < 0:
            self._unwritten_global(g, words.every + start, access)
        s = self.shadows[g.batch]
        code = 2 * (g.lanes + s.first) + (2 if strong else 1)
        first = None if words.apart else code[words.first]
        w.read(once, code[words.owner], first, s.team, access, self.machine.now)

    def global_store(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool,
        reads: bool = False,
    ) -> None:  # fmt: skip
        """``reads``: the access is an atomic."""
        w = self.world
        if self.bulk and self.engine.writing:
            self.engine.against_writers(g, words.once + start, access, "writes", strong)
        w.fit(len(self.machine.memory.u1) >> self.shift)
        once = words.once + start
        me = g.lanes + self.shadows[g.batch].first
        times = w.write_time[once]
        if times.max() > 0:
            self._against_last(g, words.every + start, access, strong, "writes")
        if reads and times.min() < 0:
            self._unwritten_global(g, words.every + start, access)
        for readers in w.readers:
            if readers.used and readers.time[once].max() > 0:
                x = words.every + start
                code = readers.code[x]
                bad = self._unordered(g, readers.time[x], (code - 1) >> 1, me)
                if strong:
                    bad &= code % 2 == 1
                if bad.any():
                    self._report_global(g, x, bad, access, "writes", (code[bad][0] - 1) >> 1,
                                        readers.access[x][bad][0], "read")  # fmt: skip
        w.write_time[once] = self.machine.now
        w.writer[once] = me[words.owner]
        w.write_access[once] = access
        w.write_strong[once] = strong

    def _against_last(self, g: Group, x: Array, access: int, strong: bool, verb: str) -> None:
        """Is every last write ordered before this access?  ``x``: words, one column a thread."""
        w = self.world
        me = g.lanes + self.shadows[g.batch].first
        bad = self._unordered(g, w.write_time[x], w.writer[x], me)
        if strong:
            bad &= ~w.write_strong[x]
        if bad.any():
            self._report_global(g, x, bad, access, verb, w.writer[x][bad][0],
                                w.write_access[x][bad][0], "wrote")  # fmt: skip

    def _unwritten_global(self, g: Group, x: Array, access: int) -> None:
        bad = self.world.write_time[x] < 0
        lanes = np.broadcast_to(g.lanes, x.shape)[bad]
        self.findings.report(
            "uninitialised",
            f"{g.batch.describe(lanes[:1])} reads {self._global_name(int(x[bad][0]))}, which "
            f"nobody has written; {self.findings.place(access)}",
            access, ("uninitialised", access),
        )  # fmt: skip

    def _global_name(self, word: int) -> str:
        offset = word << self.shift
        allocation = self.machine.memory.find(offset)
        if allocation is None:
            return "?"
        return f"{allocation.name or 'an array'}[{offset - allocation.start} bytes in]"

    def _report_global(
        self, g: Group, x: Array, bad: Array, access: int, verb: str, other: int,
        other_access: int, other_verb: str,
    ) -> None:  # fmt: skip
        lane = np.broadcast_to(g.lanes, x.shape)[bad][:1]
        name = self._global_name(int(x[bad][0]))
        block, thread = divmod(int(other), g.batch.threads)
        who = f"thread {thread} of block {int(self.machine.order[block])}"
        self.findings.report(
            "race",
            f"{g.batch.describe(lane)} {verb} {name}: {self.findings.place(access)}; {who} "
            f"{other_verb} it, and nothing orders the two: "
            f"{self.findings.place(int(other_access))}",
            access, (access, int(other_access), verb, "global"),
        )  # fmt: skip


def run(lanes: Array) -> Array | slice:
    """These rows of a table; lanes without a gap as a slice, which copies nothing."""
    first, last = int(lanes[0]), int(lanes[-1])
    return slice(first, last + 1) if last - first == len(lanes) - 1 else lanes


def _engine(instruction: Instruction) -> str:
    """Which engine an instruction starts: ``threads`` (cp.async), ``bulk``, or none.

    Tensor cores read shared memory as bulk copies do.
    """
    if instruction.mnemonic in ("wgmma", "tcgen05", "clusterlaunchcontrol"):
        return "bulk"
    if instruction.mnemonic in ("st", "red") and "async" in instruction.modifiers:
        return "bulk"
    if instruction.mnemonic != "cp":
        return ""
    return "bulk" if "bulk" in instruction.modifiers else "threads"


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
