"""Races in global memory, and reads of what nobody has written.

For each word three readers are remembered: the last one, another of the same block, and one of
another block; that finds every race but those with readers of which some are ordered before the
write and some are not.  An asynchronous copy reads until it is known to be done, whatever is known
of the thread that has started it: of each word the last two are remembered.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasebit.emulator.checker.beside import Beside
from phasebit.emulator.checker.footprint import Footprint
from phasebit.emulator.checker.global_shadow import COLUMNS, GlobalShadow, copy_code
from phasebit.emulator.checker.order import Order
from phasebit.emulator.checker.reports import Findings
from phasebit.emulator.findings import Address, Threads, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from phasebit.emulator.ptx.types import Array


class GlobalRaces:
    """Watches accesses to global memory."""

    def __init__(self, order: Order, findings: Findings) -> None:
        self.machine = order.machine
        self.facts = order.facts
        self.order = order
        self.shadows = order.shadows
        self.findings = findings
        self.before_access: list[Callable[[Group, Footprint, int, int, str, bool], None]] = []
        """Who looks first: words, their start, access, verb, whether it is strong."""
        self.shadow = GlobalShadow()
        self.others: Beside | None = None
        """What launches do that run beside this one."""
        self.unwritten = self._find_unwritten()

    def fit(self) -> None:
        """Cover all memory that there is."""
        self.shadow.fit(len(self.machine.memory.u1) >> self.facts.shift)

    def settle(self) -> None:
        """The last block has left: note in memory which bytes have been written."""
        for start, words in self.unwritten.items():
            written = np.repeat(self.shadow.write_time[words] >= 0, 1 << self.facts.shift)
            self.machine.memory.settle(start, written)

    def _find_unwritten(self) -> dict[int, slice]:
        """Enter what nobody has written; the words of each such allocation, by its start."""
        found = {}
        for start, written in self.machine.memory.unwritten.items():
            self.shadow.fit(len(self.machine.memory.u1) >> self.facts.shift)
            unit = 1 << self.facts.shift
            words = slice(start // unit, (start + len(written)) // unit)
            whole = written[: len(written) // unit * unit].reshape(-1, unit)
            self.shadow.write_time[words] = np.where(whole.all(axis=1), 0, -1)
            found[start] = words
        return found

    def _unordered(self, g: Group, times: Array, who: Array, me: Array) -> Array:
        """Where an access at ``times`` by threads ``who`` is not ordered before this group."""
        s = self.shadows[g.batch]
        bad: Array = (times > 0) & (who != me)
        if not bad.any():
            return bad
        lanes = np.broadcast_to(g.lanes, times.shape)
        same = who // s.team == me // s.team
        near = bad & same
        if near.any():
            some, when = lanes[near], times[near]
            late = (when > s.clock[some, who[near] % s.team]) & (
                when > s.floor[some // g.batch.threads]
            )
            bad[near] = late
        far = bad & ~same
        if far.any():
            unit, column = np.divmod(who[far], s.team)
            bad[far] = self.order.messages.unordered(s, lanes[far], times[far], unit, column)
        return bad

    def _copying(self, g: Group, times: Array, code: Array) -> Array:
        """Where copies that began at ``times`` may still read, as far as this group knows."""
        s = self.shadows[g.batch]
        bad: Array = times > 0
        lanes = np.broadcast_to(g.lanes, times.shape)
        unit, column = np.divmod(code - 1, COLUMNS)
        near = bad & (unit == (lanes + s.first) // s.team)
        if near.any():
            some, when = lanes[near], times[near]
            bad[near] = (when > s.clock[some, column[near]]) & (
                when > s.floor[some // g.batch.threads]
            )
        far = bad & (unit != (lanes + s.first) // s.team)
        if far.any():
            bad[far] = self.order.messages.unordered(
                s, lanes[far], times[far], unit[far], column[far]
            )
        return bad

    def load(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool
    ) -> None:
        w = self.shadow
        for look in self.before_access:
            look(g, words, start, access, "reads", False)
        if self.others is not None:
            self.others.look(g, words, start, access, "reads", strong)
        w.fit(len(self.machine.memory.u1) >> self.facts.shift)
        once = words.once + start
        times = w.write_time[once]
        if times.max() > 0:
            self._against_last(g, words.every + start, access, strong, "reads")
        if strong and w.hidden.used:
            self._against_hidden(g, words.every + start, access, "reads")
        if times.min() < 0:
            self._reads_unwritten(g, words.every + start, access)
        s = self.shadows[g.batch]
        code = 2 * (g.lanes + s.first) + (2 if strong else 1)
        first = None if words.apart else code[words.first]
        w.read(once, code[words.owner], first, s.team, access, self.machine.now)

    def copy(
        self, g: Group, words: Footprint, start: int, access: int, columns: Array
    ) -> None:
        """Asynchronous copies of these threads read; ``columns`` of the clocks, one a thread, say
        when they have."""
        self.load(g, words, start, access, False)
        s = self.shadows[g.batch]
        code = copy_code((g.lanes + s.first) // s.team, columns)
        once, now = words.once + start, self.machine.now
        if not words.apart:
            self.shadow.copied(once, code[words.first], access, now)
        self.shadow.copied(once, code[words.owner], access, now)

    def store(
        self, g: Group, words: Footprint, start: int, access: int, strong: bool,
        reads: bool = False,
    ) -> None:  # fmt: skip
        """``reads``: the access is an atomic."""
        w = self.shadow
        for look in self.before_access:
            look(g, words, start, access, "writes", strong)
        if self.others is not None:
            self.others.look(g, words, start, access, "writes", strong)
        w.fit(len(self.machine.memory.u1) >> self.facts.shift)
        once = words.once + start
        me = g.lanes + self.shadows[g.batch].first
        times = w.write_time[once]
        if times.max() > 0:
            self._against_last(g, words.every + start, access, strong, "writes")
        if w.hidden.used:
            if strong:
                self._against_hidden(g, words.every + start, access, "writes")
            else:
                w.hidden.time[once] = 0
        if strong:
            w.hide(once)
        if reads and times.min() < 0:
            self._reads_unwritten(g, words.every + start, access)
        for readers in w.readers:
            if readers.used and readers.time[once].max() > 0:
                x = words.every + start
                code = readers.code[x]
                bad = self._unordered(g, readers.time[x], (code - 1) >> 1, me)
                if strong:
                    bad &= code % 2 == 1
                if w.copying:
                    bad &= ~np.isin(readers.access[x], list(w.copying))
                if bad.any():
                    self._report(g, x, bad, access, "writes", (code[bad][0] - 1) >> 1,
                                        readers.access[x][bad][0], "read",
                                        mixed=strong)  # fmt: skip
        for copies in w.copies if w.copying else ():
            x = words.every + start
            bad = self._copying(g, copies.time[x], copies.code[x])
            if bad.any():
                self._report_copy(g, x, bad, access, int(copies.access[x][bad][0]))
        w.write_time[once] = self.machine.now
        w.writer[once] = me[words.owner]
        w.write_access[once] = access
        w.write_strong[once] = strong

    def _against_hidden(self, g: Group, x: Array, access: int, verb: str) -> None:
        """A strong access: is the plain store before other strong writes ordered before it?"""
        hidden = self.shadow.hidden
        me = g.lanes + self.shadows[g.batch].first
        bad = self._unordered(g, hidden.time[x], hidden.code[x], me)
        if bad.any():
            self._report(g, x, bad, access, verb, hidden.code[x][bad][0],
                         int(hidden.access[x][bad][0]), "wrote")  # fmt: skip

    def _against_last(self, g: Group, x: Array, access: int, strong: bool, verb: str) -> None:
        """Is every last write ordered before this access?  ``x``: words, one column a thread."""
        w = self.shadow
        me = g.lanes + self.shadows[g.batch].first
        bad = self._unordered(g, w.write_time[x], w.writer[x], me)
        if strong:
            bad &= ~w.write_strong[x]
        if not bad.any():
            return
        if (plain := bad & ~w.write_strong[x]).any():
            bad = plain
        other = w.write_access[x][bad][0]
        self._report(
            g, x, bad, access, verb, w.writer[x][bad][0], other, "wrote",
            mixed=verb == "reads" and bool(w.write_strong[x][bad][0]),
        )  # fmt: skip
        if verb == "writes" and not strong:
            unit = 1 << self.facts.shift
            places = np.unique(x[bad])[:, None] * unit + np.arange(unit)
            memory = self.machine.memory
            self.findings.weigh(_key(access, other, verb), lambda: memory.u1[places])

    def _reads_unwritten(self, g: Group, x: Array, access: int) -> None:
        bad = self.shadow.write_time[x] < 0
        if self.others is not None:
            bad &= ~self.others.written(x)
            if not bad.any():
                return
        lanes = np.broadcast_to(g.lanes, x.shape)[bad]
        self.findings.report(
            "uninitialised-read",
            say(
                "{} reads {}, which nobody has written; {}",
                g.batch.describe(lanes[:1]), self.name(int(x[bad][0])),
                self.findings.place(access),
            ),
            access, ("uninitialised", access),
        )  # fmt: skip

    def name(self, word: int) -> Address:
        """A word of global memory, as ``argument 0[64 bytes in]``."""
        place = word << self.facts.shift
        allocation = self.machine.memory.find(place)
        if allocation is None:
            return Address("global", place + GLOBAL_BASE, "", 0, "?")
        name, offset = allocation.name, place - allocation.start
        text = f"{name or 'an array'}[{offset} bytes in]"
        return Address("global", place + GLOBAL_BASE, name, offset, text)

    def _report(
        self, g: Group, x: Array, bad: Array, access: int, verb: str, other: int,
        other_access: int, other_verb: str, mixed: bool = False,
    ) -> None:  # fmt: skip
        """``mixed``: one is a plain load, the other a strong store or an atomic."""
        lane = np.broadcast_to(g.lanes, x.shape)[bad][:1]
        name = self.name(int(x[bad][0]))
        block, thread = divmod(int(other), g.batch.threads)
        who = Threads.of(self.machine.order[block], [thread], g.batch.threads)
        self.findings.report(
            "race-beside-atomics" if mixed else "race",
            say(
                "{} {} {}: {}; {} {} it, and nothing orders the two: {}",
                g.batch.describe(lane), verb, name, self.findings.place(access), who, other_verb,
                self.findings.place(int(other_access)),
            ),
            access, _key(access, other_access, verb),
        )  # fmt: skip

    def _report_copy(self, g: Group, x: Array, bad: Array, access: int, other: int) -> None:
        lane = np.broadcast_to(g.lanes, x.shape)[bad][:1]
        self.findings.report(
            "race",
            say(
                "{} writes {}: {}; an asynchronous copy may still read it, and this thread does "
                "not know that it is done: {}",
                g.batch.describe(lane), self.name(int(x[bad][0])), self.findings.place(access),
                self.findings.place(other),
            ),
            access, _key(access, other, "writes"),
        )  # fmt: skip


def _key(access: int, other: int, verb: str) -> tuple[int, int, str, str]:
    """What one pair of accesses is known by."""
    return access, int(other), verb, "global"


__all__ = ["GlobalRaces"]
