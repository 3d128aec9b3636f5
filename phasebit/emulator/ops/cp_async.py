"""cp.async (PTX ISA 9.7.9.25.3): copies from global to shared memory that run beside the thread."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.copy_engine.copy_observer import ThreadCopyObserver
from phasebit.emulator.machine.agents import Agent, CopiesArrive, ThreadCopy
from phasebit.emulator.machine.barrier_sites import sites
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers.numerics import where as where_
from phasebit.emulator.ptx.table import effect
from phasebit.emulator.ptx.types import Array, Value


class CopyGroups:
    """Each thread's commit groups: how many it has closed."""

    def __init__(self, batch: Batch) -> None:
        self.closed = np.zeros(batch.lanes, np.int64)
        self.copies: list[ThreadCopy] = []


def groups_of(batch: Batch) -> CopyGroups:
    """The commit groups of a batch; made on first use."""
    return batch.of(CopyGroups)


@effect("cp.async.ca cp.async.cg", "a a u32 u32|pred", None, section="9.7.9.25.3.1", optional=1)
def cp_async(
    g: Group, target: Value, address: Value, size: Value, count: Value | None = None, *,
    space: str = "shared",
) -> None:  # fmt: skip
    """cp.async: start copying 4, 8 or 16 bytes; bytes past ``src-size`` become zeros.

    In place of a size ``count`` may be a predicate, ``ignore-src``: where it holds, all zeros.
    """
    batch, machine = g.batch, g.batch.machine
    width = int(size)
    if count is not None and count.dtype == bool:
        count = where_(count, np.uint32(0), np.uint32(width))
    access = machine.executing_access()
    to = g.spread(g.shared_index(target, target.dtype.type(0), width, 0, width, access))
    given = np.full(g.n, width) if count is None else g.spread(count).astype(np.int64)
    if np.all(given == width):
        origin = g.spread(g.global_index(address, np.uint64(0), width, 0, width, access))
    elif np.any(given > 0):
        origin = _partial(g, address, given, width, access)
    else:
        origin = to
    state = groups_of(batch)
    copy = ThreadCopy(
        batch, g.lanes, to, origin, width, given, state.closed[g.lanes].copy(), access
    )
    state.copies.append(copy)
    for told in machine.told[ThreadCopyObserver.starts_thread_copy]:
        told(g, copy)
    copy.start()


def _partial(g: Group, address: Value, given: Array, width: int, access: int) -> Array:
    """Where threads read that read less than the width: each is held to the bytes it reads.

    A thread that reads nothing may give any address; it gets that of one that reads.
    """
    addresses = g.spread(address)
    origin = np.zeros(g.n, np.int64)
    for size in np.unique(given[given > 0]):
        (who,) = np.nonzero(given == size)
        readers = Group(g.batch, g.lanes[who], g.pc, [], g.time)
        origin[who] = readers.global_index(
            addresses[who], np.uint64(0), int(size), 0, width, access
        )
    return np.where(given > 0, origin, origin[np.argmax(given > 0)])


@effect("cp.async.commit_group", "", section="9.7.9.25.3.2")
def commit_group(g: Group) -> None:
    """cp.async.commit_group: close the group of copies started since the last one."""
    groups_of(g.batch).closed[g.lanes] += 1


@effect("cp.async.wait_group", "u32", section="9.7.9.25.3.3")
def wait_group(g: Group, pending: Value) -> None:
    """cp.async.wait_group N: all but the newest N groups of this thread are done."""
    _settle(g, groups_of(g.batch).closed[g.lanes] - int(pending))


@effect("cp.async.wait_all", "", section="9.7.9.25.3.3")
def wait_all(g: Group) -> None:
    """cp.async.wait_all: all copies of this thread are done."""
    state = groups_of(g.batch)
    state.closed[g.lanes] += 1
    _settle(g, state.closed[g.lanes])


def _settle(g: Group, limit: Array) -> None:
    """Finish the copies of these threads whose commit group is below ``limit``."""
    state = groups_of(g.batch)
    bound = np.full(g.batch.lanes, -1, np.int64)
    bound[g.lanes] = limit
    kept = []
    for copy in state.copies:
        due = copy.number < bound[copy.lanes]
        if not due.any():
            kept.append(copy)
            continue
        copy.finish()
        for told in g.batch.machine.told[ThreadCopyObserver.waited_for_thread_copy]:
            told(g, copy, copy.lanes[due])
        if not due.all():
            kept.append(copy)
    state.copies = kept


@effect("cp.async.mbarrier.arrive", "a", {"b64"}, section="9.7.13.15.15",
        options=[{"noinc": ("noinc", True)}])  # fmt: skip
def mbarrier_arrive(
    g: Group, address: Value, *, space: str = "generic", noinc: bool = False
) -> None:
    """cp.async.mbarrier.arrive: the thread's copies arrive at a barrier when they are done.

    Without ``.noinc`` the barrier first expects one arrival more for each thread.
    """
    state = groups_of(g.batch)
    machine = g.batch.machine
    for site, where in sites(g, address, space):
        lanes = g.lanes if where is None else g.lanes[where]
        if not noinc:
            site.adds(g, len(lanes))
        mine: list[Agent] = [c for c in state.copies if np.isin(c.lanes, lanes).any()]
        for told in machine.told[ThreadCopyObserver.thread_copies_arrive]:
            told(g, lanes, site)

        def arrive(site: Any = site, count: int = len(lanes), lanes: Array = lanes) -> None:
            site.arrived.append(lanes)
            left = count
            while left:
                fit = max(1, min(left, site.barrier.pending))
                site.operate(g, "arrive", fit)
                left -= fit

        CopiesArrive(g.batch, mine, arrive).start()
    machine.now += 1
