"""Barriers of a block and fences (PTX ISA 9.7.13.1 to 9.7.13.4), nanosleep, cluster barriers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.cluster import cluster_barrier
from phasebit.emulator.errors import Fault
from phasebit.emulator.machine import Waiting
from phasebit.emulator.table import blocking, collective, effect
from phasebit.emulator.types import Array, Value

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.machine import Batch
    from phasebit.emulator.syntax import Instruction

PRED = frozenset({"pred"})


class NamedBarrier:
    """One of the 16 barriers of a block, or the barrier of a cluster."""

    def __init__(self, batch: Batch, slot: int, number: int) -> None:
        self.batch = batch
        self.slot = slot
        self.number = number
        self.before: tuple[Array, Any] | None = None
        """Who completed the generation before, and what they published by arriving at it."""
        self.reset()

    def reset(self) -> None:
        self.expected: int | None = None
        self.arrived = 0
        self.lanes: list[Array] = []
        self.waiting: list[tuple[Group, int, Any]] = []
        """Group, where to go on, what to do with it then."""
        self.instructions: list[Instruction | None] = []
        """At which each of them waits."""
        self.votes: list[Array] = []
        self.kind = ""
        self.frontier: Any = None
        """What the arrivals have published (the checker's clocks)."""
        self.mixed = False
        """Whether some of the arrivals might have been counted in the generation before."""

    def arrive(
        self, g: Group, expected: int | None, kind: str, resume: int | None, finish: Any = None
    ) -> None:
        """Threads arrive; with ``resume`` they also wait."""
        machine = self.batch.machine
        if self.kind and kind != self.kind and "red" in (kind[:3], self.kind[:3]):
            raise Fault(
                f"{self.name} is used by {self.kind} and by {kind} at once, by "
                f"{self.batch.describe(g.lanes)} at {machine.where(g)}"
            )
        self.kind = kind
        if expected is not None and (expected <= 0 or expected % 32):
            raise Fault(
                f"{self.name} is told to wait for {expected} threads by "
                f"{self.batch.describe(g.lanes)}: the number must be a multiple of 32; "
                f"at {machine.where(g)}"
            )
        if expected is not None:
            if self.expected is not None and expected != self.expected and machine.checked:
                machine.checker.misuse(
                    g, f"{self.name} is told to wait for {expected} threads here and for "
                    f"{self.expected} elsewhere in the same generation",
                )  # fmt: skip
            self.expected = expected
        if machine.checked:
            machine.checker.join(g, self)
        self.arrived += g.n
        self.lanes.append(g.lanes)
        if resume is not None:
            self.waiting.append((g, resume, finish))
            self.instructions.append(machine.program.executing())
            machine.park(g, Waiting(self.name, machine.where(g), self.explain))
        self.check()

    @property
    def name(self) -> str:
        return f"barrier {self.number}" if self.number >= 0 else "the cluster barrier"

    def needed(self) -> int:
        """How many threads complete the barrier: those asked for, or all that live."""
        if self.expected is not None:
            return self.expected
        return int(self.batch.live_in_block[self.slot])

    def check(self) -> None:
        """Open the barrier when enough threads have arrived."""
        if not self.arrived or self.arrived < self.needed():
            return
        waiting, machine = self.waiting, self.batch.machine
        votes = np.concatenate(self.votes) if self.votes else None
        time = max((g.time for g, _, _ in waiting), default=0)
        lanes = np.concatenate(self.lanes)
        everyone = len(lanes) == int(self.batch.live_in_block[self.slot])
        frontier, mixed = self.frontier, self.mixed
        alone = len(lanes) <= 32  # a warp that needs no other cannot be mistaken for one
        self.before = None if everyone or alone else (lanes, frontier)
        if machine.checked:
            self._together()
            for (g, _, _), instruction in zip(waiting, self.instructions, strict=True):
                machine.checker.convergence.barrier(g, lanes, instruction)
        self.reset()
        machine.progress += 1
        if machine.checked:
            known = None if mixed else frontier
            machine.checker.pass_barrier(self, known, [g for g, _, _ in waiting], everyone)
        for g, resume, finish in waiting:
            if finish is not None:
                finish(g, votes)
            machine.wake(g, resume, time)

    def _together(self) -> None:
        """The threads of a warp must wait at one instruction (bar is barrier.aligned)."""
        place: dict[int, tuple[Group, int]] = {}
        for g, resume, _ in self.waiting:
            for warp in np.unique(self.batch.warp_of[g.lanes]).tolist():
                other, there = place.setdefault(warp, (g, resume))
                if there != resume:
                    self.batch.machine.checker.misuse(
                        g, f"{self.batch.describe(g.lanes)} and {self.batch.describe(other.lanes)} "
                        "of one warp wait at different barrier instructions; all threads of a "
                        "warp must come to the same one",
                    )  # fmt: skip

    def explain(self) -> str:
        here = np.sort(np.concatenate(self.lanes)) if self.lanes else np.array([], int)
        batch = self.batch
        text = f"{self.arrived} of {self.needed()} threads have arrived: {batch.describe(here)}"
        mine = np.arange(self.slot * batch.threads, (self.slot + 1) * batch.threads)
        missing = np.setdiff1d(mine[batch.alive[mine]], here)
        if len(missing):
            text += f"; not here: {batch.describe(missing)}"
        return text


def barrier_of(batch: Batch, slot: int, number: int) -> NamedBarrier:
    """The barrier of a block; made on first use."""
    key = (slot, number)
    if key not in batch.named:
        batch.named[key] = NamedBarrier(batch, slot, number)
    return batch.named[key]


def _by_barrier(g: Group, number: Value) -> list[tuple[Group, int, int]]:
    """Divide a group by block and barrier number; the whole group when that is one."""
    batch = g.batch
    slots = batch.slots(g.lanes)
    if not isinstance(number, np.ndarray) and slots[0] == slots[-1]:
        return [(g, int(slots[0]), int(number))]
    keys = slots * 16 + g.spread(number).astype(np.int64)
    return [
        (g.part(np.flatnonzero(keys == key), g.resume), int(key) // 16, int(key) % 16)
        for key in np.unique(keys)
    ]


def _as_they_come(g: Group, barrier: NamedBarrier, expected: int | None) -> list[Group]:
    """Warp by warp where there are more threads than the barrier lacks: the first ones open it."""
    if expected is None or g.n <= expected - barrier.arrived:
        return [g]
    warps = g.batch.warp_of[g.lanes]
    return [g.part(np.flatnonzero(warps == warp), g.resume) for warp in np.unique(warps)]


def _passes(g: Group, number: Value, count: Value | None) -> bool:
    """Whether this group is all the barrier waits for, so that nobody need park."""
    batch = g.batch
    if isinstance(number, np.ndarray) or g.n != batch.live or batch.named:
        return False
    return not (
        count is not None and (isinstance(count, np.ndarray) or int(count) * batch.count != g.n)
    )


@blocking("bar.sync barrier.sync", "u32 u32", section="9.7.13.1", optional=1)
def bar_sync(g: Group, dest: Any, number: Value, count: Value | None = None) -> int:
    """bar.sync: wait until all threads of the block (or ``count``) have arrived."""
    machine = g.batch.machine
    machine.counters.add("barrier.syncs", g.n)
    if _passes(g, number, count):
        if machine.checked:
            if g.cuts:
                machine.checker.convergence.barrier(g, g.lanes, machine.program.executing())
            machine.checker.pass_whole(g)
        return g.resume
    resume = g.resume
    for some, slot, one in _by_barrier(g, number):
        expected = None if count is None else int(some.spread(count)[0])
        for part in _as_they_come(some, barrier_of(g.batch, slot, one), expected):
            barrier_of(g.batch, slot, one).arrive(part, expected, "sync", resume)
    return -1


@blocking("bar.arrive barrier.arrive", "u32 u32", section="9.7.13.1")
def bar_arrive(g: Group, dest: Any, number: Value, count: Value) -> int:
    """bar.arrive: be counted, and go on."""
    resume = g.resume
    machine = g.batch.machine
    expected = int(g.spread(count)[0])
    for some, slot, one in _by_barrier(g, number):
        barrier_of(g.batch, slot, one).arrive(some, expected, "sync", None)
        some.pc = resume
        if some is not g:
            machine.make_ready(some)
        else:
            return resume
    return -1


def _reduce(g: Group, dest: Any, number: Value, count: Value | None, p: Value, op: str) -> int:
    """Count the threads whose predicate holds, over all that take part."""

    def finish(group: Group, votes: Array) -> None:
        true = int(np.count_nonzero(votes))
        if op == "popc":
            group.write(dest, np.uint32(true))
        else:
            group.write(dest, np.bool_(true == len(votes) if op == "and" else true > 0))

    resume = g.resume
    votes = g.spread(p)
    order = {int(lane): i for i, lane in enumerate(g.lanes)}
    for some, slot, one in _by_barrier(g, number):
        barrier = barrier_of(g.batch, slot, one)
        barrier.votes.append(votes[[order[int(lane)] for lane in some.lanes]])
        expected = None if count is None else int(some.spread(count)[0])
        barrier.arrive(some, expected, f"red.{op}", resume, finish)
    return -1


@blocking("bar.red.popc barrier.red.popc", "u32 pred -> u32", section="9.7.13.1")
def bar_red_popc(g: Group, dest: Any, number: Value, p: Value) -> int:
    """bar.red.popc: a barrier that counts for how many threads a predicate holds."""
    return _reduce(g, dest, number, None, p, "popc")


@blocking("bar.red.popc barrier.red.popc", "u32 u32 pred -> u32", section="9.7.13.1")
def bar_red_popc_count(g: Group, dest: Any, number: Value, count: Value, p: Value) -> int:
    """bar.red.popc with a number of threads."""
    return _reduce(g, dest, number, count, p, "popc")


@blocking("bar.red.and barrier.red.and", "u32 pred -> pred", PRED, section="9.7.13.1")
def bar_red_and(g: Group, dest: Any, number: Value, p: Value) -> int:
    """bar.red.and: a barrier that tells whether a predicate holds for all threads."""
    return _reduce(g, dest, number, None, p, "and")


@blocking("bar.red.or barrier.red.or", "u32 pred -> pred", PRED, section="9.7.13.1")
def bar_red_or(g: Group, dest: Any, number: Value, p: Value) -> int:
    """bar.red.or: a barrier that tells whether a predicate holds for any thread."""
    return _reduce(g, dest, number, None, p, "or")


@blocking("bar.red.and barrier.red.and", "u32 u32 pred -> pred", PRED, section="9.7.13.1")
def bar_red_and_count(g: Group, dest: Any, number: Value, count: Value, p: Value) -> int:
    """bar.red.and with a number of threads."""
    return _reduce(g, dest, number, count, p, "and")


@blocking("bar.red.or barrier.red.or", "u32 u32 pred -> pred", PRED, section="9.7.13.1")
def bar_red_or_count(g: Group, dest: Any, number: Value, count: Value, p: Value) -> int:
    """bar.red.or with a number of threads."""
    return _reduce(g, dest, number, count, p, "or")


@collective("bar.warp.sync", "u32", section="9.7.13.2")
def bar_warp_sync(g: Group, membermask: Value) -> None:
    """bar.warp.sync: the threads of a warp wait for each other; their writes are ordered."""
    machine = g.batch.machine
    machine.counters.add("barrier.warp_syncs", g.n)
    if machine.checked:
        machine.checker.pass_warp(g)


@effect("membar", "", section="9.7.13.4", releases=True,
        options=[{w: ("scope", s) for w, s in (("gl", "gpu"), ("cta", "cta"), ("sys", "sys"))}])
def membar(g: Group, *, scope: str = "gpu") -> None:
    """membar: fence.sc of a scope."""
    fence(g, scope=scope)


@effect("fence", "", section="9.7.13.4", releases=True,
        options=[{s: ("sem", s) for s in ("sc", "acq_rel", "acquire", "release")}])  # fmt: skip
def fence(g: Group, *, sem: str = "sc", scope: str = "gpu") -> None:
    """fence: this thread's earlier accesses come before its later ones, for others that look."""
    machine = g.batch.machine
    if machine.checked:
        machine.checker.fence(g, scope)
        machine.now += 1


@effect("fence.proxy", "a u32", section="9.7.13.4", releases=True, optional=2,
        options=[{w: ("proxy", w) for w in ("alias", "async", "async.global", "async.shared",
                                            "tensormap::generic")},
                 {"acquire": ("sem", "acquire"), "release": ("sem", "release")}])  # fmt: skip
def fence_proxy(
    g: Group, *operands: Value, proxy: str = "async", space: str = "", sem: str = ""
) -> None:
    """fence.proxy: orders a thread's accesses through the generic proxy and through another."""
    machine = g.batch.machine
    if not machine.checked:
        return
    if proxy.startswith("async"):
        machine.checker.engine.fence(g, space)
    elif proxy.startswith("tensormap"):
        machine.checker.fence(g, "gpu")
        world = machine.checker.engine.world
        if sem == "release":
            world.release(g)
        for address in np.unique(g.spread(operands[0])) if sem == "acquire" else ():
            some = g.part(np.flatnonzero(g.spread(operands[0]) == address), g.pc)
            access = machine.program.executing_access()
            at = some.generic_index(np.uint64(address), np.uint64(0), 128, 0, 64, access)
            world.acquire(some, int(some.spread(at)[0]))
    machine.now += 1


@effect("fence.mbarrier_init", "", section="9.7.13.4", releases=True,
        options=[{"release": ("sem", "release")}])  # fmt: skip
def fence_mbarrier_init(g: Group, *, sem: str = "release") -> None:
    """fence.mbarrier_init: a relaxed arrival at the cluster barrier publishes them from now on."""
    machine = g.batch.machine
    if machine.checked:
        machine.checker.races.fence_initialised(g)
        machine.now += 1


@effect("griddepcontrol.wait griddepcontrol.launch_dependents", "", section="9.7.13.14")
def griddepcontrol(g: Group) -> None:
    """griddepcontrol: nothing to do for a kernel that runs alone."""


@blocking("nanosleep", "u32", frozenset({"u32"}), section="9.7.19.1")
def nanosleep(g: Group, dest: Any, duration: Value) -> int:
    """nanosleep: let others run; the clock moves on."""
    return g.batch.machine.sleep(g, int(np.max(duration)))


@effect("pmevent", "u32", section="9.7.19.3")
def pmevent(g: Group, event: Value) -> None:
    """pmevent: a mark for profilers."""


@effect("brkpt", "", section="9.7.19.2")
def brkpt(g: Group) -> None:
    """brkpt: a breakpoint; where no debugger listens the kernel ends with an error.

    [seen on the H200: cudaErrorLaunchFailure]
    """
    machine = g.batch.machine
    raise Fault(
        f"brkpt, a breakpoint, executed by {g.batch.describe(g.lanes[:1])} at {machine.where(g)}: "
        "no debugger listens, so it ends the kernel like a trap"
    )


@effect("setmaxnreg.inc", "u32", section="9.7.19.5", options=[{"sync": ("sync", True)}])
def setmaxnreg_inc(g: Group, count: Value, *, sync: bool = True) -> None:
    """setmaxnreg.inc: takes more registers; here only the number is checked.

    All warps of a warp group must ask for the same.
    """
    _setmaxnreg(g, count, "inc")


@effect("setmaxnreg.dec", "u32", section="9.7.19.5", options=[{"sync": ("sync", True)}])
def setmaxnreg_dec(g: Group, count: Value, *, sync: bool = True) -> None:
    """setmaxnreg.dec: gives registers back; here only the number is checked.

    All warps of a warp group must ask for the same.
    """
    _setmaxnreg(g, count, "dec")


def _setmaxnreg(g: Group, count: Value, word: str) -> None:
    number, machine = int(np.max(count)), g.batch.machine
    if not 24 <= number <= 256 or number % 8:
        raise Fault(f"setmaxnreg {number}: it must be a multiple of 8 from 24 to 256")
    if machine.checked:
        machine.checker.registers.executed(
            g, word, number, machine.where(g), machine.program.executing()
        )


@blocking("barrier.cluster.arrive", "", section="9.7.13.3",
          options=[{"release": ("sem", "release"), "relaxed": ("sem", "relaxed")}])  # fmt: skip
def cluster_arrive(g: Group, dest: Any, *, sem: str = "release") -> int:
    """barrier.cluster.arrive: be counted at the barrier of the cluster, and go on."""
    resume = g.resume
    cluster_barrier(g.batch).arrive(g, sem)
    return resume


@blocking("barrier.cluster.wait", "", section="9.7.13.3",
          options=[{"acquire": ("sem", "acquire")}])  # fmt: skip
def cluster_wait(g: Group, dest: Any, *, sem: str = "acquire") -> int:
    """barrier.cluster.wait: wait until all threads of the cluster have arrived."""
    return cluster_barrier(g.batch).wait(g)
