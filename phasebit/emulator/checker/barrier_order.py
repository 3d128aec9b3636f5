"""Order by the barriers of blocks, clusters and warps: all that arrive learn of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.findings import say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.cluster import ClusterBarrier, ClusterObserver
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.named_barriers import BlockBarrierObserver, NamedBarrier
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array


@dataclass(eq=False)
class Notes:
    """What is known of one barrier of a block."""

    frontier: Array | None = None
    """What the arrivals have published."""
    mixed: bool = False
    """Whether some of the arrivals might have been counted in the generation before."""
    before: tuple[Array, Array] | None = None
    """Who completed the generation before, and what they published by arriving at it."""


@dataclass(eq=False)
class ClusterNotes:
    """What is known of the barrier of one cluster."""

    frontier: Array | None = None
    """What the arrivals so far have published."""
    published: Array | None = None
    """What those of the last generation had."""


class BarrierOrder(LaunchObserver, BlockBarrierObserver, ClusterObserver):
    """Keeps what barriers publish."""

    def __init__(self, races: Races, findings: Findings) -> None:
        self.machine = races.machine
        self.races = races
        self.findings = findings
        self.notes: dict[NamedBarrier, Notes] = {}
        self.clusters: dict[tuple[Batch, int], ClusterNotes] = {}

    def of(self, barrier: NamedBarrier) -> Notes:
        """What is known of a barrier."""
        if barrier not in self.notes:
            self.notes[barrier] = Notes()
        return self.notes[barrier]

    def ends(self, batch: Batch) -> None:
        """The barriers of a batch are gone."""
        self.notes = {one: notes for one, notes in self.notes.items() if one.batch is not batch}
        self.clusters = {key: notes for key, notes in self.clusters.items() if key[0] is not batch}

    # -- blocks ---------------------------------------------------------------

    def passes_barrier(self, g: Group) -> None:
        """All threads of all blocks of the batch are here."""
        self.races.order.block_barrier(g.batch, np.unique(g.batch.slots(g.lanes)))

    def joins_barrier(self, g: Group, barrier: NamedBarrier) -> None:
        """Threads arrive at a barrier of the block."""
        known = self.races.order.frontier(g.batch, g.lanes)
        self.races.order.may_be_overwritten(self.races.shadows[g.batch], g.lanes, known)
        notes = self.of(barrier)
        if notes.before and not self.races.order.know(g, *notes.before):
            notes.mixed = True
            self.findings.misused(
                g,
                say(
                    "{} arrive at {}, and nothing says that its generation before, of {}, is "
                    "complete: they may be counted in that one",
                    g.batch.describe(g.lanes), barrier.name,
                    g.batch.describe(np.sort(notes.before[0])),
                ),
            )  # fmt: skip
        notes.frontier = _joined(notes.frontier, known)
        self.machine.now += 1

    def opens_barrier(
        self, barrier: NamedBarrier, lanes: Array, groups: Sequence[Group],
        instructions: Sequence[Instruction | None], everyone: bool,
    ) -> None:  # fmt: skip
        """A barrier opens: the next arrivals are of another generation."""
        notes = self.of(barrier)
        assert notes.frontier is not None
        known = None if notes.mixed else notes.frontier
        alone = len(lanes) <= 32  # a warp that needs no other cannot be mistaken for one
        all_waited = everyone and sum(g.n for g in groups) == len(lanes)
        notes.before = None if all_waited or alone else (lanes, notes.frontier)
        notes.frontier, notes.mixed = None, False
        self._pass(barrier, known, groups, everyone)

    def _pass(
        self, barrier: NamedBarrier, frontier: Array | None, groups: Sequence[Group],
        everyone: bool,
    ) -> None:  # fmt: skip
        """A barrier of the block opens for the groups that waited.

        Without a frontier nobody can say whose arrivals opened it: each warp has waited for
        itself, and has learnt nothing of others.
        """
        batch = barrier.batch
        waited = sum(g.n for g in groups)
        if everyone and waited == int(batch.live_in_block[barrier.slot]):
            self.races.order.block_barrier(batch, np.array([barrier.slot]))
            return
        for g in groups:
            if frontier is None:
                self.races.order.warp_barrier(g)
            else:
                self.races.order.acquire(g, frontier)

    # -- clusters -------------------------------------------------------------

    def joins_cluster(
        self, g: Group, barrier: ClusterBarrier, one: int, lanes: Array, sem: str
    ) -> None:
        """Threads of a cluster publish by arriving at its barrier."""
        if sem == "relaxed":
            known = self.races.order.initialised(g.batch, lanes)
            for slot in np.unique(g.batch.slots(lanes)).tolist():
                fenced = self.races.order.fenced(g.batch, lanes[g.batch.slots(lanes) == slot])
                known = known if fenced is None else np.maximum(known, fenced)
        else:
            known = self.races.order.frontier(g.batch, lanes)
            self.races.order.may_be_overwritten(self.races.shadows[g.batch], lanes, known)
        notes = self.clusters.setdefault((g.batch, one), ClusterNotes())
        notes.frontier = _joined(notes.frontier, known)

    def opens_cluster(self, barrier: ClusterBarrier, one: int) -> None:
        """What the arrivals have published is known from now on."""
        notes = self.clusters[barrier.batch, one]
        notes.published, notes.frontier = notes.frontier, None

    def passes_cluster(self, g: Group, barrier: ClusterBarrier, one: int) -> None:
        """Threads learn."""
        notes = self.clusters.get((barrier.batch, one))
        if notes is not None and notes.published is not None:  # else nobody has arrived
            self.races.order.acquire(g, notes.published)

    # -- warps and fences -----------------------------------------------------

    def syncs_warp(self, g: Group) -> None:
        """The threads of each warp wait for each other."""
        self.races.order.warp_barrier(g)

    def shuffles(self, g: Group) -> None:
        """The threads of each warp tell each other."""
        self.races.order.shuffle(g)

    def fences(self, g: Group, scope: str, sem: str) -> None:
        """What the threads did so far, they may publish from now on; what they saw, they know."""
        self.races.order.messages.fence(g, scope, sem)

    def fences_barriers(self, g: Group) -> None:
        """The barriers that these threads initialised may be published."""
        self.races.order.fence_initialised(g)


def _joined(before: Array | None, known: Array) -> Array:
    return known if before is None else np.maximum(before, known)


__all__ = ["BarrierOrder"]
