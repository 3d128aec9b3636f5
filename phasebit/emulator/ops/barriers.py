"""Barriers of a block and fences (PTX ISA 9.7.13.1 to 9.7.13.4), nanosleep, cluster barriers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver
from phasebit.emulator.errors import Fault
from phasebit.emulator.machine.cluster import cluster_barrier
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.named_barriers import (
    BARRIERS,
    BlockBarrierObserver,
    NamedBarrier,
    NamedBarriers,
    barrier_of,
)
from phasebit.emulator.ptx.operands import misfit
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Selected, Traits, blocking, collective, effect
from phasebit.emulator.ptx.types import Array, Value

PRED = frozenset({"pred"})
BAR = Traits(aligned="bar")
UNNOTICED = Traits(unnoticed=True)


def _check_number(g: Group, number: Value) -> None:
    """Raise :class:`Fault` for a number that no barrier has."""
    beyond = np.asarray(number) >= BARRIERS
    if beyond.any():
        lanes = g.lanes[beyond] if beyond.ndim else g.lanes
        raise Fault(
            "barrier {} is named by {}, and a block has barriers 0 to {}; at {}",
            int(np.max(number)), g.batch.describe(lanes), BARRIERS - 1, g.batch.machine.where(g),
        )  # fmt: skip


def _by_barrier(
    g: Group, number: Value, count: Value | None
) -> list[tuple[Group, int, int, int | None]]:
    """Divide a group by block, barrier number and count; the whole group when that is one.

    Of one barrier whoever names the largest count comes first, so that the others are heard of.
    Raises :class:`Fault` for a number that no barrier has.
    """
    _check_number(g, number)
    found: list[tuple[Group, int, int, int | None]] = []
    for some, slot, one in _by_number(g, number):
        if not isinstance(count, np.ndarray):
            found.append((some, slot, one, None if count is None else int(count)))
            continue
        order = {int(lane): i for i, lane in enumerate(g.lanes)}
        counts = count if some is g else count[[order[int(lane)] for lane in some.lanes]]
        kinds = np.unique(counts)
        for kind in kinds[::-1]:
            part = some if len(kinds) == 1 else some.part(np.flatnonzero(counts == kind), g.resume)
            found.append((part, slot, one, int(kind)))
    return found


def _by_number(g: Group, number: Value) -> list[tuple[Group, int, int]]:
    batch = g.batch
    slots = batch.slots(g.lanes)
    if not isinstance(number, np.ndarray) and slots[0] == slots[-1]:
        return [(g, int(slots[0]), int(number))]
    keys = slots * BARRIERS + g.spread(number).astype(np.int64)
    return [
        (g.part(np.flatnonzero(keys == key), g.resume), int(key) // BARRIERS, int(key) % BARRIERS)
        for key in np.unique(keys)
    ]


def _as_they_come(
    g: Group, barrier: NamedBarrier, expected: int | None, resume: int
) -> list[Group]:
    """Warp by warp where there are more threads than the barrier lacks: the first ones open it."""
    if expected is None or g.n <= expected - barrier.arrived:
        return [g]
    warps = g.batch.warp_of[g.lanes]
    return [g.part(np.flatnonzero(warps == warp), resume) for warp in np.unique(warps)]


def _passes(g: Group, number: Value, count: Value | None) -> bool:
    """Whether this group is all the barrier waits for, so that nobody need park."""
    batch = g.batch
    if isinstance(number, np.ndarray) or g.n != batch.live or number >= BARRIERS or (
        batch.known(NamedBarriers) is not None
    ):
        return False
    return not (
        count is not None and (isinstance(count, np.ndarray) or int(count) * batch.count != g.n)
    )


@blocking("bar.sync barrier.sync", "u32 u32", section="9.7.13.1", optional=1,
          traits=replace(BAR, unnoticed=True))  # fmt: skip
def bar_sync(g: Group, dest: Any, number: Value, count: Value | None = None) -> int:
    """bar.sync: wait until all threads of the block (or ``count``) have arrived."""
    machine = g.batch.machine
    for syncs in machine.told[BlockBarrierObserver.syncs_block]:
        syncs(g)
    if _passes(g, number, count):
        for passes in machine.told[BlockBarrierObserver.passes_barrier]:
            passes(g)
        return g.resume
    resume = g.resume
    for some, slot, one, expected in _by_barrier(g, number, count):
        for part in _as_they_come(some, barrier_of(g.batch, slot, one), expected, resume):
            barrier_of(g.batch, slot, one).arrive(part, expected, "sync", resume)
    return -1


@blocking("bar.arrive barrier.arrive", "u32 u32", section="9.7.13.1", traits=BAR)
def bar_arrive(g: Group, dest: Any, number: Value, count: Value) -> int:
    """bar.arrive: be counted, and go on."""
    resume = g.resume
    machine = g.batch.machine
    for some, slot, one, expected in _by_barrier(g, number, count):
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
    for some, slot, one, expected in _by_barrier(g, number, count):
        barrier = barrier_of(g.batch, slot, one)
        barrier.votes.append(votes[[order[int(lane)] for lane in some.lanes]])
        barrier.arrive(some, expected, f"red.{op}", resume, finish)
    return -1


@blocking("bar.red.popc barrier.red.popc", "u32 pred -> u32", section="9.7.13.1", traits=BAR)
def bar_red_popc(g: Group, dest: Any, number: Value, p: Value) -> int:
    """bar.red.popc: a barrier that counts for how many threads a predicate holds."""
    return _reduce(g, dest, number, None, p, "popc")


@blocking("bar.red.popc barrier.red.popc", "u32 u32 pred -> u32", section="9.7.13.1", traits=BAR)
def bar_red_popc_count(g: Group, dest: Any, number: Value, count: Value, p: Value) -> int:
    """bar.red.popc with a number of threads."""
    return _reduce(g, dest, number, count, p, "popc")


@blocking("bar.red.and barrier.red.and", "u32 pred -> pred", PRED, section="9.7.13.1", traits=BAR)
def bar_red_and(g: Group, dest: Any, number: Value, p: Value) -> int:
    """bar.red.and: a barrier that tells whether a predicate holds for all threads."""
    return _reduce(g, dest, number, None, p, "and")


@blocking("bar.red.or barrier.red.or", "u32 pred -> pred", PRED, section="9.7.13.1", traits=BAR)
def bar_red_or(g: Group, dest: Any, number: Value, p: Value) -> int:
    """bar.red.or: a barrier that tells whether a predicate holds for any thread."""
    return _reduce(g, dest, number, None, p, "or")


@blocking("bar.red.and barrier.red.and", "u32 u32 pred -> pred", PRED, section="9.7.13.1",
          traits=BAR)  # fmt: skip
def bar_red_and_count(g: Group, dest: Any, number: Value, count: Value, p: Value) -> int:
    """bar.red.and with a number of threads."""
    return _reduce(g, dest, number, count, p, "and")


@blocking("bar.red.or barrier.red.or", "u32 u32 pred -> pred", PRED, section="9.7.13.1", traits=BAR)
def bar_red_or_count(g: Group, dest: Any, number: Value, count: Value, p: Value) -> int:
    """bar.red.or with a number of threads."""
    return _reduce(g, dest, number, count, p, "or")


@collective("bar.warp.sync", "u32", section="9.7.13.2", traits=UNNOTICED)
def bar_warp_sync(g: Group, membermask: Value) -> None:
    """bar.warp.sync: the threads of a warp wait for each other; their writes are ordered."""
    machine = g.batch.machine
    for told in machine.told[LaunchObserver.syncs_warp]:
        told(g)


@effect("membar", "", section="9.7.13.4", traits=UNNOTICED,
        options=[{w: ("scope", s) for w, s in (("gl", "gpu"), ("cta", "cta"), ("sys", "sys"))}])
def membar(g: Group, *, scope: str = "gpu") -> None:
    """membar: fence.sc of a scope."""
    fence(g, scope=scope)


ONLY: dict[str, tuple[str, str]] = {
    f"sync_restrict::shared::{w}": ("only", w) for w in ("cta", "cluster")
}
RESTRICTED = ("release", "cta"), ("acquire", "cluster")


def check_restriction(instruction: Instruction, chosen: Selected) -> None:
    """A fence of one direction for shared memory: the two that there are."""
    given = chosen.options
    if "only" in given and (given.get("sem"), given["only"]) not in RESTRICTED:
        raise misfit(
            instruction,
            "a fence with .sync_restrict is .release.sync_restrict::shared::cta or "
            ".acquire.sync_restrict::shared::cluster",
        )


@effect("fence", "", section="9.7.13.4", traits=Traits(unnoticed=True, check=check_restriction),
        options=[{s: ("sem", s) for s in ("sc", "acq_rel", "acquire", "release")}, ONLY])
def fence(g: Group, *, sem: str = "sc", scope: str = "gpu", only: str = "") -> None:
    """fence: this thread's earlier accesses come before its later ones, for others that look.

    ``.release`` and ``.acquire``, which there are with ``.sync_restrict`` only, order in one
    direction: what was done before a later strong write, what is done after an earlier strong
    read.  That it is for objects in shared memory alone is not asked.
    """
    machine = g.batch.machine
    for told in machine.told[LaunchObserver.fences]:
        told(g, scope, sem)
    machine.now += 1


def check_direction(instruction: Instruction, chosen: Selected) -> None:
    """A proxy fence of one direction: the two that there are."""
    given = chosen.options
    if given.get("proxy") != "async::generic" and "only" not in given:
        return
    pair = given.get("sem"), given.get("only")
    if given.get("proxy") != "async::generic" or pair not in RESTRICTED:
        raise misfit(
            instruction,
            "a fence.proxy.async::generic is .release.sync_restrict::shared::cta or "
            ".acquire.sync_restrict::shared::cluster",
        )


@effect("fence.proxy", "a u32", section="9.7.13.4", optional=2,
        traits=Traits(unnoticed=True, check=check_direction),
        options=[{w: ("proxy", w) for w in ("alias", "async", "async.global", "async.shared",
                                            "async::generic", "tensormap::generic")},
                 {"acquire": ("sem", "acquire"), "release": ("sem", "release")},
                 ONLY])
def fence_proxy(
    g: Group, *operands: Value, proxy: str = "async", space: str = "", sem: str = "",
    scope: str = "gpu", only: str = "",
) -> None:
    """fence.proxy: orders a thread's accesses through the generic proxy and through another.

    Of one direction, ``async::generic``, there are two: ``release`` for what was done in
    ``shared::cta``, and ``acquire`` for what comes in ``shared::cluster``.  Each counts as a whole
    fence of shared memory here, and as a fence of its direction.
    """
    machine = g.batch.machine
    if proxy.startswith("async"):
        for fences in machine.told[LaunchObserver.fences] if sem else ():
            fences(g, scope, sem)
        for fences_async in machine.told[BulkCopyObserver.fences_async]:
            fences_async(g, "shared" if only else space)
    elif proxy.startswith("tensormap"):
        for fences in machine.told[LaunchObserver.fences]:
            fences(g, scope, sem)
        for releases in machine.told[BulkCopyObserver.releases_maps] if sem == "release" else ():
            releases(g, scope)
        for acquires in machine.told[BulkCopyObserver.acquires_map] if sem == "acquire" else ():
            for address in np.unique(g.spread(operands[0])):
                some = g.part(np.flatnonzero(g.spread(operands[0]) == address), g.pc)
                access = machine.executing_access()
                at = some.generic_index(np.uint64(address), np.uint64(0), 128, 0, 64, access)
                acquires(some, int(some.spread(at)[0]), scope)
    machine.now += 1


@effect("fence.mbarrier_init", "", section="9.7.13.4", traits=UNNOTICED,
        options=[{"release": ("sem", "release")}])  # fmt: skip
def fence_mbarrier_init(g: Group, *, sem: str = "release") -> None:
    """fence.mbarrier_init: a relaxed arrival at the cluster barrier publishes them from now on."""
    machine = g.batch.machine
    for told in machine.told[LaunchObserver.fences_barriers]:
        told(g)
    machine.now += 1


@effect("griddepcontrol.wait", "", section="9.7.13.13", traits=UNNOTICED)
def griddepcontrol_wait(g: Group) -> None:
    """griddepcontrol.wait: the kernels before this one have ended, and what they wrote is seen."""
    machine = g.batch.machine
    for told in machine.told[LaunchObserver.waits_for_grids]:
        told(g)
    machine.now += 1


@effect("griddepcontrol.launch_dependents", "", section="9.7.13.13")
def griddepcontrol_launch_dependents(g: Group) -> None:
    """griddepcontrol.launch_dependents: the next kernel may begin; here it always may."""


@blocking("nanosleep", "u32", frozenset({"u32"}), section="9.7.19.1", traits=UNNOTICED)
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
        "brkpt, a breakpoint, executed by {} at {}: no debugger listens, so it ends the kernel "
        "like a trap",
        g.batch.describe(g.lanes[:1]), machine.where(g),
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
    number = int(np.max(count))
    if not 24 <= number <= 256 or number % 8:
        raise Fault("setmaxnreg {}: it must be a multiple of 8 from 24 to 256", number)
    for told in g.batch.machine.told[LaunchObserver.sets_registers]:
        told(g, word, number)


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
