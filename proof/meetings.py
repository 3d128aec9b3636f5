"""Random programs of whole blocks: two to four warps that exchange data, and must synchronise.

Before every access the generator asks a model (:mod:`proof.happens_before`) what nothing orders
before it, and writes what is missing: a named barrier of the warps concerned, an mbarrier's phase,
a flag in memory, a wait for a copy, a fence for the copy engine.  So a program is right by
construction, its answer does not depend on the schedule, and hardly a synchronisation in it is one
too many.  Rings of slots, filled by stores or by either kind of asynchronous copy, stand among
these exchanges; their barriers' phases come again.

:mod:`proof.weakening` makes one synchronisation of such a program weaker.

PTX ISA 8, 9.7.13 (barriers), 9.7.9.25 (cp.async, cp.async.bulk).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from proof.dice import Dice, shuffled
from proof.happens_before import ALL, CAUSE, Ints, Model, Phased, Shape, Step
from proof.meeting_ptx import SLOTS, Text
from proof.program import Program

TILES, FAR = 6, 4
"""Of shared memory, in each block, and of global memory."""
SITES = 48
"""Mbarriers of a program, at most."""
PATIENCE = 1 << 15
"""How often a wait asks, on a GPU: a wrong program ends as well."""


class Meeting:
    """Writes one random program."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dice = Dice(name + "/text")
        d = self.dice
        self.blocks = 2 if d.chance(25) else 1
        self.warps = d.between(2, 4) if self.blocks == 1 else d.between(1, 2)
        self.shape = Shape(self.blocks, self.warps, TILES, FAR)
        self.model = Model(self.shape)
        self.steps: list[Step] = []
        self.flags: list[tuple[int, int, str]] = []
        """Of each flag: the warp that sets it, its value, and its space."""
        self.bulk_sites: set[int] = set()
        self.reserved: set[int] = set()
        """Mbarriers of a ring that is being written."""

    @property
    def all_warps(self) -> range:
        return range(self.blocks * self.warps)

    def block(self, warp: int) -> int:
        return warp // self.warps

    def put(self, op: str, warp: int, at: tuple[int, ...] = (), how: str = "",
            lanes: int = ALL) -> None:  # fmt: skip
        """Add a step, which the model executes at once."""
        step = Step(op, warp, at, how, lanes)
        self.steps.append(step)
        if not self.model.execute(step):
            raise AssertionError(f"{self.name}: {step} must wait")

    def threads(self, warp: int, lanes: int = ALL) -> Ints:
        return self.model.threads(Step("", warp, lanes=lanes))

    # -- order ------------------------------------------------------------------------

    def order(self, sources: set[int], to: int) -> None:
        """What these warps did so far comes before what warp ``to`` does from now on."""
        d = self.dice
        if sources <= {to}:
            self.put("warpsync", to)
            return
        near = all(self.block(w) == self.block(to) for w in sources)
        ways = [self.by_mbarrier, self.by_mbarrier, self.by_flags, self.by_counter]
        if near:
            ways += [self.by_barrier] * 4
        if self.blocks > 1:
            ways += [self.by_cluster]
        d.choice(ways)(sources, to)

    def by_barrier(self, sources: set[int], to: int) -> None:
        """A named barrier; who need not wait may only arrive."""
        d = self.dice
        mine = [w for w in self.all_warps if self.block(w) == self.block(to)]
        who = sorted(sources | {to} | {w for w in mine if d.chance(15)})
        here = np.concatenate([self.threads(w) for w in who])
        numbers = [
            n for n in range(0 if len(who) == len(mine) else 1, 16)
            if (one := self.model.named.get((self.block(to), n))) is None
            or self.model.generation_over(one, here)
        ]  # fmt: skip
        if not numbers:
            self.by_mbarrier(sources, to)
            return
        # low numbers come again more often
        number = numbers[min(d.below(len(numbers)), d.below(len(numbers)))]
        kind = "red" if d.chance(20) else "sync"
        if kind == "red":
            how = dict.fromkeys(who, "red")
        else:
            how = {w: "arrive" if w != to and number and d.chance(40) else "sync" for w in who}
        for w in (*shuffled(d, [w for w in who if w != to]), to):
            self.put("bar", w, (number, 32 * len(who)), how[w])

    def leader(self, warp: int) -> int:
        """The lanes that speak for a warp: all, or one behind ``bar.warp.sync``."""
        if self.dice.chance(50):
            return ALL
        self.put("warpsync", warp)
        return 1 << self.dice.below(32)

    def site(self, block: int, count: int, arrivers: Ints, to: int) -> int:
        """An mbarrier that expects so many arrivals: one used before, where that is safe."""
        model = self.model
        old = [
            i for i, one in enumerate(model.mbarriers)
            if (one.block, one.expected) == (block, count) and i not in self.reserved
            and self.usable(one, arrivers) and model.phase_known(one, self.threads(to))
        ]  # fmt: skip
        if old and (self.dice.chance(70) or len(model.mbarriers) >= SITES):
            return self.dice.choice(old)
        model.mbarriers.append(Phased(block, count, count))
        return len(model.mbarriers) - 1

    def usable(self, one: Phased, arrivers: Ints) -> bool:
        """Whether these threads may bring about the next phase."""
        if one.pending != one.expected or one.bytes or not self.model.phase_known(one, arrivers):
            return False
        seen = one.waited.get(one.phase - 1)
        if one.phase and seen is None:  # 9.7.13.15.4
            return False
        known = self.model.frontier(arrivers)[CAUSE, : self.model.n]
        return seen is None or bool((known >= seen).all())

    def by_mbarrier(self, sources: set[int], to: int) -> None:
        """The warps arrive at an mbarrier, and the other waits for its phase."""
        lanes = {w: self.leader(w) for w in shuffled(self.dice, sorted(sources))}
        t = np.concatenate([self.threads(w, lanes[w]) for w in lanes])
        each = self.dice.choice((1, 1, 1, 2))
        site = self.site(self.block(to), each * len(t), t, to)
        phase = self.model.mbarriers[site].phase
        for w in lanes:
            how = self.scoped(w, to, "release")
            if self.dice.chance(10):
                how = how.replace("release", "relaxed")
                self.put("fence", w, (), how.split()[1], lanes[w])
            self.put("arrive", w, (site, each), how, lanes[w])
        self.wait(to, site, phase, self.scoped(next(iter(sources)), to, "acquire", sources))

    def scoped(self, warp: int, to: int, sem: str, sources: set[int] | None = None) -> str:
        """An order and a scope that reaches from one warp to another."""
        near = all(self.block(w) == self.block(to) for w in sources or {warp})
        scopes = ("cta", "cta", "cluster") if near else ("cluster",)
        return f"{sem} {self.dice.choice(scopes)}"

    def wait(self, warp: int, site: int, phase: int, how: str = "acquire cta") -> None:
        """All lanes wait for a phase, or one does and tells the others."""
        kind = self.dice.choice(("try", "try", "test"))
        lanes = ALL if self.dice.chance(70) else 1 << self.dice.below(32)
        relaxed = self.dice.chance(10)
        if relaxed:
            how = how.replace("acquire", "relaxed")
        self.put("wait", warp, (site, phase), f"{kind} {how}", lanes)
        if relaxed:
            self.put("fence", warp, (), how.split()[1], lanes)
        if lanes != ALL:
            self.put("warpsync", warp)

    def by_flags(self, sources: set[int], to: int) -> None:
        """One thread of each warp sets a flag, which the other warp reads again and again."""
        d = self.dice
        for w in shuffled(d, sorted(sources - {to})):
            near = self.block(w) == self.block(to)
            scope = d.choice(("cta", "gpu") if near else ("cluster", "gpu"))
            space = "shared" if near and d.chance(40) else "global"
            self.put("warpsync", w)
            mine = [i for i, (who, _, where) in enumerate(self.flags) if (who, where) == (w, space)]
            flag = d.choice(mine) if mine and d.chance(70) else len(self.flags)
            if flag == len(self.flags):
                self.flags.append((w, 0, space))
            value = self.flags[flag][1] + 1
            self.flags[flag] = w, value, space
            self.tell("flag", w, (flag, value), scope, space)
            self.hear(to, (flag, value), scope, space)
        if to in sources:
            self.put("warpsync", to)

    def tell(self, op: str, warp: int, at: tuple[int, int], scope: str, space: str) -> None:
        """Release, or fence and then write."""
        sem = "release"
        if self.dice.chance(40):
            sem = "relaxed"
            self.put("fence", warp, (), scope, 1)
        self.put(op, warp, at, f"{sem} {scope} {space}", 1)

    def hear(self, warp: int, at: tuple[int, int], scope: str, space: str) -> None:
        """Acquire, or read and then fence; one lane tells the others."""
        lanes = ALL if self.dice.chance(50) else 1 << self.dice.below(32)
        if self.dice.chance(60):
            self.put("spin", warp, at, f"acquire {scope} {space}", lanes)
        else:
            self.put("spin", warp, at, f"relaxed {scope} {space}", lanes)
            self.put("fence", warp, (), scope, lanes)
        if lanes != ALL:
            self.put("warpsync", warp)

    def by_counter(self, sources: set[int], to: int) -> None:
        """One thread of each warp counts up, until the other warp reads that all have."""
        d = self.dice
        near = all(self.block(w) == self.block(to) for w in sources)
        scope = d.choice(("cta", "gpu") if near else ("cluster", "gpu"))
        space = "shared" if near and d.chance(40) else "global"
        flag = len(self.flags)
        self.flags.append((-1, 0, space))
        for n, w in enumerate(shuffled(d, sorted(sources))):
            self.put("warpsync", w)
            self.tell("count", w, (flag, n + 1), scope, space)
        self.hear(to, (flag, len(sources)), scope, space)

    def by_cluster(self, sources: set[int], to: int) -> None:
        """All threads of both blocks."""
        relaxed = self.dice.chance(30)
        for w in shuffled(self.dice, list(self.all_warps)):
            if relaxed:
                self.put("fence", w, (), "cluster")
            self.put("cluster_arrive", w, (), "relaxed" if relaxed else "")
        for w in shuffled(self.dice, list(self.all_warps)):
            self.put("cluster_wait", w)

    # -- accesses ---------------------------------------------------------------------

    def ready(self, step: Step) -> bool:
        """Write what a step needs before it; False: nobody has written what it would read."""
        for _ in range(12):
            found = self.model.ask(step)
            if not found:
                return True
            if "nobody" in found:
                return False
            if "race" in found:
                sources = self.settled(found["race"], step.warp)
                if sources:
                    self.order(sources, step.warp)
            else:
                self.put("proxy", step.warp, (), "", step.lanes)
        return False

    def settled(self, columns: set[int], to: int) -> set[int]:
        """Wait for the copies among these columns; the warps that must still be heard of."""
        m, d = self.model, self.dice
        sources: set[int] = set()
        waits: dict[tuple[str, int], int] = {}
        for column in sorted(columns):
            if column < m.copies:
                sources.add(column // 32)
            elif column < m.sites:
                w = (column - m.copies) // 32
                waits["copy", w] = ALL
            elif column < m.reads_out:
                waits["site", column - m.sites] = ALL
            else:
                thread = (column - m.reads_out) % m.n
                kind = "read" if column < m.writes_out else "all"
                waits[kind, thread // 32] = waits.get((kind, thread // 32), 0) | 1 << thread % 32
        for (kind, which), lanes in waits.items():
            if kind == "copy":
                if any(m.groups[t][-1] for t in self.threads(which)):
                    self.put("commit", which)
                t = self.threads(which)
                if which != to and d.chance(50) and len(m.mbarriers) < SITES:
                    m.mbarriers.append(Phased(self.block(to), 32, 32))
                    site = len(m.mbarriers) - 1
                    if self.block(which) == self.block(to):
                        self.put("copyarrive", which, (site,))
                        self.wait(to, site, 0)
                        continue
                self.put("copywait", which, (0,))
                if which != to or len(t) > 1:
                    sources.add(which)
            elif kind == "site":
                w = self.may_wait(which, to)
                self.wait(w, which, m.mbarriers[which].phase - 1)
                if w != to:
                    sources.add(w)
            else:
                self.put("bulk_wait", which, (0,), "read" if kind == "read" else "", lanes)
                sources.add(which)
        return sources

    def may_wait(self, site: int, best: int) -> int:
        """A warp that cannot mistake another phase of an mbarrier for the last one."""
        one = self.model.mbarriers[site]
        warp: int = next(
            w for w in (best, *self.all_warps)
            if self.block(w) == one.block
            and self.model.phase_known(one, self.threads(w), one.phase - 1)
        )
        return warp

    def attempt(self, step: Step) -> bool:
        """Do this, with what it needs before it, if it can be done."""
        if not self.ready(step):
            return False
        self.put(step.op, step.warp, step.at, step.how, step.lanes)
        return True

    def place(self, reads: bool) -> tuple[str, int]:
        """A space, and a tile of it."""
        d = self.dice
        roll = d.below(100)
        if roll < 15:
            return "global", d.below(FAR)
        if roll < 40 and self.blocks > 1:
            return "shared remote", d.below(TILES)
        return "shared", d.below(TILES)

    def touch(self, warp: int, lanes: int = ALL) -> None:
        """A store, a load or an addition."""
        d = self.dice
        op = d.choice(("store", "store", "load", "load", "load", "add"))
        space, tile = self.place(op != "store")
        turn = d.below(32)
        if op == "load" and d.chance(20):
            space += " all"
        elif op != "add" and d.chance(15):
            tile = min(tile, (FAR if "global" in space else TILES) - 2)
            space += " wide"
        if not self.attempt(Step(op, warp, (tile, turn), space, lanes)):
            plain = space.removesuffix(" all").removesuffix(" wide")
            self.attempt(Step("store", warp, (tile, turn), plain))
            return
        if op == "store" and d.chance(15):
            self.put("proxy", warp, (), "", lanes)

    def shuffle(self, warp: int, lanes: int = ALL) -> None:
        """Lanes of a warp hear of each other's numbers, without being ordered by it."""
        kinds = ("idx", "ballot", "redux") + (("bfly",) if lanes == ALL else ())
        kind = self.dice.choice(kinds)
        inside = [i for i in range(32) if lanes >> i & 1]
        number = self.dice.choice(inside) if kind == "idx" else self.dice.between(1, 31)
        self.put("shuffle", warp, (number,), kind, lanes)

    def divide(self, warp: int) -> None:
        """Some lanes of a warp do one thing, the rest another."""
        mask = int(self.dice.words(1)[0]) & ALL
        if mask in (0, ALL):
            mask = 0xFFFF
        for lanes in (mask, mask ^ ALL):
            for _ in range(self.dice.between(1, 2)):
                self.dice.choice((self.touch, self.shuffle))(warp, lanes)

    def copy(self, warp: int) -> None:
        """cp.async of 4, 8 or 16 bytes a lane."""
        d = self.dice
        size = d.choice((1, 1, 2, 4))
        tile = d.below(TILES - size + 1)
        start = 4 * d.below((2 * SLOTS * self.model.n - 32 * size) // 4)
        if d.chance(30):
            start = -1 - d.below(FAR - size + 1)
        if self.attempt(Step("copy", warp, (tile, start, size), "shared")) and d.chance(60):
            self.put("commit", warp)

    def bulk_load(self, warp: int) -> None:
        """Bulk copies into shared memory, counted by one phase."""
        d, m = self.dice, self.model
        lane = 1 << d.below(32)
        some = sorted({d.below(TILES) for _ in range(d.between(1, 2))})
        steps = []
        for tile in some:
            words = 4 * d.between(1, 8)
            start = 4 * d.below((2 * SLOTS * m.n - words) // 4)
            if d.chance(25):
                start = -1 - d.below(FAR)
            steps.append(Step("bulk_load", warp, (tile, start, words, 0), "shared", lane))
        for step in (*steps, *steps):  # what one needs may not undo what another needed
            if not self.ready(step):
                return
        if any(m.ask(step) for step in steps):
            return
        t = self.threads(warp, lane)
        site = self.site(self.block(warp), 1, t, warp)
        if not self.usable(m.mbarriers[site], t):
            return
        self.put("expect", warp, (site, 4 * sum(s.at[2] for s in steps)), "release cta", lane)
        for step in steps:
            self.put("bulk_load", warp, (*step.at[:3], site), "shared", lane)
        self.bulk_sites.add(site)

    def bulk_store(self, warp: int) -> None:
        """A bulk copy into global memory."""
        d = self.dice
        at = d.below(TILES), d.below(FAR), 4 * d.between(1, 8)
        lane = 1 << d.below(32)
        if self.attempt(Step("bulk_store", warp, at, "shared", lane)):
            self.put("bulk_commit", warp, (), "", lane)

    def across(self, warp: int) -> None:
        """``st.async`` or a bulk copy into the shared memory of the other block."""
        d, m = self.dice, self.model
        there = d.below(self.warps) + self.warps * (self.block(warp) ^ 1)
        one = 1 << d.below(32)
        if d.chance(50):
            lanes = ALL if d.chance(60) else (int(d.words(1)[0]) & ALL) | 1
            step = Step("send", warp, (d.below(TILES), d.below(32), 0), "shared remote", lanes)
            size = 4 * bin(lanes).count("1")
        else:
            words = 4 * d.between(1, 8)
            step = Step("push", warp, (d.below(TILES), d.below(TILES), words, 0), "shared", one)
            size = 4 * words
        if not self.ready(step):
            return
        t = self.threads(there, one)
        site = self.site(self.block(there), 1, t, there)
        if not self.usable(m.mbarriers[site], t) or site in self.reserved:
            return
        self.reserved = {site}
        self.put("expect", there, (site, size), "release cluster", one)
        self.put("warpsync", there)
        self.order({there}, warp)
        if self.ready(step):
            self.put(step.op, warp, (*step.at[:-1], site), step.how, step.lanes)
        else:
            raise AssertionError("what was ready is not")
        self.bulk_sites.add(site)
        self.reserved = set()

    def ring(self, warp: int) -> None:
        """A producer fills slots, and consumers read and free them, phase after phase."""
        d, m = self.dice, self.model
        mine = [w for w in self.all_warps if self.block(w) == self.block(warp) and w != warp]
        if not mine or len(m.mbarriers) > SITES - 6:
            return
        consumers = shuffled(d, mine)[: d.between(1, len(mine))]
        slots = d.between(1, 3)
        first = d.below(TILES - slots + 1)
        kind = d.choice(("store", "copy", "bulk"))
        one = d.chance(50)  # whether one lane arrives for its warp
        block = self.block(warp)
        base = len(m.mbarriers)
        full = {"store": 1 if one else 32, "copy": 32, "bulk": 1}[kind]
        for _ in range(slots):
            m.mbarriers.append(Phased(block, full, full))
        empty = len(consumers) * (1 if one else 32)
        for _ in range(slots):
            m.mbarriers.append(Phased(block, empty, empty))
        speak = 1 if one else ALL
        self.reserved = set(range(base, len(m.mbarriers)))
        for i in range(d.between(slots + 1, 2 * slots + 3)):
            slot, turn = i % slots, i // slots
            tile = first + slot
            if turn:
                self.wait(warp, base + slots + slot, turn - 1)
                if kind == "bulk":  # whose lane goes on alone: no other may miss the phase
                    self.put("warpsync", warp)
            if kind == "store":
                if not self.attempt(Step("store", warp, (tile, d.below(32)), "shared")):
                    raise AssertionError("a store needs nothing")
                if one:
                    self.put("warpsync", warp)
                self.put("arrive", warp, (base + slot, 1), "release cta", speak)
            elif kind == "copy":
                start = 4 * d.below((2 * SLOTS * m.n - 32) // 4)
                self.attempt(Step("copy", warp, (tile, start, 1), "shared"))
                self.put("copyarrive", warp, (base + slot,))
            else:
                words = 32
                start = 4 * d.below((2 * SLOTS * m.n - words) // 4)
                step = Step("bulk_load", warp, (tile, start, words, base + slot), "shared", 1)
                self.ready(step)
                self.put("expect", warp, (base + slot, 4 * words), "release cta", 1)
                self.put(step.op, warp, step.at, step.how, 1)
                self.bulk_sites.add(base + slot)
            for w in consumers:
                self.wait(w, base + slot, turn)
                self.attempt(Step("load", w, (tile, d.below(32)), "shared"))
                if one:
                    self.put("warpsync", w)
                self.put("arrive", w, (base + slots + slot, 1), "release cta", speak)
        self.reserved = set()

    # -- the program ------------------------------------------------------------------

    def act(self) -> None:
        """One of all of these."""
        d = self.dice
        warp = d.below(self.blocks * self.warps)
        roll = d.below(100)
        for limit, do in (
            (56, self.touch), (63, self.shuffle), (71, self.divide), (80, self.copy),
            (89, self.bulk_load), (95, self.bulk_store), (100, self.ring),
        ):  # fmt: skip
            if self.blocks > 1 and do == self.copy and d.chance(60):
                do = self.across
            if roll < limit:
                do(warp)
                return

    def finish(self) -> None:
        """Nothing is left under way."""
        m = self.model
        for site in sorted(self.bulk_sites):
            one = m.mbarriers[site]
            if one.phase - 1 not in one.waited:
                self.wait(self.may_wait(site, one.block * self.warps), site, one.phase - 1)
        for thread in range(m.n):
            times = [time for group in m.bulk[thread] for time in group]
            if times and m.clock[thread, 0, m.reads_out + thread] < max(times):
                self.put("bulk_wait", thread // 32, (0,), "read", 1 << thread % 32)
        if self.blocks > 1:
            self.by_cluster(set(), 0)

    def program(self, length: int) -> tuple[Shape, list[Step]]:
        """The shape and the steps."""
        for _ in range(length):
            self.act()
        self.finish()
        if self.model.problems or self.model.doubts:
            raise AssertionError(f"{self.name}: {self.model.problems} {self.model.doubts}")
        made = tuple((one.block, one.expected) for one in self.model.mbarriers)
        return replace(self.shape, mbarriers=made), self.steps


@functools.lru_cache(maxsize=64)
def steps_of(name: str) -> tuple[Shape, list[Step]]:
    """The steps of a program, by its name."""
    meeting = Meeting(name)
    return meeting.program(meeting.dice.between(8, 30))


def programs(count: int, first: int = 0) -> Iterator[Program]:
    """``count`` random programs; number ``i`` is the same whoever asks for it."""
    for i in range(first, first + count):
        name = f"meeting_{i:05}"
        yield Text(name, *steps_of(name), patience=PATIENCE).program()
