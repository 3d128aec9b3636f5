"""Order and races between launches that run at the same time: on two devices, or in two streams.

What is said in :mod:`~phasebit.emulator.checker.messages` holds here too, with one scope more: a
release, an acquire or a fence reaches another device only with ``.sys`` scope (PTX ISA 8.5, 8.8).
Each launch has clocks of its own; a unit of another launch is named by that launch's number and its
own.  Between launches the checker takes the model by its letter: a relaxed read orders nothing
before the reader's own fence, whatever barrier of its block comes between.

Beside what a launch rightly knows of others, *hearsay* is kept: what it would know if every scope
were wide enough.  It orders nothing, and tells a scope that is too narrow from a flag that is
missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phasebit.emulator.checker.beside import Beside
from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.global_races import GlobalRaces
from phasebit.emulator.checker.messages import ACQUIRES, NEAR, Knowledge, add, merge
from phasebit.emulator.checker.shared_shadow import Clocks
from phasebit.emulator.findings import Sentence, Threads, say
from phasebit.emulator.machine.company import Seat
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.mangling import readable
from phasebit.emulator.ptx.types import Array

EVERYWHERE = -1
"""Who is reached by ``.sys`` scope, beside the devices by their numbers."""

HEARSAY = -2

LAST = 1 << 62
"""Behind all bytes."""


@dataclass
class Strong:
    """The last strong access of a launch to an address."""

    launch: int
    device: int
    scope: str
    verb: str
    text: Sentence


@dataclass
class Post:
    """What strong writes to one address have said to other launches."""

    said: dict[int, Clocks] = field(default_factory=dict)
    """A device, or ``EVERYWHERE``, or ``HEARSAY`` -> what it may know."""
    version: int = 0
    seen: dict[tuple[int, int], Array] = field(default_factory=dict)
    """A unit -> the version that each of its threads has read."""
    moment: int = 0
    """When that was, by the clock that all launches share."""
    device: int = 0
    """Who wrote last."""
    strong: dict[int, Strong] = field(default_factory=dict)
    """Launch -> its last strong access."""


@dataclass
class Board:
    """What all launches of a company know of each other."""

    posts: dict[int, Post] = field(default_factory=dict)
    launches: dict[int, OtherLaunches] = field(default_factory=dict)
    """Also those that have ended, as long as one runs, or may begin, that does not come after."""

    def forget(self, below: int) -> None:
        """Launches with lower numbers come before all that run or will begin."""
        for number in [n for n in self.launches if n < below]:
            del self.launches[number]


@dataclass
class Pending:
    """What relaxed reads of an address have seen, until their threads fence."""

    waiting: Array
    """Which threads of the batch."""
    device: Clocks
    """What a fence of ``.gpu`` scope makes known."""
    everywhere: Clocks
    hearsay: Clocks


class OtherLaunches(Beside):
    """One launch's view of those beside it."""

    def __init__(self, races: GlobalRaces) -> None:
        self.races = races
        self.machine = races.machine
        self.findings = races.findings
        self.messages = races.order.messages
        self.shadows = races.shadows
        self.seat: Seat = self.machine.seat
        self.team = self.machine.threads * self.machine.cluster_size
        self.base: Clocks = {}
        """What launches before this one knew of others: all threads know it."""
        self.hearsay: dict[int, Clocks] = {}
        """Unit -> what it would know."""
        self.heard_before: Clocks = {}
        """What launches before this one would know."""
        self.pending: dict[tuple[int, int], Pending] = {}
        self.low, self.high = LAST, 0
        """The bytes of global memory between which it has touched any: from, and to."""
        company = self.seat.company
        if company.board is None:
            company.board = Board()
        self.board: Board = company.board
        for number, before in self.board.launches.items():
            if self.seat.knows(number):
                merge(self.base, before.all_known())
                for heard in (before.heard_before, *before.hearsay.values()):
                    merge(self.heard_before, _foreign(heard))
        self.board.launches[self.seat.number] = self

    def all_known(self) -> Clocks:
        """What any thread knows of other launches."""
        found = dict(self.base)
        for knowledge in self.messages.known.values():
            merge(found, _foreign(knowledge.everyone))
            for lesson in knowledge.lessons:
                merge(found, _foreign(lesson.clocks))
        return found

    def _elsewhere(self, g: Group, position: int) -> bool:
        """Whether a byte is not in global memory."""
        return any(
            space.start <= position < space.start + space.size
            for space in (g.batch.shared, g.batch.local)
        )

    # -- writing --------------------------------------------------------------

    def publish(self, g: Group, lanes: Array, position: int, releases: bool, scope: str) -> None:
        """A strong write of threads of one unit tells other launches what it may."""
        if self._elsewhere(g, position):
            return
        s = self.shadows[g.batch]
        unit, number = s.unit(lanes[0]), self.seat.number
        post = self.board.posts.setdefault(position, Post())
        post.version += 1
        post.moment, post.device = g.time, self.seat.device
        knowledge = self.messages.known.get(unit, Knowledge())
        ways = [(HEARSAY, "near")]
        if scope not in NEAR:
            ways += [(HEARSAY, "far"), (self.seat.device, "far")]
        if scope == "sys":
            ways.append((EVERYWHERE, "wide"))
        for to, reach in ways:
            said = self.messages.said(s, lanes, releases, reach)
            if said is None:
                continue
            clocks = post.said.setdefault(to, {})
            add(clocks, (number, unit), said)
            merge(clocks, self.base)
            merge(clocks, self._named(knowledge.everyone))
            for lesson in knowledge.known_to(s, said):
                merge(clocks, self._named(lesson.clocks))
            if to == HEARSAY:
                merge(clocks, self._named(self.hearsay.get(unit, {})))
                merge(clocks, self.heard_before)

    def _named(self, clocks: Clocks) -> Clocks:
        """The same, each unit with its launch."""
        number = self.seat.number
        return {key if isinstance(key, tuple) else (number, key): v for key, v in clocks.items()}

    # -- reading --------------------------------------------------------------

    def hear(self, g: Group, positions: Array, sem: str, scope: str, access: int) -> None:
        """A strong read learns what others have said there; a relaxed one at its next fence."""
        self.scopes(g, positions, scope, "reads", access)
        posts = self.board.posts
        if not posts:
            return
        s = self.shadows[g.batch]
        for position in np.unique(positions).tolist():
            post = posts.get(position)
            if post is None:
                continue
            at = positions == position
            units = g.lanes // s.team
            for local in np.unique(units[at]).tolist():
                self._hear(g, g.lanes[at & (units == local)], position, post, sem, scope)

    def _hear(
        self, g: Group, lanes: Array, position: int, post: Post, sem: str, scope: str
    ) -> None:
        s = self.shadows[g.batch]
        unit = s.unit(lanes[0])
        seen = post.seen.setdefault((self.seat.number, unit), np.zeros(s.team, np.int64))
        columns = s.threads(lanes)
        if int(seen[columns].min()) == post.version:
            return
        seen[columns] = post.version
        if post.device != self.seat.device:
            self.machine.catch_up(g, post.moment, f"device {post.device}")
        near = self._visible(post, "gpu" if scope == "sys" else scope, unit)
        wide = self._visible(post, scope, unit)
        hearsay = self._others(post.said.get(HEARSAY, {}), unit)
        if sem in ACQUIRES:
            self._learn(g, lanes, wide, hearsay)
            return
        key = (position, int(lanes[0]) // s.team)
        before = self.pending.get(key)
        waiting = np.zeros(len(s.clock), bool) if before is None else before.waiting
        waiting[lanes] = True
        self.pending[key] = Pending(waiting, near, wide, hearsay)

    def _visible(self, post: Post, scope: str, unit: int) -> Clocks:
        """What a read of this scope may learn there."""
        if scope in NEAR:
            return {}
        found = dict(post.said.get(self.seat.device, {}))
        for key, said in post.said.get(EVERYWHERE, {}).items():
            assert isinstance(key, tuple)
            teller = self.board.launches.get(key[0])
            if scope == "sys" or teller is None or teller.seat.device == self.seat.device:
                add(found, key, said)
        return self._others(found, unit)

    def _others(self, clocks: Clocks, unit: int) -> Clocks:
        """Without what a unit knows of itself; other units of this launch by their own number."""
        own = self.seat.number
        found: Clocks = {}
        for key, said in clocks.items():
            if isinstance(key, tuple) and key[0] == own:
                if key[1] != unit:
                    found[key[1]] = said
            else:
                found[key] = said
        return found

    def _learn(self, g: Group, lanes: Array, known: Clocks, hearsay: Clocks) -> None:
        s = self.shadows[g.batch]
        if known:
            self.messages.learn(s, lanes, {}, known)
        merge(self.hearsay.setdefault(s.unit(lanes[0]), {}), hearsay)

    def fence(self, g: Group, scope: str) -> None:
        """``fence``: what these threads have read before counts from now on, as far as it goes."""
        if scope in NEAR:
            return
        for key, pending in list(self.pending.items()):
            mine = g.lanes[pending.waiting[g.lanes]]
            if len(mine):
                self._learn(
                    g, mine, pending.everywhere if scope == "sys" else pending.device,
                    pending.hearsay,
                )  # fmt: skip
                pending.waiting[mine] = False
                if not pending.waiting.any():
                    del self.pending[key]

    # -- scopes of strong accesses --------------------------------------------

    def scopes(
        self, g: Group, positions: Array, scope: str, verb: str, access: int
    ) -> None:
        """Strong accesses of two devices meet: do both have a scope that reaches so far?"""
        for position in np.unique(positions).tolist():
            if self._elsewhere(g, position):
                continue
            post = self.board.posts.setdefault(position, Post())
            number = self.seat.number
            lane = g.lanes[positions == position][:1]
            for other in post.strong.values():
                if other.device == self.seat.device or "writes" not in (verb, other.verb):
                    continue
                if scope == other.scope == "sys" or self._apart(other.launch):
                    continue
                text = say(
                    "{} of device {} {} {} with .{} scope: {}; {} with .{} scope; between devices "
                    "both need .sys",
                    g.batch.describe(lane), self.seat.device, verb,
                    self.races.name(position >> self.races.facts.shift), scope,
                    self.findings.place(access), other.text, other.scope,
                )  # fmt: skip
                self.findings.report("device-scope", text, access, ("strong", access, str(other)))
            before = post.strong.get(number)
            if before is None or verb == "writes" or before.verb != "writes":
                said = say(
                    "{} of device {} {} it: {}", g.batch.describe(lane), self.seat.device, verb,
                    self.findings.place(access),
                )  # fmt: skip
                post.strong[number] = Strong(number, self.seat.device, scope, verb, said)

    def _apart(self, launch: int) -> bool:
        """Whether the host orders that launch and this one."""
        other = self.board.launches.get(launch)
        return other is None or self.seat.knows(launch) or other.seat.knows(self.seat.number)

    # -- races ----------------------------------------------------------------

    def written(self, x: Array) -> Array:
        """Whether words that this launch found unwritten have been written by others since."""
        unit = 1 << self.races.facts.shift
        memory = self.machine.memory
        found = np.ones(x.shape, bool)
        for start, written in memory.unwritten.items():
            inside = (x * unit >= start) & (x * unit < start + len(written))
            found[inside] = written[x[inside] * unit - start]
        for other in self.board.launches.values():
            if other is not self:
                y, inside = other.words(x, self.races.facts.shift)
                found |= inside & (other.races.shadow.write_time[y] > 0)
        return found

    def words(self, x: Array, shift: int) -> tuple[Array, Array]:
        """Another launch's words as places here, and whether this one has ever covered them."""
        shadow = self.races.shadow
        shadow.fit(1)
        return shadow.places((x << shift) >> self.races.facts.shift)

    def ended(self) -> None:
        """The launch has ended: what it touched is kept, of all memory."""
        shift = self.races.facts.shift
        self.races.shadow.fit((self.high >> shift) + 1)
        self.races.shadow.cut(min(self.low, self.high) >> shift, (self.high >> shift) + 1)

    def look(
        self, g: Group, words: Footprint, start: int, access: int, verb: str, strong: bool
    ) -> None:
        """An access to global memory: is what launches beside this one did there ordered before?"""
        unit = 1 << self.races.facts.shift
        x = words.every + start
        low, high = int(x.min()) * unit, int(x.max() + 1) * unit
        self.low, self.high = min(self.low, low), max(self.high, high)
        for number, other in self.board.launches.items():
            meet = other.low < high and low < other.high  # most are elsewhere
            if meet and other is not self and not self._apart(number):
                self._against(other, g, x, access, verb, strong)

    def _against(
        self, other: OtherLaunches, g: Group, x: Array, access: int, verb: str, strong: bool
    ) -> None:
        mine, theirs = self.races.facts.shift, other.races.facts.shift
        if mine > theirs:  # a word here is several there
            many = 1 << (mine - theirs)
            x = ((x[..., None] << (mine - theirs)) + np.arange(many)).swapaxes(-1, -2)
            x = x.reshape(-1, x.shape[-1])
        y, inside = other.words(x, min(mine, theirs))
        shadow = other.races.shadow
        times = np.where(inside, shadow.write_time[y], 0)
        if strong:
            times = np.where(shadow.write_strong[y], 0, times)
        if (times > 0).any():
            self._judge(
                other, g, x, y, times, shadow.writer[y], shadow.write_access[y], access, verb,
                "wrote", shadow.write_strong[y] if verb == "reads" else None,
            )  # fmt: skip
        if verb != "writes":
            return
        for readers in shadow.readers:
            if not readers.used:
                continue
            code = np.where(inside, readers.code[y], 0)
            times = np.where(code > 0, readers.time[y], 0)
            if strong:
                times = np.where(code % 2 == 1, times, 0)
            if (times > 0).any():
                self._judge(
                    other, g, x, y, times, np.maximum(code - 1, 0) >> 1, readers.access[y],
                    access, verb, "read", np.full(x.shape, strong),
                )  # fmt: skip

    def _judge(
        self, other: OtherLaunches, g: Group, x: Array, y: Array, times: Array, who: Array,
        accesses: Array, access: int, verb: str, other_verb: str, mixed: Array | None,
    ) -> None:  # fmt: skip
        """Tell the first of these accesses at ``times`` that is not ordered before."""
        lanes = np.broadcast_to(g.lanes, x.shape)
        late = times > 0
        bad = late.copy()
        bad[late] = self._unordered(g, lanes[late], times[late], who[late], other)
        if not bad.any():
            return
        lane, thread = lanes[bad][:1], int(who[bad][0])
        there = int(accesses[bad][0])
        block, thread = divmod(thread, other.machine.threads)
        rule = "race-beside-atomics" if mixed is not None and bool(mixed[bad][0]) else "race"
        why = say("nothing orders the two")
        if other.seat.device != self.seat.device and self._heard(g, lane, times[bad][:1],
                                                                 who[bad][:1], other):  # fmt: skip
            rule = "device-scope"
            why = say("what tells of it has .gpu scope or less, which orders within a device")
        name = self.races.name(int(x[bad][0] << min(self._shift(other))) >> self.races.facts.shift)
        self.findings.report(
            rule,
            say(
                "{} of device {} {} {}: {}; {} of device {} (kernel {}) {} it, and {}: {}",
                g.batch.describe(lane), self.seat.device, verb, name, self.findings.place(access),
                Threads.of(other.machine.order[block], [thread], other.machine.threads),
                other.seat.device, readable(other.machine.program.kernel.name), other_verb, why,
                other.findings.place(there),
            ),
            access, ("launches", access, there, verb, other.machine.program.kernel.name),
        )  # fmt: skip

    def _shift(self, other: OtherLaunches) -> tuple[int, int]:
        return self.races.facts.shift, other.races.facts.shift

    def _unordered(
        self, g: Group, lanes: Array, times: Array, who: Array, other: OtherLaunches
    ) -> Array:
        """Where what threads of another launch did is not known to these lanes."""
        s = self.shadows[g.batch]
        bad = np.ones(times.shape, bool)
        everybody = np.ones(times.shape, bool)
        self._strike(bad, everybody, times, who, other, self.base)
        for local in np.unique(lanes // s.team).tolist():
            knowledge = self.messages.known.get(s.unit(local * s.team))
            if knowledge is None:
                continue
            here = lanes // s.team == local
            self._strike(bad, here, times, who, other, knowledge.everyone)
            for lesson in knowledge.lessons:
                if not (bad & here).any():
                    break
                columns = s.threads(lesson.lanes)
                knows = (s.clock[lanes][..., columns] >= lesson.time).any(axis=-1)
                knows |= s.floor[lanes // s.batch.threads] >= lesson.time
                knows |= np.isin(lanes, lesson.lanes)
                self._strike(bad, here & knows, times, who, other, lesson.clocks)
        return bad

    def _heard(
        self, g: Group, lanes: Array, times: Array, who: Array, other: OtherLaunches
    ) -> bool:
        """Whether this access would be ordered if all scopes were wide enough."""
        bad = np.ones(times.shape, bool)
        for clocks in (self.hearsay.get(self.shadows[g.batch].unit(lanes[0]), {}),
                       self.heard_before, self.base):  # fmt: skip
            self._strike(bad, np.ones_like(bad), times, who, other, clocks)
        return not bad.any()

    def _strike(
        self, bad: Array, here: Array, times: Array, who: Array, other: OtherLaunches,
        clocks: Clocks,
    ) -> None:  # fmt: skip
        """Take away from ``bad`` what the clocks cover."""
        number = other.seat.number
        for launch in {key[0] for key in clocks if isinstance(key, tuple)}:
            teller = self.board.launches.get(launch)
            if launch != number and teller is not None and teller.seat.knows(number):
                bad[here] = False  # who knows of a launch knows all that came before it
                return
        units = who // other.team
        for unit in np.unique(units[bad & here]).tolist():
            if (number, unit) in clocks:
                some = bad & here & (units == unit)
                bad[some] = times[some] > clocks[number, unit][who[some] % other.team]


def _foreign(clocks: Clocks) -> Clocks:
    """What is known of other launches."""
    return {key: said for key, said in clocks.items() if isinstance(key, tuple)}


__all__ = ["Board", "OtherLaunches"]
