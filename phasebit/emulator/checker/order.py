"""Who comes after whom: what threads publish, and what they learn of each other.

What threads publish is a *frontier*: for each agent the time up to which its doings are known.
"""

from __future__ import annotations

import itertools

import numpy as np

from phasebit.emulator.checker.messages import Messages
from phasebit.emulator.checker.program_facts import ProgramFacts
from phasebit.emulator.checker.shared_shadow import I4, SharedShadow, run
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ops.cp_async import CopyGroups
from phasebit.emulator.ptx.types import Array


class Order:
    """The clocks of all threads, and how they move."""

    def __init__(
        self, machine: Machine, facts: ProgramFacts, shadows: dict[Batch, SharedShadow]
    ) -> None:
        self.machine = machine
        self.facts = facts
        self.shadows = shadows
        self.messages = Messages(machine, shadows)
        self.thread_by_thread: set[Batch] = set()
        """Batches in which a barrier of the block moves no floor, for others than its threads
        must learn of it."""

    def frontier(self, batch: Batch, lanes: Array) -> Array:
        """What these threads publish: all they know, and all they did until now."""
        s = self.shadows[batch]
        if s.unsettled:
            self.messages.settle(s, lanes)
        known: Array = s.clock[run(lanes)].max(axis=0)
        s.did(known, lanes, self.machine.now)
        if self.machine.cluster_size == 1:
            floor = s.floor[batch.slots(lanes[:1])[0]]
            known = s.floored(known, floor) if floor and not self.facts.copies else known
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

    def acquire_later(
        self, g: Group, position: int, published: Array, home: Array | None
    ) -> None:
        """A relaxed wait at the mbarrier there: the threads' next fence lets it count."""
        s = self.shadows[g.batch]
        slots = g.batch.slots(g.lanes)
        for slot in np.unique(slots).tolist():
            self.messages.hear_later(
                s, g.lanes[slots == slot], position, published,
                published if home is None else home,
            )  # fmt: skip

    def fenced(self, batch: Batch, lanes: Array, slot: int = -1) -> Array | None:
        """What a relaxed arrival of threads of a block publishes: what they have fenced.

        ``slot``: the block whose barrier it is; -1: that of the cluster.
        """
        s = self.shadows[batch]
        known = self.messages.said(s, lanes, False, "near")
        if known is None:
            return None
        here = int(lanes[0]) // batch.threads
        if self.machine.cluster_size > 1 and here != slot:
            known = self.messages.fenced_to_cluster(s, lanes, known)
            rank = here % self.machine.cluster_size
            if rank in s.near_fence:
                s.narrow.setdefault(rank, s.near_fence[rank])
        self.may_be_overwritten(s, lanes, known)
        return known

    def block_barrier(self, batch: Batch, slots: Array) -> None:
        """All threads of these blocks were here: everything so far is ordered before them."""
        s = self.shadows[batch]
        gone = batch.live < batch.lanes  # leaving the kernel orders nothing
        copies = batch.known(CopyGroups)
        if gone or batch.machine.cluster_size > 1 or (copies and copies.copies) or (
            self.facts.bulk and any(map(s.unobserved, slots.tolist()))
        ) or batch in self.thread_by_thread:  # fmt: skip
            for slot in slots:
                lanes = np.arange(slot * batch.threads, (slot + 1) * batch.threads)
                lanes = lanes[batch.alive[lanes]]
                known = self.frontier(batch, lanes)
                self.may_be_overwritten(s, lanes, known)
                s.learn(lanes, known)
        else:
            self.messages.barrier(batch, slots)
            s.barrier(slots, self.machine.now)
            if self.facts.bulk:
                s.share_fences(slots)
        self.machine.now += 1

    def warp_barrier(self, g: Group) -> None:
        """The threads of each warp here wait for each other."""
        s = self.shadows[g.batch]
        if s.unsettled:
            self.messages.settle(s, g.lanes)
        warp = g.batch.warp_of[g.lanes]
        begins = np.flatnonzero(np.concatenate([[True], warp[1:] != warp[:-1], [True]])).tolist()
        for first, end in itertools.pairwise(begins):
            lanes = g.lanes[first:end]
            rows = run(lanes)
            known = s.clock[rows].max(axis=0)
            s.did(known, lanes, self.machine.now)
            s.clock[rows] = known
        s.version += 1
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

    # -- clusters and fences ---------------------------------------------------

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
        if s.inits < s.wide:  # in a cluster of several blocks
            fenced = s.init_fenced[lanes] > 0
            known[s.inits + s.threads(lanes)] = np.where(fenced, self.machine.now, 0)
        known[s.fences :] = s.clock[lanes, s.fences :].max(axis=0)
        return known

    def may_be_overwritten(self, s: SharedShadow, lanes: Array, known: Array) -> None:
        """Bulk copies may overwrite what threads with this knowledge have read, or seen read."""
        if self.facts.bulk:
            floor = s.floor[s.batch.slots(lanes[:1])[0]]
            known[s.overwrites : s.fences] = np.maximum(known[: s.team], floor)

    def tensor_fenced(self, batch: Batch, lanes: Array) -> Array:
        """What a relaxed arrival publishes: fenced operations on tensor memory."""
        s = self.shadows[batch]
        known = np.zeros(s.clock.shape[1], I4)
        known[s.fences :] = s.clock[lanes, s.fences :].max(axis=0)
        return known

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


__all__ = ["Order"]
