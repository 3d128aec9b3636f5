"""Tensor memory in the checker: who may touch which cells when (PTX ISA 9.7.16.6, 9.7.16.11).

Everything that touches tensor memory is asynchronous, and each has its own way to be waited for:

``tcgen05.mma``      an mbarrier at which ``tcgen05.commit`` arrives; between two of one thread
                     no wait is needed, they run in the order of issue
``tcgen05.st``       ``tcgen05.wait::st`` by the same warp
``tcgen05.ld``       ``tcgen05.wait::ld`` by the same warp

After that the order among threads is the usual one, by barriers.  The shadow has an entry for
each half quarter, 16 lanes, of each column.  The clocks are those of
:mod:`~phasebit.emulator.races`: what a thread's tensor operations did has a column of its own,
which its commits publish.

Where a barrier of threads orders two of them, the PTX ISA also wants fences (9.7.16.11.1): the
first thread's ``tcgen05.fence::before_thread_sync`` before the barrier, the second's
``after_thread_sync`` behind it; ``tcgen05.commit`` counts as the former.  CuTe DSL and Triton emit
none at all, and their kernels run.  So each half is asked for only in programs that have that
half somewhere: those are held to the PTX ISA's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasebit.emulator.tensor_memory import COLUMNS
from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from phasebit.emulator.group import Group
    from phasebit.emulator.hazards import Checker
    from phasebit.emulator.machine import Batch
    from phasebit.emulator.mbarriers import BarrierSite
    from phasebit.emulator.races import SharedShadow

I4 = np.int32
HALVES = 8
"""Stretches of 16 lanes."""

MANY = 256
"""Operations whose reads of shared memory are remembered."""


@dataclass(frozen=True)
class Region:
    """Cells of one block's tensor memory: stretches of 16 lanes, columns."""

    slot: int
    halves: slice
    columns: slice

    @property
    def key(self) -> tuple[int, slice, slice]:
        """The index of its entries in the shadow."""
        return self.slot, self.halves, self.columns

    def __str__(self) -> str:
        stretches = range(*self.halves.indices(HALVES))
        lanes = f"{16 * stretches[0]}-{16 * stretches[-1] + 15}"
        return f"lanes {lanes}, columns {self.columns.start}-{self.columns.stop - 1}"


class Last:
    """Who did something last to each cell, when, and at which access."""

    def __init__(self, count: int) -> None:
        shape = (count, HALVES, COLUMNS)
        self.who = np.zeros(shape, I4)
        """A column of the clocks."""
        self.time = np.zeros(shape, I4)
        """0: never."""
        self.access = np.zeros(shape, I4)

    def note(self, region: Region, who: int, time: int, access: int) -> None:
        self.who[region.key] = who
        self.time[region.key] = time
        self.access[region.key] = access

    def late(self, region: Region, known: Array) -> tuple[int, int] | None:
        """Who did it, and at which access, where that is not ``known``; None where all is."""
        times = self.time[region.key]
        bad = times > known[self.who[region.key]]
        if not bad.any():
            return None
        at = np.unravel_index(int(np.argmax(bad)), bad.shape)
        return int(self.who[region.key][at]), int(self.access[region.key][at])


class Reading:
    """An operation under way that reads shared memory."""

    def __init__(self, words: Array, lane: int, column: int, time: int, access: int) -> None:
        self.words = words
        self.low, self.high = int(words[0]), int(words[-1])
        self.lane = lane
        self.column = column
        self.time = time
        self.access = access


class TensorShadow:
    """What the checker knows about the tensor memory of a batch."""

    def __init__(self, count: int) -> None:
        self.written = Last(count)
        self.read = Last(count)
        """By threads."""
        self.consumed = Last(count)
        """By the tensor core, which reads A there."""
        self.storing: list[tuple[int, Region, int]] = []
        """What warps have stored and not waited for: first lane of the warp, region, access."""
        self.loading: list[tuple[int, Region, int]] = []
        self.reading: list[Reading] = []
        """Operations that may still read shared memory."""
        self.after: Array | None = None
        """``after[t, u]``: thread u's doings in tensor memory up to this time are fenced, on both
        sides, before what thread t does there."""
        self.arrivals: dict[tuple[int, int], tuple[int, int]] = {}
        """Column of the clocks, block -> when a tcgen05.commit last asked for an arrival at a
        barrier of that block, and its access."""


