"""What is known of the shared memory of a batch, word by word, and the clocks of its threads.

See :mod:`~phasebit.emulator.checker.races` for what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.machine.barrier_sites import BarrierSite
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.types import Array

I4 = np.int32

Clocks = dict[int | tuple[int, int], Array]
"""Unit -> for each of its threads the time up to which it is known; the unit of another launch by
that one's number and its own."""

LIVE = int(np.iinfo(I4).max)
"""When the words of a live mbarrier were written: later than anybody knows of."""

SITES = 64
"""Columns for mbarriers that count copies; where there are more, two share one."""

AREA = 256
"""Neighbouring words of which it is noted together when each thread last read any."""

LATEST = 8
"""Of what brings threads together, so many times are remembered of each."""

PENDING = 256
"""Reads of shared memory that are noted before they are entered word by word."""


def remember(times: Array, of: Array, now: int) -> None:
    """``times`` (LATEST, n): the latest of each, this one first."""
    times[1:, of] = times[:-1, of]
    times[0, of] = now


class Fenced:
    """What each thread of a batch knew at its last fence, and when its latest were."""

    def __init__(self, clock: Array) -> None:
        self.rows = np.zeros_like(clock)
        self.times = np.zeros((LATEST, len(clock)), I4)

    def note(self, lanes: Array, rows: Array, now: int) -> None:
        """These threads fence."""
        self.rows[lanes] = rows
        remember(self.times, lanes, now)

    def until(self, lanes: Array, known: Array) -> Array:
        """When each of these last fenced, of the fences that are ``known``.

        Where none of those remembered is, older ones may be: they are taken to be.
        """
        times = self.times[:, lanes]
        latest: Array = times[0]
        if (latest <= known).all():
            return latest
        found = np.where(times <= known, times, 0).max(axis=0)
        return np.where(times[-1] > known, known, found)


@dataclass
class Heard:
    """What strong reads of a block have seen at an address, and may count on later."""

    waiting: Array
    """Of each thread: ``WAITS``, or ``LEFT``; 0: nothing."""
    near: Clocks
    """What was said to their cluster, or to the block alone."""
    home: Clocks
    """What of that a fence of ``.cta`` scope makes known."""
    far: Clocks
    """What was said to others."""
    scope: str
    """The reads'; nothing: one that reaches all."""
    access: int
    """The last one."""


WAITS, LEFT = 1, 2
"""For a fence or a barrier; for a fence of wider scope than the read."""


