"""Order by mbarriers: what threads publish when they arrive, those know whose wait succeeds.

A barrier is also memory: it must be initialised before anybody uses it, nobody else may touch it
while it is live, and those who have used it must be done with it before it goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasebit.emulator.checker.footprint import Common
from phasebit.emulator.checker.races import Races
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.shared_shadow import LATEST, LIVE, SharedShadow, remember
from phasebit.emulator.copy_engine.copy_observer import ThreadCopyObserver
from phasebit.emulator.findings import say
from phasebit.emulator.machine.barrier_sites import BarrierSite, MbarrierObserver
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.ptx.types import Array

NEVER = -9
"""A phase that no barrier has."""


@dataclass(eq=False)
class Notes:
    """What is known of one mbarrier."""

    frontier: Array | None = None
    """What the arrivals of the current phase have published."""
    published: Array | None = None
    """What those of completed phases have."""
    home: Array | None = None
    """What reaches a wait of ``.cta`` scope: as the frontier, and of other blocks nothing."""
    home_published: Array | None = None
    """The same of completed phases."""
    used: Array | None = None
    """When each thread of the cluster last used the barrier."""
    asked: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Column of the clocks that says whether it has come -> an arrival, or bytes, that a thread
    has asked for: when, the thread, the access."""
    passed: Array | None = None
    """Rows: the last phase that each thread of the cluster has seen complete, when, where."""
    made: tuple[int, int] = (0, 0)
    """When ``mbarrier.init`` was, and by which column of the clocks."""


