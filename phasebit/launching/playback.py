"""One block of a run on the emulator, step by step: for the replays in the pages.

A :class:`Recorder` listens to a launch and keeps what one block does: which block of the program
each warp runs when, what waits, each change of an mbarrier, what copies and products are under
way, which banks of shared memory are asked, and when something was found.

Time is the emulator's clock, an instruction one cycle, with one addition.  That clock lets copies
and products take no time; here what was begun ends when the schedule ends it: under ``eager`` at
once, under ``late`` when all who wait for it have come.  Whoever waits goes on at that moment.
The clock is that of the block's cluster: recorders of its blocks tell of the same moments.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from phasebit.emulator import (
    ABSENT,
    Access,
    AccessObserver,
    BlockBarrierObserver,
    BulkCopyObserver,
    ClusterObserver,
    Counters,
    LaunchObserver,
    MbarrierObserver,
    TensorObserver,
    ThreadCopyObserver,
    WarpGroupObserver,
    traffic,
)

BLOCK_BARRIER = -1
"""``__syncthreads()`` among what a warp waits for; the named barriers 1, 2, … are -2, -3, …"""
CLUSTER_BARRIER = -100
"""The barrier of the block's cluster, likewise."""


@dataclass(frozen=True)
class State:
    """An mbarrier from a moment on: phase, arrivals missing and expected, bytes missing."""

    at: int
    phase: int
    pending: int
    expected: int
    tx: int


@dataclass(frozen=True)
class Wait:
    """Threads wait for an mbarrier, by its place in shared memory; ``end`` None: for ever."""

    warps: tuple[int, ...]
    barrier: int
    start: int
    end: int | None
    lanes: tuple[int, ...] = ()
    """Which threads: of a warp whose threads part, some wait while others execute."""


@dataclass
class Work:
    """What the copy engine or the tensor core has under way; ``end`` None: it never ends."""

    engine: str
    """``copy engine``, ``tensor core``, ``cp.async``."""
    warps: tuple[int, ...]
    start: int
    end: int | None
    bytes: int = 0
    barrier: int | None = None
    """The place of the mbarrier that it tells."""
    group: int = 0
    """Of ``cp.async``: the commit group of its first thread."""
    places: tuple[int, int] = (0, 0)
    """Of ``cp.async``: the first byte of shared memory that it writes, and the one past all."""
    block: int = 0
    """In which block the mbarrier lies."""


@dataclass(frozen=True)
class Touch:
    """One request of a warp to shared memory."""

    at: int
    warp: int
    load: bool
    size: int
    """Bytes that a lane asks for."""
    wavefronts: int
    lost: int
    """Wavefronts that bank conflicts cost."""
    banks: tuple[int, ...]
    """Of each of the 32 banks, how many words it gives or takes, parts of the warp added up."""
    places: tuple[int, int]
    """The first byte, and the one past the last."""


