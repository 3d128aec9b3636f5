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
barrier or shuffle) lets the others go on without a fence.  A fence, a read or a write of
``.cta`` scope orders within the block, not between blocks; a wider fence behind the read does.

Threads are counted by *unit*: the block, or the cluster where there is one.  What a
unit knows of others is a list of *lessons*: who learnt, when, and the clocks of other
units.  A thread knows a lesson when its clock says that it comes after.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phasebit.emulator.checker.beside import Beside
from phasebit.emulator.checker.shared_shadow import (
    LEFT,
    WAITS,
    Clocks,
    Fenced,
    Heard,
    SharedShadow,
)
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
        """Number of a block of a cluster -> what it said with any scope, to itself."""
        self.far: Clocks = {}
        """For readers of others."""
        self.version = 0
        self.seen: dict[tuple[int, str], Array] = {}
        """Unit, and the reads' scope -> the version that each of its threads has read."""


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
            self.settle(s, g.lanes, scope)
            if scope != "cta":
                s.widen(g.lanes)
            if self.others is not None:
                self.others.fence(g, scope)
        if sem == "acquire":
            return
        rows = s.floored(s.clock[g.lanes], s.floor[g.batch.slots(g.lanes)][:, None])
        rows[np.arange(g.n), s.threads(g.lanes)] = self.machine.now
        if s.wide < s.proxy:
            rows[np.arange(g.n), s.wide + s.threads(g.lanes)] = self.machine.now
        reaches = ["near"] if scope in NEAR else ["near", "far"]
        if s.wide < s.proxy:
            if scope == "cta":
                for slot in np.unique(s.batch.slots(g.lanes)).tolist():
                    rank = slot % self.machine.cluster_size
                    s.near_fence[rank] = self.machine.executing_access()
            else:
                reaches.append("cluster")
        if self.others is not None and scope == "sys":
            reaches.append("wide")
        for reach in reaches:
            if reach not in s.fenced:
                s.fenced[reach] = Fenced(s.clock)
            s.fenced[reach].note(g.lanes, rows, self.machine.now)

    def settle(self, s: SharedShadow, lanes: Array, scope: str = "") -> None:
        """What these threads have read counts from now on.

        As far as the ``scope`` of their fence reaches; without one, as far as that of the read.
        """
        for key, heard in list(s.unsettled.items()):
            state = heard.waiting[lanes]
            mine = lanes[state == WAITS if scope in ("", "cta") else state > 0]
            if not len(mine):
                continue
            reach = scope or heard.scope
            far = reach not in NEAR
            self.learn(s, mine, heard.home if reach == "cta" else heard.near,
                       heard.far if far else {})  # fmt: skip
            less = heard.home is not heard.near
            if less and reach == "cta":
                slot = int(mine[0]) // s.batch.threads
                s.waited_near(slot, self.machine.executing_access() if scope else heard.access)
            if far or not (heard.far or (less and reach == "cta")):
                heard.waiting[mine] = 0
                if not heard.waiting.any():
                    del s.unsettled[key]
            elif not scope:
                heard.waiting[mine] = LEFT

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
            if reach == "near" and s.wide < s.proxy:
                self._say_at_home(s, lanes, message, said, releases)
                said = self._said_to_cluster(s, lanes, said, releases, scope)
            add(clocks, unit, said)
            if reach == "far" and unit in self.known:
                knowledge = self.known[unit]
                merge(clocks, knowledge.everyone)
                for lesson in knowledge.known_to(s, said):
                    merge(clocks, lesson.clocks)

    def _say_at_home(
        self, s: SharedShadow, lanes: Array, message: Message, said: Array, releases: bool
    ) -> None:
        """What each block of a cluster, of all that is ``said``, says to itself."""
        slots = s.batch.slots(lanes)
        several = slots[0] != slots[-1]
        for slot in np.unique(slots).tolist():
            own = self.said(s, lanes[slots == slot], releases, "near") if several else said
            if own is not None:
                add(message.home, s.first // s.batch.threads + slot, own)

    def _said_to_cluster(
        self, s: SharedShadow, lanes: Array, said: Array, releases: bool, scope: str
    ) -> Array:
        """What of that it says to other blocks of the cluster.

        With ``.cta`` scope nothing of what was written; a relaxed one what was fenced with more.
        """
        if scope != "cta" if releases else not s.near_fence:
            return said
        wide = slice(s.wide, s.proxy)
        if not releases:
            found = self.fenced_to_cluster(s, lanes, said)
        else:
            found = said.copy()
            found[wide] = 0
        if (found[wide] >= said[wide]).all():
            return said
        for slot in np.unique(s.batch.slots(lanes)).tolist():
            rank = slot % self.machine.cluster_size
            if releases:
                s.narrow[rank] = self.machine.executing_access()
            elif rank in s.near_fence:
                s.narrow.setdefault(rank, s.near_fence[rank])
        return found

    def fenced_to_cluster(self, s: SharedShadow, lanes: Array, known: Array) -> Array:
        """Of what is known of these threads, what reaches other blocks: what they have fenced."""
        wide = slice(s.wide, s.proxy)
        fenced = self.said(s, lanes, False, "cluster")
        found = known.copy()
        found[wide] = 0 if fenced is None else fenced[wide]
        return found

    def said(self, s: SharedShadow, lanes: Array, releases: bool, reach: str) -> Array | None:
        """What a strong write of these threads says to those that it reaches; None: nothing."""
        return self._all_known(s, lanes) if releases else self._fenced(s, lanes, reach)

    def _all_known(self, s: SharedShadow, lanes: Array) -> Array:
        """All that these threads of one unit know, and did until now."""
        floor = s.floor[lanes[0] // s.batch.threads]
        known = s.floored(s.clock[lanes].max(axis=0), floor)
        s.did(known, lanes, self.machine.now)
        return known.astype(I4)

    def _fenced(self, s: SharedShadow, lanes: Array, reach: str) -> Array | None:
        """What they knew when they last fenced, and of others what those have fenced since.

        A fence of another counts if it comes before: one that nothing orders may come after.
        """
        fenced = s.fenced.get(reach)
        if fenced is None:
            return None
        everyone = np.arange(s.team) + lanes[0] // s.team * s.team
        known = fenced.rows[lanes].max(axis=0)
        heard = self._all_known(s, lanes)
        for first in (0, s.wide) if s.wide < s.proxy else (0,):
            part = slice(first, first + s.team)
            known[part] = np.maximum(known[part], fenced.until(everyone, heard[part]))
        return known if known.any() else None

    # -- reading --------------------------------------------------------------

    def receive(self, g: Group, positions: Array, sem: str, scope: str, access: int) -> None:
        """Strong reads learn what was published at their addresses; relaxed ones, later."""
        if self.others is not None:
            self.others.hear(g, positions, sem, "sys" if sem == "volatile" else scope, access)
        if not self.messages:
            return
        s = self.shadows[g.batch]
        reach = scope if scope in NEAR and sem != "volatile" else ""
        blocks = s.batch.slots(g.lanes)
        for position in np.unique(positions).tolist():
            message = self.messages.get(position)
            if message is None:
                continue
            at = positions == position
            for block in np.unique(blocks[at]).tolist():
                lanes = g.lanes[at & (blocks == block)]
                unit = s.unit(lanes[0])
                seen = message.seen.setdefault((unit, reach), np.zeros(s.team, np.int64))
                columns = s.threads(lanes)
                if sem in ACQUIRES:
                    self.settle(s, lanes)
                if int(seen[columns].min()) == message.version:
                    continue  # a spinning thread looks again at what it has seen
                seen[columns] = message.version
                self._hear(s, lanes, message, (position, block, reach), sem, access)

    def _hear(
        self, s: SharedShadow, lanes: Array, message: Message, key: tuple[int, int, str],
        sem: str, access: int,
    ) -> None:  # fmt: skip
        """Threads of a block read a message, at ``key``."""
        _, block, reach = key
        unit = s.unit(lanes[0])
        near: Clocks = {unit: message.near[unit]} if unit in message.near else {}
        home = near
        own = message.home.get(s.first // s.batch.threads + block)
        if near and own is not None:
            add(near, unit, own)
        if near and s.wide < s.proxy:
            said = message.near[unit].copy()
            said[s.wide : s.proxy] = 0
            home = {unit: said}
            if own is not None:
                add(home, unit, own)
            if (home[unit] >= near[unit]).all():
                home = near
        far = {u: clocks for u, clocks in message.far.items() if u != unit}
        left = bool(far) and reach in NEAR
        if sem in ACQUIRES:
            if reach == "cta" and home is not near:
                s.waited_near(block, access)
            self.learn(s, lanes, home if reach == "cta" else near, {} if left else far)
            if not left:
                return
        before = s.unsettled.get(key)
        waiting = np.zeros(len(s.clock), np.int8) if before is None else before.waiting
        waiting[lanes] = LEFT if sem in ACQUIRES else WAITS
        s.unsettled[key] = Heard(waiting, near, home, far, reach, access)

    def hear_later(
        self, s: SharedShadow, lanes: Array, position: int, near: Array, home: Array
    ) -> None:
        """A relaxed wait of threads of a block has succeeded: what was published counts behind a
        fence; ``home``: what of that one of ``.cta`` scope makes known."""
        unit, key = s.unit(lanes[0]), (position, int(lanes[0]) // s.batch.threads, "cluster")
        before = s.unsettled.get(key)
        waiting = np.zeros(len(s.clock), np.int8) if before is None else before.waiting
        waiting[lanes] = WAITS
        clocks: Clocks = {unit: near}
        own: Clocks = clocks if home is near else {unit: home}
        access = int(s.waits_at[lanes[0]])
        s.unsettled[key] = Heard(waiting, clocks, own, {}, "cluster", access)

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

    def unordered(
        self, s: SharedShadow, lanes: Array, times: Array, theirs: Array, column: Array
    ) -> Array:
        """Where what threads or copies of other units did is not known to these lanes.

        ``theirs``: the units; ``column`` of their clocks.
        """
        bad = np.ones(times.shape, bool)
        mine = lanes // s.team
        for local in np.unique(mine).tolist():
            knowledge = self.known.get(s.unit(local * s.team))
            if knowledge is None:
                continue
            here = mine == local
            _strike(bad, here, times, column, theirs, knowledge.everyone)
            for lesson in knowledge.lessons:
                if not (bad & here).any():
                    break
                columns = s.threads(lesson.lanes)
                floors = s.floor[lanes // s.batch.threads]
                knows = (s.clock[lanes][..., columns] >= lesson.time).any(axis=-1)
                knows |= (floors >= lesson.time) | np.isin(lanes, lesson.lanes)
                _strike(bad, here & knows, times, column, theirs, lesson.clocks)
        return bad


def _strike(
    bad: Array, here: Array, times: Array, column: Array, theirs: Array, clocks: Clocks
) -> None:
    """Take away from ``bad`` what the clocks cover."""
    for unit in np.unique(theirs[bad & here]).tolist():
        if unit in clocks:
            some = bad & here & (theirs == unit)
            bad[some] = times[some] > clocks[unit][column[some]]


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