class MbarrierOrder(MbarrierObserver, LaunchObserver, ThreadCopyObserver):
    """Keeps what mbarriers publish."""

    def __init__(self, races: Races, findings: Findings) -> None:
        self.machine = races.machine
        self.races = races
        self.findings = findings
        self.notes: dict[BarrierSite, Notes] = {}
        self.gathered_at: dict[Batch, Array] = {}
        """When each thread executed its latest ``.sync`` instructions with its warp."""

    def of(self, site: BarrierSite) -> Notes:
        """What is known of a barrier."""
        if site not in self.notes:
            self.notes[site] = Notes()
        return self.notes[site]

    def ends(self, batch: Batch) -> None:
        """The barriers of a batch are gone."""
        self.gathered_at.pop(batch, None)
        self.notes = {site: notes for site, notes in self.notes.items() if site.batch is not batch}

    def publish(self, site: BarrierSite, known: Array, home: Array | None = None) -> None:
        """This is known to whoever waits for the current phase of a barrier.

        ``home``: what is known to a wait of ``.cta`` scope, where that is less.
        """
        notes = self.of(site)
        notes.frontier = _joined(notes.frontier, known)
        if self.machine.cluster_size > 1:
            notes.home = _joined(notes.home, known if home is None else home)

    def touch(self, g: Group, lanes: Array, site: BarrierSite, itself: bool = True) -> None:
        """Threads use an mbarrier: its initialisation must be ordered before.

        Not ``itself``: they ask for an arrival, which comes later (:meth:`asks`).
        """
        notes = self.of(site)
        some = g if lanes is g.lanes else g.part(np.flatnonzero(np.isin(g.lanes, lanes)), g.pc)
        access = self.machine.executing_access()
        words = Common(self._words(site), some.n)
        s = self.races.shadows[g.batch]
        if notes.used is None or not site.barrier.live:  # the operation itself will say so
            self.races.shared_load(some, words, 0, access, True)
        else:
            x = self._words(site) - s.base
            s.write_time[x], s.writer[x] = notes.made
            self.races.shared_load(some, words, 0, access, True)
            s.write_time[x] = LIVE
            if itself:
                self.uses(g.batch, lanes, site)
        away = self.machine.cluster_size > 1 and site.slot != int(lanes[0]) // g.batch.threads
        if itself and away:
            s.note_remote(some, words, access, self.machine.now)

    def uses(self, batch: Batch, lanes: Array, site: BarrierSite) -> None:
        """Threads have used an mbarrier: it may not go before."""
        used = self.of(site).used
        if used is not None:
            used[self.races.shadows[batch].threads(lanes)] = self.machine.now

    def asks(self, site: BarrierSite, column: int, lane: int) -> None:
        """A thread has asked for an arrival, or for bytes; ``column`` will say that it has come."""
        self.of(site).asked[column] = self.machine.now, lane, self.machine.executing_access()

    def _by_block(self, batch: Batch, lanes: Array) -> list[Array]:
        """The threads of each block of a cluster; all, where a block is a unit of its own."""
        slots = batch.slots(lanes)
        if self.machine.cluster_size == 1 or slots[0] == slots[-1]:
            return [lanes]
        return [lanes[slots == slot] for slot in np.unique(slots)]

    def _reaching(
        self, batch: Batch, lanes: Array, site: BarrierSite, scope: str, known: Array
    ) -> tuple[Array, Array | None]:
        """What an arrival says to a wait of cluster scope, and to one of ``.cta`` scope.

        ``lanes`` are of one block. At a barrier of another block an operation of ``.cta`` scope
        says nothing of what was written; that these threads are here, and have read what they
        have, it does say.
        """
        slot = int(lanes[0]) // batch.threads
        if self.machine.cluster_size == 1 or slot == site.slot:
            return known, None
        s = self.races.shadows[batch]
        home = self.races.order.messages.fenced_to_cluster(s, lanes, known)
        if scope != "cta":
            return known, home
        s.narrow[slot % self.machine.cluster_size] = self.machine.executing_access()
        return home, None

    # -- events ---------------------------------------------------------------

    def tests(self, g: Group, lanes: Array, site: BarrierSite, sem: str, scope: str) -> None:
        """Threads come to wait."""
        self.touch(g, lanes, site)
        self.races.shadows[g.batch].waits_at[lanes] = self.machine.executing_access()
        self.races.shadows[g.batch].waits_relaxed[lanes] = sem == "relaxed"
        if self.machine.cluster_size > 1:
            access = self.machine.executing_access() if sem != "relaxed" and scope == "cta" else -1
            self.races.shadows[g.batch].waits_near[lanes] = access

    def arrives(self, g: Group, lanes: Array, site: BarrierSite, sem: str, scope: str) -> None:
        """An arrival publishes; the barrier's own memory must have been written.

        A relaxed one publishes what a fence has ordered before it, no more.
        """
        if sem != "relaxed":
            self.touch(g, lanes, site)
            for some in self._by_block(g.batch, lanes):
                known = self.races.order.frontier(g.batch, some)
                self.races.order.may_be_overwritten(self.races.shadows[g.batch], some, known)
                self.publish(site, *self._reaching(g.batch, some, site, scope, known))
            return
        s = self.races.shadows[g.batch]
        s.relaxed[s.threads(lanes)] = self.machine.executing_access()
        s.relaxed_time[s.threads(lanes)] = self.machine.now
        if self.races.facts.tensor_fences:
            self.publish(site, self.races.order.tensor_fenced(g.batch, lanes))
        for some in self._by_block(g.batch, lanes) if s.fenced else ():
            fenced = self.races.order.fenced(g.batch, some, site.slot)
            if fenced is not None:
                self.publish(site, fenced)

    def thread_copies_arrive(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """The threads' copies arrive, and publish themselves."""
        self.publish(site, self.races.order.copies_frontier(g.batch, lanes))

    def completes(self, site: BarrierSite) -> None:
        """A phase is over: what its arrivals published is known from now on."""
        notes = self.of(site)
        if notes.frontier is None:
            return
        self._late_lanes(site, notes, notes.frontier)
        notes.published = _joined(notes.published, notes.frontier)
        notes.frontier = None
        if notes.home is not None:
            notes.home_published = _joined(notes.home_published, notes.home)
            notes.home = None

    def passes(self, g: Group, site: BarrierSite) -> None:
        """A wait has succeeded: its threads learn."""
        self.uses(g.batch, g.lanes, site)
        notes = self.of(site)
        s = self.races.shadows[g.batch]
        if notes.passed is None:
            notes.passed = np.full((3, s.team), NEVER, np.int64)
        columns = s.threads(g.lanes)
        notes.passed[0, columns] = site.barrier.phase - 1
        notes.passed[1, columns] = self.machine.now
        notes.passed[2, columns] = s.waits_at[g.lanes]
        if notes.published is None:
            return
        if s.waits_relaxed[g.lanes[0]]:
            self.races.order.acquire_later(
                g, site.position(), notes.published, notes.home_published
            )
            if self.races.facts.tensor_fences:
                self.races.order.acquire(g, _of_tensors(s, notes.published))
            return
        near = s.waits_near[g.lanes[0]]
        if near >= 0 and notes.home_published is not None:
            if (notes.home_published < notes.published).any():
                s.waited_near(site.slot, int(near))
            self.races.order.acquire(g, notes.home_published)
        else:
            self.races.order.acquire(g, notes.published)

    def gathered(self, g: Group, membermask: Any, all_here: bool) -> None:
        """The threads of a ``.sync`` instruction have waited for each other."""
        if g.batch not in self.gathered_at:
            self.gathered_at[g.batch] = np.zeros((LATEST, g.batch.lanes), np.int64)
        remember(self.gathered_at[g.batch], g.lanes, self.machine.now)

    def _late_lanes(self, site: BarrierSite, notes: Notes, frontier: Array) -> None:
        """A phase is complete: had all lanes of a warp seen the one before?

        Of a warp that waited for the phase before, one lane may have gone on and brought about
        that this one completes.  A lane that nothing held together with it may come to its wait
        only now: its parity no longer says that the phase is over, and it waits for ever.
        """
        if notes.passed is None:
            return
        batch = site.batch
        waited = np.flatnonzero(notes.passed[0] == site.barrier.phase - 2)
        if not len(waited):
            return
        times = notes.passed[1, waited]
        seen = frontier[waited] >= times
        if seen.all():
            return
        s = self.races.shadows[batch]
        first = site.slot * batch.threads // s.team * s.team
        lanes = first + waited
        team, told = first + np.arange(s.team), frontier[: s.team]  # what follows is of copies
        heard = _most(told, team // batch.threads)[waited]
        seen |= _between(times, s.floors[:, lanes // batch.threads], heard)  # __syncthreads()
        warps = batch.warp_of[lanes]
        synced = self.gathered_at.get(batch)
        if synced is not None:
            heard = _most(told, batch.warp_of[team])[waited]
            seen |= _between(times, synced[:, lanes], heard)
        known = np.isin(warps, warps[frontier[waited] >= times])
        late = ~seen & known & batch.alive[lanes]
        if not late.any():
            return
        access = int(notes.passed[2, waited[late][0]])
        ahead = lanes[(frontier[waited] >= times) & (warps == warps[late][0])]
        self.findings.report(
            "phase-may-be-missed",
            say(
                "{} may come too late to see phase {} of {} complete: {}; the next phase completes "
                "after {} has gone on, and nothing keeps the lanes of the warp together: "
                "put __syncwarp() behind the wait",
                batch.describe(lanes[late][:1]), site.barrier.phase - 2, site.name,
                self.findings.place(access), batch.describe(ahead[:1]),
            ),
            access, ("missed", access),
        )  # fmt: skip

    def initialises_again(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """One more thread initialises a barrier that nobody has used since."""
        where = self.machine.where(g)
        self.findings.report(
            "mbarrier-initialised-again",
            say(
                "{} initialises mbarrier {} once more: {}{}; a live barrier may not be "
                "initialised (PTX ISA 9.7.13.15.9): let one thread do it",
                g.batch.describe(lanes), site.name, where, site.maker,
            ),
            -1, ("inits", where),
        )  # fmt: skip

    def initialises(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """The memory belongs to the barrier until it is invalidated: others may not touch it."""
        notes, s = self.of(site), self.races.shadows[g.batch]
        x = self._words(site) - s.base
        notes.made = self.machine.now, s.initialiser(int(lanes[0]))
        notes.used = np.zeros(s.team, np.int32)
        notes.asked.clear()
        s.write_time[x], s.writer[x] = LIVE, notes.made[1]
        s.write_access[x] = self.machine.executing_access()
        s.write_strong[x] = False
        if len(lanes) > 1:
            self._by_many(g, lanes, site)

    def invalidates(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """``mbarrier.inval``: all who have used the barrier must be done with it."""
        s, lane = self.races.shadows[g.batch], lanes[:1]
        access = self.machine.executing_access()
        x = self._words(site) - s.base
        s.write_time[x], s.writer[x] = self.machine.now, s.threads(lane)[0]
        s.write_access[x] = access
        used = self.of(site).used
        if used is None:
            return
        known = np.maximum(s.clock[lane[0], : s.team], s.floor[lane[0] // g.batch.threads])
        known[s.threads(lane)] = self.machine.now
        warps = np.arange(0, s.team, 32)  # libcu++ has heard of one lane for all of its warp
        heard = np.repeat(np.maximum.reduceat(known, warps), 32)[: s.team]
        late = used > heard
        if late.any():
            other = lane // s.team * s.team + np.argmax(late)
            self.findings.report(
                "mbarrier-invalidated-in-use",
                say(
                    "{} invalidates mbarrier {}: {}; {} uses it, and nothing orders the two",
                    g.batch.describe(lane), site.name, self.findings.place(access),
                    g.batch.describe(other),
                ),
                access, ("invalidated", access),
            )  # fmt: skip
        self._not_come(g, lane, site, access)
        self.machine.now += 1

    def _not_come(self, g: Group, lane: Array, site: BarrierSite, access: int) -> None:
        """An mbarrier goes: has all come that threads have asked for?"""
        s = self.races.shadows[g.batch]
        floor = int(s.floor[lane[0] // g.batch.threads])
        for column, (time, by, there) in self.of(site).asked.items():
            if time > max(int(s.clock[lane[0], column]), floor):
                self.findings.report(
                    "mbarrier-invalidated-in-use",
                    say(
                        "{} invalidates mbarrier {}: {}; what {} has asked for may still arrive "
                        "there, and nothing says that it has: {}",
                        g.batch.describe(lane), site.name, self.findings.place(access),
                        g.batch.describe(np.array([by])), self.findings.place(there),
                    ),
                    access, ("invalidated", access, there),
                )  # fmt: skip

    def _words(self, site: BarrierSite) -> Array:
        """The granules that a barrier lies in."""
        unit = self.races.facts.shift
        return np.arange(site.position() >> unit, (site.position() + 8) >> unit)

    def _by_many(self, g: Group, lanes: Array, site: BarrierSite) -> None:
        """Several threads initialise a barrier: all but the first one that is live already."""
        self.findings.report(
            "mbarrier-initialised-again",
            say(
                "{} initialise mbarrier {}, each of them once more: {}; a live barrier may not be "
                "initialised (PTX ISA 9.7.13.15.9): let one thread do it",
                g.batch.describe(lanes), site.name, self.machine.where(g),
            ),
            -1, ("inits", self.machine.where(g)),
        )  # fmt: skip

    def unobserved(self, g: Group, site: BarrierSite) -> None:
        """Nobody has seen the phase before complete: nothing keeps arrivals of two phases apart."""
        where = self.machine.where(g)
        self.findings.report(
            "mbarrier-phase-unseen",
            say(
                "{} arrive in phase {} of {}, but nobody has seen phase {} complete: {}{}",
                g.batch.describe(g.lanes), site.barrier.phase, site.name, site.barrier.phase - 1,
                where, site.maker,
            ),
            -1, ("observed", where),
        )  # fmt: skip


def _of_tensors(s: SharedShadow, published: Array) -> Array:
    """What a relaxed wait makes known to a ``tcgen05.fence`` behind it: commits, and what threads
    fenced before they arrived (PTX ISA 9.7.16.6.4)."""
    known = np.zeros_like(published)
    for part in (slice(s.bulk, s.inits), slice(s.fences, None)):
        known[part] = published[part]
    return known


def _joined(before: Array | None, known: Array) -> Array:
    return known if before is None else np.maximum(before, known)


def _between(begin: Array, times: Array, end: Array) -> Array:
    """Whether one of ``times`` (LATEST, n) lies between; also where it may be forgotten."""
    forgotten = (times[-1] > end) & (times[-1] >= begin)
    lies: Array = np.any((times >= begin) & (times <= end), axis=0) | forgotten
    return lies


def _most(known: Array, groups: Array) -> Array:
    """For each one the most that any of its group has."""
    most = np.full(int(groups.max()) + 1, NEVER, known.dtype)
    np.maximum.at(most, groups, known)
    return most[groups]


__all__ = ["MbarrierOrder"]