@dataclass(eq=False)
class Recorder(
    LaunchObserver, MbarrierObserver, BlockBarrierObserver, ClusterObserver, TensorObserver,
    BulkCopyObserver, WarpGroupObserver, ThreadCopyObserver, AccessObserver,
):  # fmt: skip
    """Listens to one launch; see the module's text. Moments are cycles."""

    block: int = 0
    """Which block is kept: its number among those that run first."""
    launch: int = 0
    """Of which launch, from 0, where a program launches several kernels."""
    steps: list[tuple[int, int, Any]] = field(default_factory=list)
    """When, which block of the program, which threads."""
    waits_: list[Wait] = field(default_factory=list)
    every: dict[tuple[int, int], list[State]] = field(default_factory=dict)
    """Block, place of an mbarrier in its shared memory -> how it was."""
    called: dict[tuple[int, int], str] = field(default_factory=dict)
    """Block, place of an mbarrier -> the emulator's name of it."""
    passed: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    """When, at which mbarrier, which warps went on."""
    elsewhere: list[tuple[int, int, int]] = field(default_factory=list)
    """The same of other blocks: when, in which block, at which mbarrier."""
    works: list[Work] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    """When, for each finding but the one that ends a kernel."""
    left: dict[int, int] = field(default_factory=dict)
    """Thread -> when it left the kernel."""
    touches: list[Touch] = field(default_factory=list)
    batch: Any = None
    last: Any = None
    launches: int = 0

    def __post_init__(self) -> None:
        self.asked: dict[tuple[int, int], int] = {}
        self.opened: dict[tuple[int, int], int] = {}
        self.came = self.met = 0
        self.ends_at: int | None = None
        self.copies: dict[int, Work] = {}
        self.products: dict[int, Work] = {}
        self.queue: dict[int, list[Work]] = {}
        self.committed: dict[int, tuple[int, int, list[Work]]] = {}
        self.done: dict[int, int] = {}
        self.kept: list[Any] = []
        self.fetches: list[tuple[Any, Work]] = []
        self.named: dict[int, Any] = {}

    # -- the clock ------------------------------------------------------------

    def starts(self, batch: Any) -> None:
        if batch.machine is not self.last:
            self.last = batch.machine
            self.launches += 1
        if self.batch is None and self.launches == self.launch + 1:
            self.batch = batch
            self.delay = np.zeros(batch.lanes, np.int64)
            self.first = self.block * batch.threads
            size = batch.machine.cluster_size
            start = self.block // size * size
            self.cluster = range(start, start + size)
            program = batch.machine.program
            self.traffic = traffic.Traffic(program, Counters())
            place = {id(instruction): k for block in program.blocks
                     for k, instruction in enumerate(block.instructions)}  # fmt: skip
            self.within = {n: place.get(id(each), 0) for n, each in enumerate(program.instructions)}

    def lanes(self, warp: int = 0, warps: int | None = None) -> range:
        """The threads of some warps of the block, of all if not said: their lanes."""
        threads = self.batch.threads
        end = threads if warps is None else min(32 * (warp + warps), threads)
        return range(self.first + 32 * warp, self.first + end)

    def _own(self, lanes: Any) -> Any:
        """Those of some lanes, in order, that are the block's."""
        low, high = np.searchsorted(lanes, (self.first, self.first + self.batch.threads))
        return lanes[low:high]

    def _near(self, g: Any) -> bool:
        """Whether a group has threads of the block's cluster."""
        if g.batch is not self.batch:
            return False
        threads = self.batch.threads
        low, high = np.searchsorted(
            g.lanes, (self.cluster.start * threads, self.cluster.stop * threads)
        )
        return bool(low < high)

    def _mine(self, g: Any) -> bool:
        """Whether a group has threads of the block."""
        return self._near(g) and len(self._own(g.lanes)) > 0

    def now(self, g: Any) -> int:
        """The moment of a group, here."""
        return int(g.time + self.delay[g.lanes].max())

    def _set(self, lanes: Any, moment: int, clock: int) -> None:
        """These threads stand at a moment when the emulator's clock says ``clock``."""
        self.delay[lanes] = moment - clock

    def _warps(self, lanes: Any) -> tuple[int, ...]:
        return tuple(np.unique((self._own(lanes) - self.first) // 32).tolist())

    def _landing(self, site: Any = None) -> int:
        """When something under way ends: now, or when all who wait for it have come."""
        machine = self.batch.machine
        running = machine.running
        if machine.executing_access() >= 0 and running.batch is self.batch:
            return self.now(running)
        waiters = [g for g, *_ in site.waiters] if site is not None else []
        return max(map(self.now, waiters or list(machine.parked) or [running]))

    # -- threads --------------------------------------------------------------

    def enters(self, g: Any) -> None:
        if self._near(g):
            at = self.now(g)
            self._set(g.lanes, at, g.time)
            if len(own := self._own(g.lanes)):
                self.steps.append((at, g.pc, own))

    def leaves(self, g: Any) -> None:
        if self._mine(g):
            self.left.update(dict.fromkeys(self._own(g.lanes).tolist(), self.now(g)))

    def finds(self) -> None:
        if self.batch is None or self.last is not self.batch.machine:
            return  # of another launch
        running = self.batch.machine.running
        near = running is not None and self._near(running)
        self.found.append(self.now(running) if near else self.end)

    def joins_barrier(self, g: Any, barrier: Any) -> None:
        if self._near(g):
            if self._mine(g):
                self.named[BLOCK_BARRIER - barrier.number] = barrier
            for lane in g.lanes.tolist():
                self.asked[lane, BLOCK_BARRIER - barrier.number] = self.now(g)

    def opens_barrier(
        self, barrier: Any, lanes: Any, groups: Any, instructions: Any, everyone: bool
    ) -> None:
        number = BLOCK_BARRIER - barrier.number
        came = [self.asked.pop((lane, number), 0) for lane in lanes.tolist()]
        if not groups or not self._near(groups[0]):
            return
        clock = max(g.time for g in groups)
        moment = max(*came, *map(self.now, groups))
        for g in groups:
            self._waited(g, number, self.now(g), moment)
            self._set(g.lanes, moment, clock)

    # -- the barrier of a cluster ---------------------------------------------

    def joins_cluster(self, g: Any, barrier: Any, one: int, lanes: Any, sem: str) -> None:
        if self._near(g):
            self.came = max(self.came, self.now(g))

    def opens_cluster(self, barrier: Any, one: int) -> None:
        if barrier.batch is self.batch and one == self.cluster.start // len(self.cluster):
            self.met, self.came = self.came, 0

    def passes_cluster(self, g: Any, barrier: Any, one: int) -> None:
        if self._near(g):
            start = self.now(g)
            moment = max(start, self.met)
            self._waited(g, CLUSTER_BARRIER, start, moment)
            self._set(g.lanes, moment, max(g.time, int(barrier.time[one])))

    # -- mbarriers ------------------------------------------------------------

    def operated(self, g: Any, site: Any) -> None:
        if site.batch is not self.batch or site.slot not in self.cluster:
            return
        self._fetched(site)
        self.called[site.slot, site.offset] = site.name
        at = self.now(g) if self.ends_at is None else self.ends_at
        self.ends_at = None
        b = site.barrier
        before = self.every.setdefault((site.slot, site.offset), [])
        if before:
            at = max(at, before[-1].at)
            if b.phase != before[-1].phase:
                self.opened[site.slot, site.offset] = at
        before.append(State(at, b.phase, b.pending, b.expected, b.tx))

    def waits(self, g: Any, site: Any, blocked: bool) -> None:
        if self._near(g):
            for lane in g.lanes.tolist():  # who asks again has waited since the first time
                self.asked.setdefault((lane, site.offset), self.now(g))

    def passes(self, g: Any, site: Any) -> None:
        if not self._near(g):
            return
        asked = [self.asked.pop((lane, site.offset), None) for lane in g.lanes.tolist()]
        moment = max(self.now(g), self.opened.get((site.slot, site.offset), 0))
        start = max((at for at in asked if at is not None), default=moment)
        self._waited(g, site.offset, start, moment)
        self._set(g.lanes, moment, max(g.time, site.opened))
        if site.slot == self.block:
            self.passed.append((moment, site.offset, self._warps(g.lanes)))
        else:
            self.elsewhere.append((moment, site.slot, site.offset))

    def _waited(self, g: Any, barrier: int, start: int, end: int | None) -> None:
        if (end is None or end > start) and self._mine(g):
            lanes = tuple(self._own(g.lanes).tolist())
            self.waits_.append(Wait(self._warps(g.lanes), barrier, start, end, lanes))

    # -- the copy engine ------------------------------------------------------

    def starts_copies(self, g: Any, copies: Any) -> None:
        if not self._near(g):
            return
        for thread, copy in copies:
            work = Work("copy engine", self._warps(thread.lanes), self.now(g), None, copy.size)
            if copy.site is not None:
                work.barrier, work.block = copy.site.offset, copy.site.slot
            self.copies[id(copy)] = work
            self.kept.append(copy)  # so that no other has its id
            if work.warps:
                self.works.append(work)

    def lands(self, copy: Any) -> None:
        work = self.copies.get(id(copy))
        if work is not None:
            work.end = self.ends_at = max(work.start, self._landing(copy.site))

    def source_is_free(self, copy: Any) -> None:
        work = self.copies.get(id(copy))
        if work is not None and work.end is None:
            work.end = max(work.start, self._landing())

    target_is_written = source_is_free

    # -- cp.async -------------------------------------------------------------

    def starts_thread_copy(self, g: Any, copy: Any) -> None:
        self._fetched()
        if not self._mine(g):
            return
        mine = (copy.lanes >= self.first) & (copy.lanes < self.first + self.batch.threads)
        shared = self.batch.shared_base + self.block * self.batch.shared_stride
        where = copy.target[mine] - shared
        places = int(where.min()), int(where.max()) + copy.width
        work = Work("cp.async", self._warps(g.lanes), self.now(g), None,
                    copy.width * int(mine.sum()), None, int(copy.number[0]), places)  # fmt: skip
        self.works.append(work)
        self.fetches.append((copy, work))

    def waited_for_thread_copy(self, g: Any, copy: Any, lanes: Any) -> None:
        self._fetched()

    def _fetched(self, site: Any = None) -> None:
        """Note which copies have ended since the last time."""
        for copy, work in self.fetches:
            if copy.done:
                work.end = max(work.start, self._landing(site))
                if site is not None:
                    work.barrier, self.ends_at = site.offset, work.end
        self.fetches = [each for each in self.fetches if not each[0].done]

    # -- banks ----------------------------------------------------------------

    def loads(self, g: Any, index: Any, accesses: Any) -> None:
        self._touched(g, index, accesses, "load")

    def stores(self, g: Any, index: Any, accesses: Any) -> bool:
        self._touched(g, index, accesses, "store")
        return False

    def _touched(self, g: Any, index: Any, accesses: Any, op: str) -> None:
        batch = self.batch
        if not self._mine(g) or accesses.space not in ("shared", "generic"):
            return
        position = g.spread(index * accesses.width)
        inside = (position >= batch.shared.start) & (
            position < batch.shared.start + batch.shared.size
        )
        if not inside.all():
            if not inside.any():
                return
            (where,) = np.nonzero(inside)
            g, position = g.part(where, g.pc), position[where]
        end = self.now(g)  # of the block of the program
        at = end - batch.machine.program.sizes[g.pc] + self.within.get(accesses.identity, 0)
        turns: Counter[int] = Counter()
        for access in self.traffic.accesses(g, position, accesses, "shared", op):
            if access.block == batch.blocks[self.block]:
                moment = min(at + turns[access.warp], end - 1)
                turns[access.warp] += 1
                self.touches.append(touch(access, moment))

    # -- the tensor core ------------------------------------------------------

    def starts_product(self, g: Any, mma: Any, tiles: Any) -> None:
        if self._mine(g):
            work = Work("tensor core", self._warps(g.lanes), self.now(g), None)
            self.products[id(mma)] = work
            self.kept.append(mma)
            self.works.append(work)

    def waited_for_product(self, mma: Any, lanes: Any) -> None:
        work = self.products.get(id(mma))
        if work is not None:
            work.end = max(work.start, self._landing())

    def multiplies(
        self, g: Any, target: Any, source: Any, reads: Any, adds: bool, scales: Any, form: int,
        metadata: Any,
    ) -> None:
        if self._near(g):
            work = Work("tensor core", self._warps(g.lanes), self.now(g), None)
            self.queue.setdefault(int(g.lanes[0]), []).append(work)
            if work.warps:
                self.works.append(work)

    def commits(self, commit: Any) -> None:
        if self._near(commit.thread):
            lane = int(commit.thread.lanes[0])
            works = self.queue.pop(lane, [])
            self.committed[id(commit)] = lane, self.now(commit.thread), works
            self.kept.append(commit)
            for work in works:
                work.barrier, work.block = commit.site.offset, commit.site.slot

    def commit_arrives(self, commit: Any) -> None:
        if id(commit) in self.committed:
            lane, issued, works = self.committed[id(commit)]
            landing = max(self._landing(commit.site), issued, self.done.get(lane, 0))
            self.ends_at = self.done[lane] = landing  # a thread's are done in order
            for work in works:
                work.end = landing

    # -- what came of it ------------------------------------------------------

    @property
    def states(self) -> dict[int, list[State]]:
        """Place of an mbarrier in the block's shared memory -> how it was."""
        return {place: states for (block, place), states in self.every.items()
                if block == self.block}  # fmt: skip

    @property
    def names(self) -> dict[int, str]:
        """Place of an mbarrier in the block's shared memory -> the emulator's name of it."""
        return {place: name for (block, place), name in self.called.items() if block == self.block}

    def passes_at(self, place: int, block: int) -> list[int]:
        """When threads have gone on at an mbarrier of a block."""
        if block == self.block:
            return [at for at, where, _ in self.passed if where == place]
        return [at for at, where, there in self.elsewhere if (where, there) == (block, place)]

    def phases_of(self, place: int, block: int) -> list[int]:
        """When phases of an mbarrier of a block have been complete."""
        states = self.every.get((block, place), [])
        return [b.at for a, b in pairwise(states) if b.phase != a.phase]

    @property
    def end(self) -> int:
        """The last moment; where threads wait for ever, a little after the last has begun to."""
        moments = [each[-1].at for each in self.states.values()]
        moments += self.left.values()
        if asking := self.asking():
            last: int = max([*moments, *(at for _, at in asking)])
            return last + max(40, last // 20)
        sizes = self.batch.machine.program.sizes
        latest: int = max([0, *moments, *(at + sizes[pc] for at, pc, _ in self.steps)])
        return latest

    def asking(self) -> list[tuple[tuple[int, int], int]]:
        """Who waits for ever, for which barrier, since when: not who has only arrived there."""
        stay = {number: {int(lane) for g, *_ in barrier.waiting for lane in g.lanes}
                for number, barrier in self.named.items()}  # fmt: skip
        own = self.lanes()
        return [((lane, number), at) for (lane, number), at in self.asked.items()
                if lane in own and lane in stay.get(number, (lane,))]  # fmt: skip

    def open_waits(self) -> list[Wait]:
        """The waits that nobody ended, a group of warps for each barrier and moment."""
        waiting: dict[tuple[int, int], list[int]] = {}
        for (lane, barrier), start in self.asking():
            waiting.setdefault((barrier, start), []).append(lane)
        return [Wait(self._warps(np.sort(lanes)), barrier, start, None, tuple(sorted(lanes)))
                for (barrier, start), lanes in sorted(waiting.items())]  # fmt: skip


def touch(access: Access, at: int) -> Touch:
    """A request to shared memory, by banks."""
    here = access.addresses[access.addresses != ABSENT]
    first = int(here.min())
    line = first - first % (4 * traffic.BANKS)  # what lies lines of all banks apart is alike
    alike = np.where(access.addresses == ABSENT, ABSENT, access.addresses - line)
    load = access.op == "load"
    served = _served(alike.astype(np.int64).tobytes(), access.size, load)
    places = first, int(here.max()) + access.size
    return Touch(at, access.warp, load, access.size, *served, places)


@lru_cache(maxsize=4096)
def _served(lanes: bytes, size: int, load: bool) -> tuple[int, int, tuple[int, ...]]:
    """Wavefronts, how many of them conflicts cost, and the words of each bank."""
    addresses = np.frombuffer(lanes, np.int64)
    banks = np.zeros(traffic.BANKS, np.int64)
    for first, last in traffic.parts_of(addresses, size, load):
        here = addresses[first:last]
        words = (here[here != ABSENT][:, None] + np.arange(0, size, min(size, 4))) // 4
        banks += np.bincount(np.unique(words) % traffic.BANKS, minlength=traffic.BANKS)
    return *traffic.bank_passes(addresses, size, load), tuple(banks.tolist())


def lines_of(recorder: Recorder, file: str) -> dict[int, list[int]]:
    """Block of the program -> the line of ``file`` at each of its instructions, 0 where unknown."""
    program = recorder.batch.machine.program
    found = {}
    for pc in {pc for _, pc, _ in recorder.steps}:
        lines = []
        for instruction in program.blocks[pc].instructions:
            own = instruction.location.own if instruction.location else None
            lines.append(own.line if own is not None and own.file == file else 0)
        found[pc] = lines
    return found


class Row(NamedTuple):
    """Warps that do the same at the same moments.

    A warp whose lanes part is where the lane is that runs most, and waits where that lane waits.
    """

    warps: tuple[int, ...]
    steps: list[tuple[int, int]]
    """When, and which block of the program."""
    left: int
    """When they left the kernel; -1: they did not."""
    waits: list[Wait]
    """In order."""
    ran: list[tuple[int, int]]
    """From when to when they executed. Before their end, and outside of their waits, all other
    moments are those in which the emulator ran other threads, and these could have run, too."""


def rows(recorder: Recorder) -> list[Row]:
    """The warps of a run, alike ones together."""
    runs: Counter[int] = Counter()
    for _, _, lanes in recorder.steps:
        runs.update(lanes.tolist())
    alike: dict[tuple[tuple[int, int], ...], list[int]] = {}
    gone = {}
    shown = {}
    stuck = {lane: at for (lane, _), at in recorder.asking()}
    for warp in range(-(-recorder.batch.threads // 32)):
        lanes = recorder.lanes(warp, 1)
        lane = max(lanes, key=lambda one: (runs[one], -one))
        last = stuck.get(lane, recorder.end)  # whoever asks in vain need not be seen to ask again
        steps = tuple(
            (at, pc) for at, pc, there in recorder.steps if at <= last and _in(lane, there)
        )
        alike.setdefault(steps, []).append(warp)
        gone[warp] = recorder.left.get(lane, -1)
        shown[warp] = lane
    sizes, end, found = recorder.batch.machine.program.sizes, recorder.end, []
    every = sorted([*recorder.waits_, *recorder.open_waits()], key=lambda wait: wait.start)
    for steps, warps in alike.items():
        left = gone[warps[0]]
        waits = [wait for wait in every if shown[warps[0]] in wait.lanes]
        executed = [(at, at + sizes[pc]) for at, pc in steps]
        asleep = [(wait.start, end if wait.end is None else wait.end) for wait in waits]
        ran = _without(executed, asleep, end if left < 0 else left)
        found.append(Row(tuple(warps), list(steps), left, waits, ran))
    return found


def _without(
    spans: list[tuple[int, int]], others: list[tuple[int, int]], end: int
) -> list[tuple[int, int]]:
    """Spans in order, less what others, in order too, cover and what is behind an end.

    What meets is one.

    >>> _without([(0, 5), (5, 9), (20, 30)], [(8, 22)], 28)
    [(0, 8), (22, 28)]
    """
    found: list[tuple[int, int]] = []

    def add(start: int, stop: int) -> None:
        if stop <= start:
            return
        if found and found[-1][1] == start:
            start = found.pop()[0]
        found.append((start, stop))

    for start, stop in spans:
        at, stop = start, min(stop, end)
        for a, b in others:  # in order
            if at < b and a < stop:
                add(at, a)
                at = max(at, b)
        add(at, stop)
    return found


def _in(lane: int, lanes: Any) -> bool:
    place = int(np.searchsorted(lanes, lane))
    return place < len(lanes) and int(lanes[place]) == lane


__all__ = [
    "BLOCK_BARRIER",
    "Recorder",
    "Row",
    "State",
    "Touch",
    "Wait",
    "Work",
    "lines_of",
    "rows",
    "touch",
]
