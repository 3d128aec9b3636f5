"""Order through memory: what strong writes publish and strong reads learn (PTX ISA 8.7 to 8.9).

A flag orders nothing by itself.  Its writer must *release*: with ``.release`` or
``.acq_rel`` on the write, or a fence before it.  Its reader must *acquire*: with
``.acquire``, or a fence after it.  So the checker remembers what each thread knew at
its last fence; a relaxed write publishes that, a releasing one all that the thread
knows by then.  What a relaxed read has seen stays *pending* until the reader's next
fence.

Two idioms go beyond the letter of the model, hold on every GPU, and stand in many
correct programs, so they count as order: all threads fence, then ``bar.sync``, then
one of them sets the flag; and one thread reads the flag, then ``bar.sync`` (or a warp's
barrier or shuffle) lets the others go on without a fence.  A fence or write of
``.cta`` scope orders within the block, not between blocks.

Threads are counted by *unit*: the block, or the cluster where there is one.  What a
unit knows of others is a list of *lessons*: who learnt, when, and the clocks of other
units.  A thread knows a lesson when its clock says that it comes after.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phasebit.emulator.checker.beside import Beside
from phasebit.emulator.checker.shared_shadow import Clocks, Fenced, SharedShadow
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.ptx.types import Array

I4 = np.int32
RELEASES = frozenset({"release", "acq_rel", "sc"})
ACQUIRES = frozenset({"acquire", "acq_rel", "sc"})
NEAR = frozenset({"cta", "cluster"})
"""Scopes that do not reach other units."""


@dataclass
class Lesson:
    """``lanes`` learnt ``clocks`` at ``time``."""

    lanes: Array
    time: int
    clocks: Clocks


@dataclass
class Knowledge:
    """What a unit knows of others."""

    everyone: Clocks = field(default_factory=dict)
    """What all its threads know."""
    lessons: list[Lesson] = field(default_factory=list)
    """What some know."""
    table: tuple[Array, Array, Array] | None = None
    """Of each lesson's threads: column, time, number of the lesson; None where that is old."""

    def known_to(self, s: SharedShadow, said: Array) -> list[Lesson]:
        """The lessons that come before what is ``said``: one look for all, as there are many."""
        if not self.lessons:
            return []
        if self.table is None:
            columns = [s.threads(lesson.lanes) for lesson in self.lessons]
            sizes = [len(c) for c in columns]
            times = [lesson.time for lesson in self.lessons]
            numbers = np.arange(len(sizes))
            self.table = np.concatenate(columns), np.repeat(times, sizes), np.repeat(numbers, sizes)
        column, time, number = self.table
        return [self.lessons[i] for i in np.unique(number[said[column] >= time]).tolist()]


class Message:
    """What strong writes to one address have published."""

    def __init__(self) -> None:
        self.near: Clocks = {}
        """For readers of the same unit."""
        self.home: Clocks = {}
        """Number of a block of a cluster -> what it said with ``.cta`` scope, to itself."""
        self.far: Clocks = {}
        """For readers of others."""
        self.version = 0
        self.seen: dict[int, Array] = {}
        """Unit -> the version that each of its threads has read."""


