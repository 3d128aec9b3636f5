"""Races, by happens-before (PTX ISA 8, the memory consistency model).

Two accesses to one place race when at least one writes, nothing orders them, and
not both are strong (atomic, volatile, relaxed or stronger).  Threads are ordered
by what they do at barriers.  The checker keeps:

*time*      one counter; it advances when a thread publishes what it has done
*shadow*    for each word who wrote it last and when, and when each thread last
            read it
*clocks*    ``clock[t, u]``: what thread ``u`` did up to this time is ordered before
            what ``t`` does now

An arrival at a barrier publishes the arriving threads' clocks, with their own
time set to now; a wait takes over what was published.  So an access is ordered
after an earlier one by thread ``u`` at time ``s`` exactly when ``clock[t, u] >= s``.
A barrier of the whole block moves a *floor*: whatever is older is ordered before
all threads of the block, and need not be looked up.

In shared memory this is exact, thread by thread.  For each word of global memory it
remembers three readers: the last one, another of the same block, and one of another
block; that finds every race but those with readers of which some are ordered before
the write and some are not.  Order that comes through memory is in
:mod:`~phasebit.emulator.checker.messages`.

Source: Flanagan and Freund, "FastTrack: efficient and precise dynamic race
detection", PLDI 2009, for epochs and clocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.global_races import GlobalRaces
from phasebit.emulator.checker.global_shadow import GlobalShadow
from phasebit.emulator.checker.order import Order
from phasebit.emulator.checker.other_launches import OtherLaunches
from phasebit.emulator.checker.program_facts import ProgramFacts
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.checker.shared_shadow import AREA, LIVE, SharedShadow, run
from phasebit.emulator.findings import Address, Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.scheduler import Machine
from phasebit.emulator.numbers.words import distinct
from phasebit.emulator.ptx.types import Array

Look = Callable[[Group, Footprint, int, int, bool], None]
"""What looks at an access: words, their start, the instruction's number, whether it is strong."""