class TensorChecks:
    """What the checker does about tensor memory."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.machine = checker.machine
        self.findings = checker.findings
        self.races = checker.races
        self.engine = checker.engine
        self.shadows: dict[Batch, TensorShadow] = {}
        self.races.tensor = self

    def shadow(self, batch: Batch) -> TensorShadow:
        """That of a batch; made on first use."""
        if batch not in self.shadows:
            self.shadows[batch] = TensorShadow(batch.count)
        return self.shadows[batch]

    # -- what is known --------------------------------------------------------

    def _known(self, s: SharedShadow, lanes: Array, *own: int) -> Array:
        """Up to when each agent's doings are ordered before what these threads do now.

        ``own``: columns that need no order.
        """
        known: Array = s.clock[lanes].min(axis=0)
        floor = s.floor[int(lanes[0]) // s.batch.threads]
        known[: s.team] = np.maximum(known[: s.team], floor)
        after = self.shadow(s.batch).after
        if after is not None:  # fenced, and a relaxed barrier between: no more is needed
            known[: s.team] = np.maximum(known[: s.team], after[lanes].max(axis=0))
        known[list(own)] = np.iinfo(I4).max
        return known

    def _who(self, s: SharedShadow, lane: int, column: int) -> str:
        """The agent of a column, in words."""
        other = lane // s.team * s.team + column % s.team
        name = s.batch.describe(np.array([other]))
        if column >= s.team:
            return f"a tensor operation of {name}"
        warp = other // s.batch.threads * s.batch.threads + other % s.batch.threads // 32 * 32
        end = min(warp + 32, (other // s.batch.threads + 1) * s.batch.threads)
        return s.batch.describe(np.arange(warp, end))

    # -- rules ----------------------------------------------------------------

    def touch(
        self, batch: Batch, lanes: Array, region: Region, access: int, verb: str, *,
        writes: bool, tensor_core: bool = False, fences: bool = True,
    ) -> None:  # fmt: skip
        """Threads, or the tensor core for one of them, read or write cells.

        ``fences``: this needs a ``tcgen05.fence`` after those of other threads.
        """
        t = self.shadow(batch)
        s = self.races.shadows[batch]
        first = int(lanes[0])
        warp = first - first % batch.threads % 32  # a warp's ld and st are noted by its first lane
        own = [int(c) for c in s.threads(np.union1d(lanes, [warp]))]
        if tensor_core:
            own.append(s.team + int(s.threads(lanes)[0]))
        known = self._known(s, lanes, *own)
        who = batch.describe(lanes)
        what = f"{who} {verb} tensor memory, {region}: {self.findings.place(access)}"
        if (
            not writes
            and not t.written.time[region.key].all()
            and not any(_overlap(region, other) for _, other, _ in t.storing)
            and not self._ahead(t, region, tensor_core)
        ):
            self.findings.report(
                "uninitialised", f"{what}; nobody has written all of it", access,
                ("tensor uninitialised", access),
            )  # fmt: skip
        for waiting, word, matters in (
            (t.storing, "st", True), (t.loading, "ld", writes),
        ):  # fmt: skip
            for lane, other, there in waiting if matters else ():
                if _overlap(region, other):
                    other_warp = self._who(s, first, int(s.threads(np.array([lane]))[0]))
                    done = "written it" if word == "st" else "read it"
                    self.findings.report(
                        "async",
                        f"{what}; {other_warp} may not have {done} yet, for it has not executed "
                        f"tcgen05.wait::{word}: {self.findings.place(there)}",
                        access, ("tensor", access, there),
                    )  # fmt: skip
        fenced = self._fenced(s, t, lanes) if fences else None
        for last, did in (
            (t.written, "writes"), (t.read, "reads"), (t.consumed, "reads"),
        )[: 3 if writes else 1]:  # fmt: skip
            late = last.late(region, known)
            if late:
                self._unordered(s, first, what, access, late, did)
            elif fenced is not None:
                late = last.late(region, fenced)
                if late:
                    self._unfenced(s, lanes, what, access, late, did)

    # -- fences ---------------------------------------------------------------

    def fenced_before(self, g: Group) -> None:
        """``tcgen05.fence::before_thread_sync``; a warp's ld and st are those of each thread."""
        s = self.races.shadows[g.batch]
        warps = g.lanes - g.lanes % g.batch.threads % 32
        for lanes in (g.lanes, warps):
            s.clock[g.lanes, s.fences + s.threads(lanes)] = self.machine.now
        s.version += 1
        self.machine.now += 1

    def fenced_after(self, g: Group) -> None:
        """``tcgen05.fence::after_thread_sync``."""
        s, t = self.races.shadows[g.batch], self.shadow(g.batch)
        if t.after is None:
            t.after = np.zeros((g.batch.lanes, s.team), I4)
        t.after[g.lanes] = s.clock[g.lanes, s.fences : s.fences + s.team]

    def _fenced(self, s: SharedShadow, t: TensorShadow, lanes: Array) -> Array | None:
        """Up to when each agent's doings are fenced before these threads'; None: not asked."""
        halves = self.races.tensor_fences
        if not halves:
            return None
        known = np.full(s.clock.shape[1], np.iinfo(I4).max, I4)
        if "fence::after_thread_sync" in halves:
            mine: Array = np.zeros(s.team, I4) if t.after is None else t.after[lanes].max(axis=0)
        else:
            mine = s.clock[lanes, s.fences :].max(axis=0)
        known[s.team : 2 * s.team] = mine
        if "fence::before_thread_sync" in halves:
            known[: s.team] = mine
        else:  # what was learnt by then would do, but nothing notes it
            known[: s.team] = np.iinfo(I4).max
        first = int(lanes[0])
        warp = first - first % s.batch.threads % 32
        end = min(warp + 32, (first // s.batch.threads + 1) * s.batch.threads)
        own = s.threads(np.arange(warp, end))
        known[own] = known[s.team + own] = np.iinfo(I4).max
        return known

    def _unfenced(
        self, s: SharedShadow, lanes: Array, what: str, access: int, other: tuple[int, int],
        did: str,
    ) -> None:  # fmt: skip
        column, there = other
        fenced = int(s.clock[lanes, s.fences + column % s.team].max())
        who = self._who(s, int(lanes[0]), column)
        if column >= s.team or fenced:
            need = "tcgen05.fence::after_thread_sync behind the barrier that orders them"
        else:
            need = "tcgen05.fence::before_thread_sync before the barrier that orders them"
        self.findings.report(
            "tensor",
            f"{what}; {who} {did} it before, and between the two is no {need}: "
            f"{self.findings.place(there)}",
            access, ("tensor fence", access, there),
        )  # fmt: skip

    def _unordered(
        self, s: SharedShadow, lane: int, what: str, access: int, other: tuple[int, int], did: str
    ) -> None:
        column, there = other
        tensor_core = column >= s.team
        why = (
            "and this thread has not waited for an mbarrier at which a tcgen05.commit after it "
            "arrives" if tensor_core else "and nothing orders the two"
        )  # fmt: skip
        self.findings.report(
            "async" if tensor_core else "race",
            f"{what}; {self._who(s, lane, column)} {did} it, {why}: {self.findings.place(there)}",
            access, ("tensor", access, there),
        )  # fmt: skip

    # -- the instructions -----------------------------------------------------

    def allocated(self, batch: Batch, region: Region) -> None:
        """New columns: nobody has written them."""
        t = self.shadow(batch)
        for last in (t.written, t.read, t.consumed):
            last.note(region, 0, 0, 0)

    def wrote_address(self, warp: Group) -> None:
        """``tcgen05.alloc`` has written to shared memory: all of the warp executed it."""
        s = self.races.shadows[warp.batch]
        known = np.zeros(s.clock.shape[1], I4)
        known[s.threads(warp.lanes)[0]] = self.machine.now
        s.learn(warp.lanes, known)
        self.machine.now += 1

    def _ahead(self, t: TensorShadow, region: Region, tensor_core: bool) -> bool:
        """Whether a compiler loads what nothing was written to, to throw it away.

        Triton begins a loop's first turn before it asks whether there is one: the multiplication
        has a predicate, the ``tcgen05.ld`` of its sums has none.
        """
        instruction = self.races.machine.program.executing()
        generated = instruction is not None and instruction.generated and not tensor_core
        return generated and not t.written.time[region.key].any()

    def load(self, g: Group, lanes: Array, region: Region, access: int) -> None:
        """A warp's ``tcgen05.ld``."""
        self.touch(g.batch, lanes, region, access, "reads", writes=False)
        self.shadow(g.batch).loading.append((int(lanes[0]), region, access))

    def store(self, g: Group, lanes: Array, region: Region, access: int) -> None:
        """A warp's ``tcgen05.st``."""
        t = self.shadow(g.batch)
        mine = int(lanes[0])
        others = [x for x in t.storing if x[0] != mine]
        kept, t.storing = t.storing, others  # one warp's stores come in their order
        self.touch(g.batch, lanes, region, access, "writes", writes=True)
        t.storing = [*kept, (mine, region, access)]

    def waited(self, g: Group, lanes: Array, word: str) -> None:
        """A warp's ``tcgen05.wait``."""
        t = self.shadow(g.batch)
        s = self.races.shadows[g.batch]
        mine = int(lanes[0])
        waiting, last = (t.storing, t.written) if word == "st" else (t.loading, t.read)
        for item in [x for x in waiting if x[0] == mine]:
            waiting.remove(item)
            last.note(item[1], int(s.threads(lanes)[0]), self.machine.now, item[2])

    def multiply(
        self, g: Group, access: int, target: Region, source: Region | None, words: Array,
        accumulates: bool, what: str = "a tcgen05.mma", scales: Sequence[Region] = (),
    ) -> None:  # fmt: skip
        """One thread's ``tcgen05.mma`` or ``cp``: ``words`` of shared memory are what it reads."""
        batch, lane = g.batch, g.lanes
        t = self.shadow(batch)
        s = self.races.shadows[batch]
        column = s.team + int(s.threads(lane)[0])
        self.engine.look(s, g, words, access, what)
        reading = Reading(words, int(lane[0]), column, self.machine.now, access)
        t.reading.append(reading)
        if len(t.reading) > MANY:
            known = s.clock[batch.alive].min(axis=0)
            t.reading = [r for r in t.reading if r.time > known[r.column]][-MANY:]
        if source is not None:
            self.touch(batch, lane, source, access, "multiplies A in", writes=False,
                       tensor_core=True)  # fmt: skip
            t.consumed.note(source, column, self.machine.now, access)
        for region in scales:
            self.touch(batch, lane, region, access, "takes scales from", writes=False,
                       tensor_core=True)  # fmt: skip
            t.consumed.note(region, column, self.machine.now, access)
        if accumulates:
            self.touch(batch, lane, target, access, "accumulates into", writes=False,
                       tensor_core=True)  # fmt: skip
        self.touch(batch, lane, target, access, "writes", writes=True, tensor_core=True)
        t.written.note(target, column, self.machine.now, access)

    def shift(self, g: Group, access: int, region: Region) -> None:
        """One thread's ``tcgen05.shift``: cells are read, and written."""
        t = self.shadow(g.batch)
        s = self.races.shadows[g.batch]
        for writes, verb in ((False, "reads"), (True, "writes")):
            self.touch(g.batch, g.lanes, region, access, verb, writes=writes, tensor_core=True)
        t.written.note(region, s.team + int(s.threads(g.lanes)[0]), self.machine.now, access)

    def commit(self, g: Group, site: BarrierSite) -> Array:
        """One thread's ``tcgen05.commit``: what its arrival will publish.

        That is its operations so far, and what they came after: all that the thread had learnt
        from others, the arrival of the operands above all.  What it wrote itself is not in it.
        """
        self.checker.touch(g, g.lanes, site, itself=False)
        s = self.races.shadows[g.batch]
        learnt = s.clock[int(g.lanes[0])]
        column = s.team + int(s.threads(g.lanes)[0])
        access = self.machine.program.executing_access()
        self.shadow(g.batch).arrivals[column, site.slot] = (self.machine.now, access)
        known: Array = np.maximum(learnt, self.races.copies_frontier(g.batch, g.lanes))
        self.races.may_be_overwritten(s, g.lanes, known)
        if self.races.tensor_fences:
            known[s.fences + column - s.team] = self.machine.now
        return known

    def committed(self, site: BarrierSite, known: Array) -> None:
        """A commit arrives."""
        site.frontier = known if site.frontier is None else np.maximum(site.frontier, known)

    def deallocated(self, g: Group, lanes: Array, region: Region, access: int) -> None:
        """A warp gives columns back: nobody may be at work there."""
        self.touch(g.batch, lanes, region, access, "deallocates", writes=True, fences=False)

    def against_readers(self, s: SharedShadow, g: Group, words: Array, access: int) -> None:
        """Threads write to shared memory: does an operation still read there?"""
        t = self.shadows.get(g.batch)
        if t is None or not t.reading:
            return
        low, high = int(words.min()), int(words.max())
        for one in t.reading:
            if one.high < low or one.low > high:
                continue
            mine = g.lanes // s.team == one.lane // s.team
            if (s.clock[g.lanes[mine], one.column] >= one.time).all():
                continue
            both = words[np.isin(words, one.words)]
            if not len(both):
                continue
            lanes = self.races.writers_at(g, int(both.flat[0]))
            if (s.clock[lanes, one.column] < one.time).any():
                self.findings.report(
                    "async",
                    f"{g.batch.describe(lanes[:1])} writes "
                    f"{self.races._shared_name(s, int(both.flat[0]) - s.base)}: "
                    f"{self.findings.place(access)}; a tensor operation of "
                    f"{g.batch.describe(np.array([one.lane]))} may still read it, and this thread "
                    "has not waited for an mbarrier at which a tcgen05.commit after it arrives: "
                    f"{self.findings.place(one.access)}",
                    access, ("reading", access, one.access),
                )  # fmt: skip

    def block_ends(self, batch: Batch, slot: int) -> None:
        """All threads of a block have left: has it given back its tensor memory?

        And is the other block of its pair done with it?
        """
        if batch.tensor is None:
            return
        self._outlived(batch, slot)
        for columns in batch.tensor.leaked(slot):
            self.findings.report(
                "tensor",
                f"block {int(batch.blocks[slot])} leaves the kernel with {columns.count} columns "
                f"of tensor memory allocated: {columns.where}; a warp must execute "
                "tcgen05.dealloc before the block ends",
                -1, ("leaked", columns.where),
            )  # fmt: skip

    def _outlived(self, batch: Batch, slot: int) -> None:
        """Do tensor operations of other blocks reach into a block that has left the kernel?"""
        t, s = self.shadows.get(batch), self.races.shadows[batch]
        if t is None or self.machine.cluster_size == 1:
            return
        own = np.arange(slot * batch.threads, (slot + 1) * batch.threads)
        known = s.clock[own].max(axis=0)
        ranks = s.threads(own)
        known[ranks] = known[s.team + ranks] = np.iinfo(I4).max
        start = slot * batch.shared_stride + batch.shared_base >> self.races.shift
        end = start + (batch.shared_stride >> self.races.shift)
        first = slot * batch.threads // s.team * s.team
        late = [
            (r.lane, r.access, "reads its shared memory") for r in t.reading
            if first <= r.lane < first + s.team and r.low < end and r.high >= start
            and r.time > known[r.column]
        ]  # fmt: skip
        late += [
            (first + column - s.team, access, "arrives at an mbarrier in its shared memory")
            for (column, at), (time, access) in t.arrivals.items()
            if at == slot and time > known[column]
        ]
        everything = Region(slot, slice(0, HALVES), slice(0, COLUMNS))
        for last in (t.written, t.consumed):
            found = last.late(everything, known)
            if found is not None and found[0] >= s.team:
                late.append((first + found[0] - s.team, found[1], "uses its tensor memory"))
        for lane, access, what in late:
            self.findings.report(
                "cluster",
                f"block {int(batch.blocks[slot])} may leave the kernel before a tensor operation "
                f"of {batch.describe(np.array([lane]))} {what}: {self.findings.place(access)}; let "
                "it wait for an mbarrier at which a tcgen05.commit after that arrives",
                access, ("outlives", access),
            )  # fmt: skip

    def misaligned(self, text: str) -> None:
        """A swizzled tile does not begin where its descriptor says that the pattern does.

        Not asked of what tensor copies have brought: they swizzle by the address in shared memory,
        as the tensor core does, and CuTe DSL aligns its tiles to 128 bytes only.
        """
        self.findings.report("tensor", text, -1, ("misaligned", text))

    def wrong_quarter(self, text: str, where: str) -> None:
        """A warp gives an address in a quarter of tensor memory that is not its own."""
        self.findings.report("tensor", text, -1, ("quarter", where))

    def wrong_descriptor(self, which: str, why: str, where: str) -> None:
        """A tile of A or B cannot be what its descriptor says."""
        text = f"the descriptor of {which} is wrong: {why}; {where}"
        self.findings.report("descriptor", text, -1, ("descriptor", which, where))

    def issued_by_many(self, g: Group, word: str, access: int) -> None:
        """Several threads of a warp issue what one is meant to."""
        self.findings.report(
            "tensor",
            f"{g.batch.describe(g.lanes)} issue {word}, each of them once more: "
            f"{self.findings.place(access)}; let one thread do it (elect.sync)",
            access, ("many", access),
        )  # fmt: skip

    def finish(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self.shadows.pop(batch, None)


def _overlap(a: Region, b: Region) -> bool:
    if a.slot != b.slot or a.columns.start >= b.columns.stop or b.columns.start >= a.columns.stop:
        return False
    mine, theirs = (set(range(*r.halves.indices(HALVES))) for r in (a, b))
    return bool(mine & theirs)


__all__ = ["HALVES", "Region", "TensorChecks"]