class Messages:
    """All messages of a launch, and what units know."""

    def __init__(self, machine: Machine, shadows: dict[Batch, SharedShadow]) -> None:
        self.machine = machine
        self.shadows = shadows
        self.messages: dict[int, Message] = {}
        """By the address, a byte of the buffer."""
        self.known: dict[int, Knowledge] = {}
        self.others: Beside | None = None
        """Messages from one launch to another that runs beside it."""

    # -- fences ---------------------------------------------------------------

    def fence(self, g: Group, scope: str, sem: str) -> None:
        """``fence``, ``membar``: later strong writes publish what is known now.

        One of ``acquire`` alone publishes nothing, one of ``release`` alone lets no relaxed read
        before it count (8.7: only the other one makes such a pattern).
        """
        s = self.shadows[g.batch]
        if sem != "release":
            self.settle(s, g.lanes)
            if scope != "cta":
                s.widen(g.lanes)
            if self.others is not None:
                self.others.fence(g, scope)
        if sem == "acquire":
            return
        rows = np.maximum(s.clock[g.lanes], s.floor[g.batch.slots(g.lanes)][:, None])
        rows[np.arange(g.n), s.threads(g.lanes)] = self.machine.now
        if s.wide < s.proxy:
            rows[np.arange(g.n), s.wide + s.threads(g.lanes)] = self.machine.now
        reaches = ("near",) if scope in NEAR else ("near", "far")
        if self.others is not None and scope == "sys":
            reaches = (*reaches, "wide")
        for reach in reaches:
            if reach not in s.fenced:
                s.fenced[reach] = Fenced(s.clock)
            s.fenced[reach].rows[g.lanes] = rows
            s.fenced[reach].time[g.lanes] = self.machine.now

    def settle(self, s: SharedShadow, lanes: Array) -> None:
        """What these threads have read counts from now on."""
        for key, (waiting, near, far) in list(s.unsettled.items()):
            mine = lanes[waiting[lanes]]
            if len(mine):
                self.learn(s, mine, near, far)
                waiting[mine] = False
                if not waiting.any():
                    del s.unsettled[key]

    # -- writing --------------------------------------------------------------

    def send(self, g: Group, positions: Array, sem: str, scope: str, access: int) -> None:
        """Strong writes publish, at their addresses.  ``access``: the instruction's number."""
        s = self.shadows[g.batch]
        releases = sem in RELEASES
        if sem == "volatile":  # which is relaxed at the widest scope
            scope = "sys"
        if self.others is not None:
            self.others.scopes(g, positions, scope, "writes", access)
        if not releases and not s.fenced:
            return
        if releases:
            self.settle(s, g.lanes)
        units = g.lanes // s.team
        for position in np.unique(positions).tolist():
            at = positions == position
            message = self.messages.setdefault(position, Message())
            message.version += 1
            for unit in np.unique(units[at]).tolist():
                lanes = g.lanes[at & (units == unit)]
                self._publish(s, lanes, message, releases, scope)
                if self.others is not None:
                    self.others.publish(g, lanes, position, releases, scope)
        self.machine.now += 1

    def _publish(
        self, s: SharedShadow, lanes: Array, message: Message, releases: bool, scope: str
    ) -> None:
        unit = s.unit(lanes[0])
        for reach, clocks in (("near", message.near), ("far", message.far)):
            if reach == "far" and scope in NEAR:
                continue
            said = self.said(s, lanes, releases, reach)
            if said is None:
                continue
            if releases and scope == "cta" and s.wide < s.proxy:
                said = self._said_at_home(s, lanes, message, said)
            add(clocks, unit, said)
            if reach == "far" and unit in self.known:
                knowledge = self.known[unit]
                merge(clocks, knowledge.everyone)
                for lesson in knowledge.known_to(s, said):
                    merge(clocks, lesson.clocks)

    def _said_at_home(self, s: SharedShadow, lanes: Array, message: Message, said: Array) -> Array:
        """What a write of ``.cta`` scope says to other blocks of the cluster: nothing written."""
        for slot in np.unique(s.batch.slots(lanes)).tolist():
            rank = slot % self.machine.cluster_size
            s.narrow[rank] = self.machine.executing_access()
            add(message.home, s.first // s.batch.threads + slot, said)
        said = said.copy()
        said[s.wide : s.proxy] = 0
        return said

    def said(self, s: SharedShadow, lanes: Array, releases: bool, reach: str) -> Array | None:
        """What a strong write of these threads says to those that it reaches; None: nothing."""
        return self._all_known(s, lanes) if releases else self._fenced(s, lanes, reach)

    def _all_known(self, s: SharedShadow, lanes: Array) -> Array:
        """All that these threads of one unit know, and did until now."""
        known: Array = np.maximum(s.clock[lanes].max(axis=0), s.floor[lanes[0] // s.batch.threads])
        s.did(known, lanes, self.machine.now)
        return known.astype(I4)

    def _fenced(self, s: SharedShadow, lanes: Array, reach: str) -> Array | None:
        """What they knew when they last fenced, or know of others who have fenced since."""
        fenced = s.fenced.get(reach)
        if fenced is None:
            return None
        everyone = np.arange(s.team) + lanes[0] // s.team * s.team
        known = fenced.rows[lanes].max(axis=0)
        others = np.minimum(self._all_known(s, lanes)[: s.team], fenced.time[everyone])
        known[: s.team] = np.maximum(known[: s.team], others)
        return known if known.any() else None

    # -- reading --------------------------------------------------------------

    def receive(self, g: Group, positions: Array, sem: str, scope: str, access: int) -> None:
        """Strong reads learn what was published at their addresses; relaxed ones, later."""
        if self.others is not None:
            self.others.hear(g, positions, sem, "sys" if sem == "volatile" else scope, access)
        if not self.messages:
            return
        s = self.shadows[g.batch]
        units = g.lanes // s.team
        for position in np.unique(positions).tolist():
            message = self.messages.get(position)
            if message is None:
                continue
            at = positions == position
            for local in np.unique(units[at]).tolist():
                lanes = g.lanes[at & (units == local)]
                unit = s.unit(lanes[0])
                seen = message.seen.setdefault(unit, np.zeros(s.team, np.int64))
                columns = s.threads(lanes)
                if sem in ACQUIRES:
                    self.settle(s, lanes)
                if int(seen[columns].min()) == message.version:
                    continue  # a spinning thread looks again at what it has seen
                seen[columns] = message.version
                near: Clocks = {unit: message.near[unit]} if unit in message.near else {}
                if message.home:
                    for slot in np.unique(s.batch.slots(lanes)).tolist():
                        own = message.home.get(s.first // s.batch.threads + slot)
                        if own is not None:
                            add(near, unit, own)
                far = {u: clocks for u, clocks in message.far.items() if u != unit}
                if sem in ACQUIRES:
                    self.learn(s, lanes, near, far)
                else:
                    before = s.unsettled.get((position, local))
                    waiting = np.zeros(len(s.clock), bool) if before is None else before[0]
                    waiting[lanes] = True
                    s.unsettled[position, local] = (waiting, near, far)

    def learn(self, s: SharedShadow, lanes: Array, near: Clocks, far: Clocks) -> None:
        """These threads of one unit know what was published, near or far."""
        unit = s.unit(lanes[0])
        if unit in near:
            s.learn(lanes, near[unit])
            s.news[lanes] = True
        if far:
            knowledge = self.known.setdefault(unit, Knowledge())
            knowledge.lessons.append(Lesson(lanes, self.machine.now, far))
            knowledge.table = None
            s.news[lanes] = True

    def barrier(self, batch: Batch, slots: Array) -> None:
        """A barrier of whole blocks, each a unit: what one has learnt, all know now."""
        s = self.shadows[batch]
        if s.unsettled:
            threads = batch.threads
            self.settle(s, (slots[:, None] * threads + np.arange(threads)).ravel())
        if self.known:
            for slot in slots.tolist():
                knowledge = self.known.get(s.unit(slot * batch.threads))
                if knowledge is not None and knowledge.lessons:
                    for lesson in knowledge.lessons:
                        merge(knowledge.everyone, lesson.clocks)
                    knowledge.lessons.clear()
                    knowledge.table = None

    def tell(self, s: SharedShadow, lanes: Array) -> None:
        """What one of these lanes of a warp has learnt from other units, all of them know."""
        knowledge = self.known.get(s.unit(lanes[0]))
        if knowledge is None:
            return
        for lesson in knowledge.lessons:
            if np.isin(lesson.lanes, lanes).any():
                lesson.lanes = np.union1d(lesson.lanes, lanes)
                knowledge.table = None

    # -- asking ---------------------------------------------------------------

    def unordered(self, s: SharedShadow, lanes: Array, times: Array, who: Array) -> Array:
        """Where what threads ``who`` of other units did is not known to these lanes."""
        bad = np.ones(times.shape, bool)
        theirs = who // s.team
        mine = lanes // s.team
        for local in np.unique(mine).tolist():
            knowledge = self.known.get(s.unit(local * s.team))
            if knowledge is None:
                continue
            here = mine == local
            _strike(bad, here, times, who, theirs, knowledge.everyone, s.team)
            for lesson in knowledge.lessons:
                if not (bad & here).any():
                    break
                columns = s.threads(lesson.lanes)
                floors = s.floor[lanes // s.batch.threads]
                knows = (s.clock[lanes][..., columns] >= lesson.time).any(axis=-1)
                knows |= (floors >= lesson.time) | np.isin(lanes, lesson.lanes)
                _strike(bad, here & knows, times, who, theirs, lesson.clocks, s.team)
        return bad


def _strike(
    bad: Array, here: Array, times: Array, who: Array, theirs: Array, clocks: Clocks, team: int
) -> None:
    """Take away from ``bad`` what the clocks cover."""
    for unit in np.unique(theirs[bad & here]).tolist():
        if unit in clocks:
            some = bad & here & (theirs == unit)
            bad[some] = times[some] > clocks[unit][who[some] % team]


def add(clocks: Clocks, unit: int | tuple[int, int], said: Array) -> None:
    """Take the later of two times for each thread of a unit; arrays are shared, never changed."""
    before = clocks.get(unit)
    if before is said:
        return
    if before is None or (said >= before).all():
        clocks[unit] = said
    else:
        clocks[unit] = np.maximum(before, said)


def merge(clocks: Clocks, more: Clocks) -> None:
    for unit, said in more.items():
        add(clocks, unit, said)


__all__ = ["ACQUIRES", "NEAR", "Clocks", "Fenced", "Knowledge", "Messages", "add", "merge"]