class Races(LaunchObserver):
    """Watches accesses to shared memory; ``global_memory`` watches the others."""

    def __init__(self, machine: Machine, findings: Findings) -> None:
        self.machine = machine
        self.findings = findings
        self.facts = ProgramFacts(machine)
        self.shadows: dict[Batch, SharedShadow] = {}
        self.order = Order(machine, self.facts, self.shadows)
        self.global_memory = GlobalRaces(self.order, findings)
        if machine.seat is not None:
            others = OtherLaunches(self.global_memory)
            self.global_memory.others = self.order.messages.others = others
        self.before_store: list[Callable[[SharedShadow, Group, Footprint, int, int], None]] = []
        """Who looks first at a store to shared memory: words, their start, access."""

    def starts(self, batch: Batch) -> None:
        """Blocks have become resident."""
        facts = self.facts
        self.shadows[batch] = SharedShadow(
            batch, facts.shift, facts.copies, facts.bulk, bool(facts.tensor_fences)
        )
        self.global_memory.fit()

    @property
    def over(self) -> bool:
        """Whether the last block has left."""
        return not self.shadows and self.machine.next_block >= self.machine.blocks

    def ends(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        del self.shadows[batch]
        self.order.thread_by_thread.discard(batch)
        if self.over:
            self.global_memory.settle()

    def gone(self) -> None:
        """Let go of what was noted, unless a launch beside this one may still ask."""
        self.shadows.clear()
        if self.global_memory.others is None:
            self.global_memory.shadow = GlobalShadow()

    # -- shared memory --------------------------------------------------------
    # Each looks first at every word once, and whether the whole group is ordered after the latest
    # of what was done to it.  Only where that is not certain, threads are looked at one by one.

    def shared_load(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool,
        note: bool = True,
    ) -> None:  # fmt: skip
        s = self.shadows[g.batch]
        start -= s.base
        once = words.at(start)
        times = s.write_time[once]
        if times.min() == 0:
            self._uninitialised(g, words.every + start, access)
        if times.max() > s.lowest and not s.ordered(g, s.writer[once], times):
            self._against_writer(s, g, words.every + start, access, strong, "reads")
        if s.strong is not None:
            self._against_hidden(s, g, words.every + start, access, strong, "reads")
            if strong and not self.findings.is_reduction(access):
                s.strong.seen[words.every + start, s.threads(g.lanes)] = self.machine.now
        if s.narrow and not strong:
            self._from_afar(s, g, words.every + start, access, "reads")
        if note and not strong:
            s.note_read(g, words, start, self.machine.now)
            s.read_time[once] = self.machine.now
            s.read_access[once] = access
            if self.facts.bulk:
                s.reader[once] = s.threads(g.lanes)[words.owner]

    def shared_store(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool,
        copies: bool = False, agent: int = -1,
    ) -> None:  # fmt: skip
        """Like ``shared_load``; ``copies``: asynchronous copies of the threads write.

        ``agent``: the column of who writes, where it is no thread.
        """
        s = self.shadows[g.batch]
        for look in self.before_store:
            look(s, g, words, start, access)
        start -= s.base
        once = words.at(start)
        times = s.write_time[once]
        if times.max() > s.lowest and not s.ordered(g, s.writer[once], times):
            self._against_writer(s, g, words.every + start, access, strong, "writes")
        if s.strong is not None:
            self._against_hidden(s, g, words.every + start, access, strong, "writes")
        if s.narrow and not strong:
            self._from_afar(s, g, words.every + start, access, "writes")
        latest = s.read_time[once].max()
        # A thread read these words neither after anybody did, nor after it read its last word.
        if latest > s.lowest and not s.ordered(
            g, slice(s.team), np.minimum(s.last_read, latest)
        ):  # fmt: skip
            s.enter_reads()
            self._against_readers(s, g, words.every + start, s.floor_of(g), access, strong)
        if strong and agent < 0 and not copies:
            s.wrote_strongly(g, words, start, access, self.machine.now)
        elif s.strong is not None and not strong:
            s.strong.weak_time[once] = 0
        writers = s.threads(g.lanes) + (s.team if copies else 0)
        s.write_time[once] = self.machine.now
        s.writer[once] = writers[words.owner] if agent < 0 else agent
        s.write_access[once] = access
        s.write_strong[once] = strong

    def _against_writer(
        self, s: SharedShadow, g: Group, x: Array, access: int, strong: bool, verb: str
    ) -> None:
        """Is every last write ordered before this access?  ``x``: words, one column a thread."""
        times, writers = s.write_time[x], s.writer[x]
        lanes = np.broadcast_to(g.lanes, x.shape)
        bad = (times > s.clock[lanes, writers]) & (writers != s.threads(g.lanes))
        bad &= times > s.floor_of(g)
        if (live := times == LIVE).any():
            self._touches_barrier(s, g, x, live, access, verb)
            bad &= ~live
        if strong:
            bad &= ~s.write_strong[x]
        if not bad.any():
            return
        if (plain := bad & ~s.write_strong[x]).any():
            bad = plain
        other = s.write_access[x][bad][0]
        if verb == "writes" and access >= 0 and np.all(s.write_access[x][bad] == access):
            again = bad & (writers < s.team)
            if again.any():
                self._again(s, g, x, again, access, int(writers[again][0]))
            bad &= ~again
            if not bad.any():
                return
        self._report(
            s, g, x, bad, access, verb, int(writers[bad][0]), other, "wrote",
            mixed=verb == "reads" and bool(s.write_strong[x][bad][0]),
        )  # fmt: skip
        if verb == "writes" and not strong and access >= 0:
            words = np.unique(x[bad]) + s.base
            self.findings.weigh(_key(access, other, verb), lambda: self._bytes(words))

    def _against_hidden(
        self, s: SharedShadow, g: Group, x: Array, access: int, strong: bool, verb: str
    ) -> None:
        """Of what strong writes have hidden, what is not ordered before this access?

        A strong access may race with the plain store before them, a plain one with each of them but
        those that its thread has seen when it last read this word strongly.
        """
        kept = s.strong
        assert kept is not None
        lanes = np.broadcast_to(g.lanes, x.shape)
        floor = np.broadcast_to(s.floor_of(g), x.shape)
        if strong:
            times, writers = kept.weak_time[x], kept.weak_writer[x]
            bad = (times > s.clock[lanes, writers]) & (times > floor)
            bad &= writers != s.threads(lanes)
            if bad.any():
                self._report(s, g, x, bad, access, verb, int(writers[bad][0]),
                             int(kept.weak_access[x][bad][0]), "wrote")  # fmt: skip
            return
        if s.ordered(g, slice(s.team), kept.latest):
            return
        for row in np.atleast_2d(x):
            times = kept.times[row]
            if not times.any():
                continue
            known = np.maximum(s.clock[g.lanes, : s.team], s.floor_of(g)[:, None])
            columns = s.threads(g.lanes)
            known = np.maximum(known, kept.seen[row, columns][:, None])
            late = (times > known) & (columns[:, None] != np.arange(s.team))
            if late.any():
                i, other = (int(v[0]) for v in np.nonzero(late))
                bad = np.zeros(g.n, bool)
                bad[i] = True
                self._report(s, g, row, bad, access, verb, other, int(kept.access[row[i]]),
                             "wrote", mixed=verb == "reads")  # fmt: skip
                return

    def _from_afar(
        self, s: SharedShadow, g: Group, x: Array, access: int, verb: str
    ) -> None:
        """Has what other blocks of the cluster wrote come by operations that reach so far?"""
        times, threads = s.write_time[x], s.writer[x]
        lanes = np.broadcast_to(g.lanes, x.shape)
        foreign = (times > 0) & (times < LIVE) & (threads < s.bulk)
        threads = np.where(foreign, threads % s.team, 0)
        size = g.batch.threads
        foreign &= threads // size != s.threads(lanes) // size
        known = np.where(threads == s.writer[x], s.clock[lanes, threads], LIVE)
        bad = foreign & (times > s.clock[lanes, s.wide + threads]) & (times <= known)
        if not bad.any():
            return
        lane, other = int(lanes[bad][0]), int(threads[bad][0])
        there = int(s.write_access[x][bad][0])
        by = s.narrow.get(other // size, next(iter(s.narrow.values())))
        self.findings.report(
            "narrow-scope",
            say(
                "{} {} {}: {}; {} wrote it: {}; what tells of it has .cta scope, which orders "
                "within a block, not from one to another: {}",
                g.batch.describe(np.array([lane])), verb, self.shared_name(s, int(x[bad][0])),
                self.findings.place(access),
                g.batch.describe(np.array([lane - lane % s.team + other])),
                self.findings.place(there), self.findings.place(by),
            ),
            access, ("scope", access, there),
        )  # fmt: skip

    def _touches_barrier(
        self, s: SharedShadow, g: Group, x: Array, live: Array, access: int, verb: str
    ) -> None:
        lanes = np.broadcast_to(g.lanes, x.shape)[live]
        word = int(x[live][0])
        self.findings.report(
            "access-to-live-mbarrier",
            say(
                "{} {} {}: {}; a live mbarrier is there, which only mbarrier instructions may "
                "touch until mbarrier.inval (PTX ISA 9.7.13.15.3): {}",
                g.batch.describe(lanes[:1]), verb, self.shared_name(s, word),
                self.findings.place(access), self.findings.place(int(s.write_access[word])),
            ),
            access, ("live barrier", access),
        )  # fmt: skip

    def _again(
        self, s: SharedShadow, g: Group, x: Array, bad: Array, access: int, other: int
    ) -> None:
        """One instruction of several warps writes one place: a race if the values differ.

        Compilers let all threads store the same number; threads of one group may, too.
        """
        words = np.unique(x[bad]) + s.base
        before = self._bytes(words)

        def settle() -> None:
            if not np.array_equal(before, self._bytes(words)):
                self._report(s, g, x, bad, access, "writes", other, access, "wrote")

        self.machine.after_block.append(settle)

    def threads_wrote(self, g: Group, position: int) -> bool:
        """Whether threads, not copies, wrote this byte of shared memory last."""
        s = self.shadows[g.batch]
        return bool(s.writer[(position >> self.facts.shift) - s.base] < s.team)

    def _bytes(self, words: Array) -> Array:
        unit = 1 << self.facts.shift
        found: Array = self.machine.memory.u1[words[:, None] * unit + np.arange(unit)]
        return found

    def _against_readers(
        self, s: SharedShadow, g: Group, x: Array, floor: Array, access: int, strong: bool
    ) -> None:
        """Is every thread's last read ordered before this write?"""
        # Most threads have read nothing near these words that is not known to all who write, or to
        # those who write near it: only of the rest is each read looked at.
        rows = np.atleast_2d(x)
        areas = rows // AREA
        near = distinct(areas)
        latest = s.areas[near]
        least = np.maximum(s.clock[run(g.lanes), : s.team].min(axis=0), floor.min())
        some = np.flatnonzero(latest.max(axis=0) > least)
        known = np.maximum(s.clock[g.lanes[:, None], some], floor[:, None])
        others = s.threads(g.lanes)[:, None] != some
        if rows.shape[1] == 1:  # a bulk copy's: each area is asked once
            areas = near[:, None]
        elif not (areas[1:] != areas[0]).any():  # the words of a wide access
            areas = areas[:1]
        if not ((latest[:, some][np.searchsorted(near, areas)] > known) & others).any():
            return
        for row in rows:
            late = (s.readers[row[:, None], some] > known) & others
            if late.any():
                i, reader = (int(v[0]) for v in np.nonzero(late))
                bad = np.zeros(g.n, bool)
                bad[i] = True
                self._report(s, g, row, bad, access, "writes", int(some[reader]),
                             s.read_access[row[i]], "read", mixed=strong)  # fmt: skip
                return

    def _uninitialised(self, g: Group, x: Array, access: int) -> None:
        s = self.shadows[g.batch]
        bad = s.write_time[x] == 0
        bad &= (x << self.facts.shift) % s.batch.shared_stride < self.machine.reserved
        if not bad.any():  # what the system keeps for itself, it has also initialised
            return
        lanes = np.broadcast_to(g.lanes, x.shape)[bad]
        where = self.shared_name(s, int(x[bad][0]))
        self.findings.report(
            "uninitialised-read",
            say(
                "{} reads {}, which nobody has written; {}",
                g.batch.describe(lanes[:1]), where, self.findings.place(access),
            ),
            access, ("uninitialised", access),
        )  # fmt: skip

    def shared_name(self, s: SharedShadow, word: int) -> Address:
        """A word of shared memory, as ``As[64 bytes in]``."""
        number = (word << self.facts.shift) % s.batch.shared_stride
        name, offset = self.machine.program.layout.shared_place(number)
        return Address("shared", number, name, offset, f"{name}[{offset} bytes in]")

    def _report(
        self, s: SharedShadow, g: Group, x: Array, bad: Array, access: int, verb: str,
        other: int, other_access: int, other_verb: str, mixed: bool = False,
    ) -> None:  # fmt: skip
        """``mixed``: one is a plain load, the other a strong store or an atomic."""
        lanes = np.broadcast_to(g.lanes, np.shape(x))[bad]
        lane = int(lanes[0])
        where = self.shared_name(s, int(x[bad][0]))
        team = lane - lane % s.team
        copy = s.team <= other < s.inits
        rule = "race-beside-atomics" if mixed else "race"
        other_lane = np.array([team + other % s.team])
        who = g.batch.describe(other_lane)
        there = self.findings.place(int(other_access))
        if copy and other >= s.bulk:
            rule = "missing-mbarrier-wait"
            second = say(
                "a bulk copy writes it, and this thread has not waited for mbarrier {}: {}",
                s.site_name(other), there,
            )
        elif copy:
            rule = "missing-copy-wait"
            second = say(
                "an asynchronous copy of {} writes it and nobody has waited for it: {}", who, there
            )
        else:
            second = say(
                "{} {} it, and nothing orders the two: {}{}",
                who, other_verb, there, self._told_nothing(s, x[bad], other, other_verb),
            )  # fmt: skip
        message = say(
            "{} {} {}: {}; {}",
            g.batch.describe(np.array([lane])), verb, where, self.findings.place(access), second,
        )  # fmt: skip
        self.findings.report(rule, message, access, _key(access, other_access, verb, copy))


    def _told_nothing(self, s: SharedShadow, x: Array, other: int, verb: str) -> Sentence:
        """The relaxed arrival by which a thread may have meant to tell of an access."""
        if other >= s.team or s.relaxed[other] < 0:
            return Sentence()
        times = s.write_time[x] if verb == "wrote" else s.readers[x, other]
        if times.min() > s.relaxed_time[other]:
            return Sentence()
        place = self.findings.place(int(s.relaxed[other]))
        return say("; its arrival after that is .relaxed, and tells of nothing before: {}", place)


def _key(access: int, other: int, verb: str, copy: bool = False) -> tuple[int, int, str, bool]:
    """What one pair of accesses is known by."""
    return access, int(other), verb, copy


__all__ = ["Look", "Races"]
