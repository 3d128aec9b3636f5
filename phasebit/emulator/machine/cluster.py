"""The barrier of a cluster (PTX ISA 9.7.13.3): arrive and wait are separate.

All threads of the cluster that have not left the kernel must arrive; then it opens and
the next generation begins.  A thread that has arrived must wait before it arrives again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.waiting import Waiting
from phasebit.emulator.ptx.types import Array


class ClusterObserver:
    """Events of the barriers of clusters; ``one`` is the number of the cluster in the batch."""

    def joins_cluster(
        self, g: Group, barrier: ClusterBarrier, one: int, lanes: Array, sem: str
    ) -> None:
        """These threads of a group, all of one cluster, arrive."""

    def opens_cluster(self, barrier: ClusterBarrier, one: int) -> None:
        """All threads of a cluster have arrived."""

    def passes_cluster(self, g: Group, barrier: ClusterBarrier, one: int) -> None:
        """Threads go on that have waited for it."""


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
        batch.when_threads_leave.append(self.left)

    def left(self, lanes: Array) -> None:
        """Threads have left the kernel: nobody waits for them."""
        for one in np.unique(lanes // self.size).tolist():
            self.check(one)

    def arrive(self, g: Group, sem: str) -> None:
        """Be counted."""
        machine = self.batch.machine
        twice = not self.waited[g.lanes].all()
        for told in machine.told[LaunchObserver.misused] if twice else ():
            told(
                g,
                say(
                    "{} arrives at the cluster barrier for the second time without waiting in "
                    "between",
                    self.batch.describe(g.lanes[~self.waited[g.lanes]][:1]),
                ),
            )  # fmt: skip
        clusters = g.lanes // self.size
        self.here[g.lanes] = True
        self.waited[g.lanes] = False
        self.mine[g.lanes] = self.opened[clusters] + 1
        machine.progress += 1
        for arrives in machine.told[LaunchObserver.arrives_at]:
            arrives(g, "cluster")
        for one in np.unique(clusters).tolist():
            self.time[one] = max(self.time[one], g.time)
            for joins in machine.told[ClusterObserver.joins_cluster]:
                joins(g, self, one, g.lanes[clusters == one], sem)
            self.check(one)
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
        for told in machine.told[ClusterObserver.opens_cluster]:
            told(self, one)
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
        for told in self.batch.machine.told[ClusterObserver.passes_cluster]:
            told(g, self, self._cluster(g))

    def wait(self, g: Group) -> int:
        """Go on where all have arrived, else park."""
        machine = self.batch.machine
        never = self.mine[g.lanes] == 0
        for told in machine.told[LaunchObserver.misused] if never.any() else ():
            who = self.batch.describe(g.lanes[never][:1])
            told(g, say("{} waits at the cluster barrier without having arrived", who))
        clusters = g.lanes // self.size
        parts = np.unique(clusters)
        resume = g.resume
        for one in parts:
            where: Array = np.flatnonzero(clusters == one)
            some = g if len(parts) == 1 else g.part(where, resume)
            if (self.opened[one] >= self.mine[some.lanes]).all():
                self._pass(some)
                machine.catch_up(some, int(self.time[one]), "cluster barrier")
                if len(parts) == 1:
                    return resume
                machine.make_ready(some)
            else:
                self.waiting.append((some, resume))
                machine.park(
                    some, Waiting("the cluster barrier", machine.where(g), self._explain(int(one)))
                )
        return -1

    def passed(self, lanes: Array) -> bool:
        """Whether one of these threads has been through it, in any generation."""
        return self.last(lanes) > 0

    def last(self, lanes: Array) -> int:
        """The last generation that one of these threads has been through, from 1; 0 for none."""
        return int((self.mine[lanes] - ~self.waited[lanes]).max())

    def next(self, lane: int) -> int:
        """The generation at which a thread has still to arrive."""
        return int(self.mine[lane]) + 1

    def _explain(self, one: int) -> Any:
        def explain() -> Sentence:
            batch = self.batch
            mine = np.arange(one * self.size, (one + 1) * self.size)
            here = mine[self.here[mine]]
            missing = mine[batch.alive[mine] & ~self.here[mine]]
            return say(
                "{} of {} threads of the cluster have arrived; not here: {}",
                len(here), int(batch.alive[mine].sum()), batch.describe(missing),
            )  # fmt: skip

        return explain


def cluster_barrier(batch: Batch) -> ClusterBarrier:
    """The cluster barriers of a batch; made on first use."""
    return batch.of(ClusterBarrier)


__all__ = ["ClusterBarrier", "ClusterObserver", "cluster_barrier"]