class StrongWrites:
    """What the last write of a word does not tell where strong ones follow each other.

    They race with none of each other, but with the plain store before them, and with a plain access
    behind them: each of them must be ordered with that.
    """

    def __init__(self, words: int, team: int) -> None:
        self.weak_time = np.zeros(words, I4)
        """When a word was last written by a plain store, where strong writes came after; else 0."""
        self.weak_writer = np.zeros(words, I4)
        self.weak_access = np.zeros(words, I4)
        self.times = np.zeros((words, team), I4)
        """When each thread last wrote each word strongly."""
        self.seen = np.zeros((words, team), I4)
        """When each thread last read it strongly: it has seen all strong writes before."""
        self.access = np.zeros(words, I4)
        """The last strong write."""
        self.latest = np.zeros(team, I4)
        """When each thread last wrote any word strongly."""


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
        self.strong: StrongWrites | None = None
        """What strong writes have hidden; None until there is one."""
        self.read_time = np.zeros(words, I4)
        self.read_access = np.zeros(words, I4)
        self.reader = np.zeros(words, I4)
        """The column of a thread that last read each word."""
        self.readers = np.zeros((words, self.team), I4)
        """When each thread last read each word, but for the reads that are ``pending``."""
        self.areas = np.zeros((words // AREA + 1, self.team), I4)
        """The latest of ``readers`` in each area: where that is known, no word is looked up."""
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
        self.wide = columns
        """Columns from here on: what of each thread's doings is known through operations whose
        scopes reach it, where it is of another block; only in a cluster."""
        self.narrow: dict[int, int] = {}
        """Rank of a block -> the operation of too small a scope that last told others of it."""
        if batch.machine.cluster_size > 1:
            columns += self.team
        self.relaxed = np.full(self.team, -1, I4)
        """The relaxed arrival that each thread has executed last; -1: none."""
        self.relaxed_time = np.zeros(self.team, I4)
        """When."""
        self.waits_at = np.full(batch.lanes, -1, I4)
        """The wait at an mbarrier that a thread has come to last."""
        self.waits_relaxed = np.zeros(batch.lanes, bool)
        """Whether that wait is relaxed."""
        self.waits_near = np.full(batch.lanes, -1, I4)
        """The wait of ``.cta`` scope that a thread has come to last; -1 after a wider one."""
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
        self.floors = np.zeros((LATEST, batch.count), I4)
        """The latest floors of each block, the present one first."""
        self.lowest = 0
        """The least of the floors."""
        self.version = 0
        """How often a floor or a clock has moved."""
        self.first = (batch.machine.next_block - batch.count) * batch.threads
        """The number of its first thread, through the whole grid."""
        self.fenced: dict[str, Fenced] = {}
        """``near`` and ``far``: fences for the same unit, and for others; ``cluster``: those of
        ``near`` that reach other blocks of the cluster; ``wide``: for other devices."""
        self.near_fence: dict[int, int] = {}
        """Rank of a block -> its last fence of ``.cta`` scope; only in a cluster."""
        self.unsettled: dict[tuple[int, int, str], Heard] = {}
        """What relaxed reads have seen, and others of small scope: by address, block, scope."""
        self.news = np.zeros(batch.lanes, bool)
        """Threads that have acquired something since their warp last shuffled."""

    def did(self, known: Array, lanes: Array, now: int) -> None:
        """Enter in what these threads publish all that they did until now."""
        own = self.threads(lanes)
        known[own] = now
        if self.wide < self.proxy:
            known[self.wide + own] = now

    def widen(self, lanes: Array) -> None:
        """A fence that reaches other blocks: what these threads know holds for those as well."""
        if self.narrow:
            wide = self.clock[lanes, self.wide : self.proxy]
            self.clock[lanes, self.wide : self.proxy] = np.maximum(
                wide, self.clock[lanes, : self.team]
            )
            self.version += 1

    def waited_near(self, slot: int, access: int) -> None:
        """Threads of a block have waited with ``.cta`` scope for what other blocks did."""
        size = self.batch.machine.cluster_size
        for rank in range(size):
            if rank != slot % size:
                self.narrow.setdefault(rank, access)

    def unit(self, lane: int) -> int:
        """The number of a thread's unit, a block or a cluster, through the whole grid."""
        return int(self.first + lane) // self.team

    def initialiser(self, lane: int) -> int:
        """The column of what a thread writes by ``mbarrier.init``, now."""
        if self.inits == self.wide:
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
        self.read(words.every - self.base, columns, now)
        self.last_remote[columns] = now
        self.read_access[x] = access

    def wrote_strongly(
        self, g: Group, words: Footprint, start: int, access: int, now: int
    ) -> None:
        """These threads are about to write strongly: keep what the writers' columns forget."""
        if self.strong is None:
            self.strong = StrongWrites(len(self.write_time), self.team)
        kept, once = self.strong, words.once + start
        weak = once[~self.write_strong[once] & (self.write_time[once] < LIVE)]
        kept.weak_time[weak] = self.write_time[weak]
        kept.weak_writer[weak] = self.writer[weak]
        kept.weak_access[weak] = self.write_access[weak]
        columns = self.threads(g.lanes)
        kept.times[words.every + start, columns] = now
        kept.access[once] = access
        kept.latest[columns] = now

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

    def barrier(self, slots: Array, now: int) -> None:
        """Everything up to now is ordered before what these blocks do."""
        self.floor[slots] = now
        remember(self.floors, slots, now)
        self.lowest = int(self.floor.min())
        self.version += 1
        if self.lowest == now:
            self.pending.clear()

    def floored(self, known: Array, floor: Array | np.int32) -> Array:
        """What is ``known``, rows or one, and what barriers of the block have ordered besides.

        These order no proxies: what only a fence makes known stays as it is.
        """
        found = np.maximum(known, floor)
        for part in (slice(self.proxy, self.warp_groups), slice(self.fences, None)):
            found[..., part] = known[..., part]
        return found

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
        first, last = (int(lane) // self.batch.threads for lane in g.lanes[[0, -1]])
        floor = self.floor[first : last + 1].min()
        known = np.maximum(self.clock[run(g.lanes)].min(axis=0), floor)
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

    def read(self, words: Array, columns: Array | int, time: int) -> None:
        """Enter in ``readers`` and ``areas`` that these threads read these words."""
        self.readers[words, columns] = time
        areas = words // AREA
        self.areas[areas, columns] = np.maximum(self.areas[areas, columns], time)

    def enter_reads(self) -> None:
        """Enter the reads that are pending."""
        for words, start, columns, time in self.pending:
            self.read(words.every + start, columns, time)
        self.pending.clear()

    def floor_of(self, g: Group) -> Array:
        """The floor of each thread's block."""
        return self.floor[self.batch.slots(g.lanes)]


def run(lanes: Array) -> Array | slice:
    """These rows of a table; lanes without a gap as a slice, which copies nothing."""
    first, last = int(lanes[0]), int(lanes[-1])
    return slice(first, last + 1) if last - first == len(lanes) - 1 else lanes


__all__ = [
    "AREA", "I4", "LEFT", "LIVE", "SITES", "WAITS", "Clocks", "Fenced", "Heard", "SharedShadow",
    "run",
]  # fmt: skip
