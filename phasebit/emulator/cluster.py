"""The barrier of a cluster (PTX ISA 9.7.13.3): arrive and wait are separate.

All threads of the cluster that have not left the kernel must arrive; then it opens and
the next generation begins.  A thread that has arrived must wait before it arrives again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.machine import Waiting
from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.machine import Batch


class ClusterBarrier:
    """The barriers of all clusters of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.size = batch.machine.cluster_size * batch.threads
        """Threads of a cluster."""
        clusters = batch.lanes // self.size
        self.here = np.zeros(batch.lanes, bool)
        """Who has arrived in the generation that is open."""
        self.opened = np.zeros(clusters, np.int64)
        self.mine = np.zeros(batch.lanes, np.int64)
        """The generation after the one in which each thread last arrived."""
        self.waited = np.ones(batch.lanes, bool)
        self.waiting: list[tuple[Group, int]] = []
        """Groups of one cluster each, and where they go on."""
        self.time = np.zeros(clusters, np.int64)
        self.frontier: list[Any] = [None] * clusters
        """What the arrivals so far have published (the checker's clocks)."""
        self.published: list[Any] = [None] * clusters
        """What those of the last generation had."""

    def arrive(self, g: Group, sem: str) -> None:
        """Be counted."""
        machine = self.batch.machine
        if machine.checked and not self.waited[g.lanes].all():
            machine.checker.misuse(
                g, f"{self.batch.describe(g.lanes[~self.waited[g.lanes]][:1])} arrives at the "
                "cluster barrier for the second time without waiting in between"
            )  # fmt: skip
        clusters = g.lanes // self.size
        self.here[g.lanes] = True
        self.waited[g.lanes] = False
        self.mine[g.lanes] = self.opened[clusters] + 1
        machine.progress += 1
        machine.trace.signal(g, "cluster")
        for one in np.unique(clusters).tolist():
            self.time[one] = max(self.time[one], g.time)
            if machine.checked:
                known = machine.checker.cluster_arrival(g, g.lanes[clusters == one], sem)
                before = self.frontier[one]
                self.frontier[one] = known if before is None else np.maximum(before, known)
            self.check(one)
        if machine.checked:
            machine.now += 1

    def check(self, one: int) -> None:
        """Open a cluster's barrier when all its threads have arrived or left the kernel."""
        batch, machine = self.batch, self.batch.machine
        everyone = slice(one * self.size, (one + 1) * self.size)
        here = self.here[everyone]
        if not here.any() or (batch.alive[everyone] & ~here).any():
            return
        self.opened[one] += 1
        here[:] = False
        self.published[one], self.frontier[one] = self.frontier[one], None
        machine.progress += 1
        waiting, self.waiting = self.waiting, []
        for g, resume in waiting:
            if self._cluster(g) == one:
                self._pass(g)
                machine.wake(g, resume, int(self.time[one]))
            else:
                self.waiting.append((g, resume))

    def _cluster(self, g: Group) -> int:
        return int(g.lanes[0]) // self.size

    def _pass(self, g: Group) -> None:
        self.waited[g.lanes] = True
        published = self.published[self._cluster(g)]
        if self.batch.machine.checked and published is not None:
            self.batch.machine.checker.acquire(g, published)

    def wait(self, g: Group) -> int:
        """Go on where all have arrived, else park."""
        machine = self.batch.machine
        never = self.mine[g.lanes] == 0
        if never.any() and machine.checked:
            machine.checker.misuse(
                g, f"{self.batch.describe(g.lanes[never][:1])} waits at the cluster barrier "
                "without having arrived"
            )  # fmt: skip
        clusters = g.lanes // self.size
        parts = np.unique(clusters)
        resume = g.resume
        for one in parts:
            where: Array = np.flatnonzero(clusters == one)
            some = g if len(parts) == 1 else g.part(where, resume)
            if (self.opened[one] >= self.mine[some.lanes]).all():
                self._pass(some)
                machine.trace.catch_up(some, int(self.time[one]), "cluster barrier")
                if len(parts) == 1:
                    return resume
                machine.make_ready(some)
            else:
                self.waiting.append((some, resume))
                machine.park(
                    some, Waiting("the cluster barrier", machine.where(g), self._explain(int(one)))
                )
        return -1

    def _explain(self, one: int) -> Any:
        def explain() -> str:
            batch = self.batch
            mine = np.arange(one * self.size, (one + 1) * self.size)
            here = mine[self.here[mine]]
            missing = mine[batch.alive[mine] & ~self.here[mine]]
            return (
                f"{len(here)} of {int(batch.alive[mine].sum())} threads of the cluster have "
                f"arrived; not here: {batch.describe(missing)}"
            )

        return explain


def cluster_barrier(batch: Batch) -> ClusterBarrier:
    """The cluster barriers of a batch; made on first use."""
    if batch.cluster is None:
        batch.cluster = ClusterBarrier(batch)
    return batch.cluster


__all__ = ["ClusterBarrier", "cluster_barrier"]
