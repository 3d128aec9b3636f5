"""Tensor memory in the checker: who may touch which cells when (PTX ISA 9.7.16.6, 9.7.16.11).

Everything that touches tensor memory is asynchronous, and each has its own way to be waited for:

``tcgen05.mma``      an mbarrier at which ``tcgen05.commit`` arrives; between two of one thread
                     no wait is needed, they run in the order of issue
``tcgen05.st``       ``tcgen05.wait::st`` by the same warp
``tcgen05.ld``       ``tcgen05.wait::ld`` by the same warp

After that the order among threads is the usual one, by barriers.  The shadow has an entry for
each half quarter, 16 lanes, of each column.  The clocks are those of
``checker.races``: what a thread's tensor operations did has a column of its own,
which its commits publish.

Where a barrier of threads orders two of them, the PTX ISA also wants fences (9.7.16.11.1): the
first thread's ``tcgen05.fence::before_thread_sync`` before the barrier, the second's
``after_thread_sync`` behind it; ``tcgen05.commit`` counts as the former.  CuTe DSL and Triton emit
none at all, and their kernels run.  So each half is asked for only in programs that have that
half somewhere: those are held to the PTX ISA's words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasebit.emulator.checker.footprint import Footprint, touching
from phasebit.emulator.checker.mbarrier_order import MbarrierOrder
from phasebit.emulator.checker.proxies import Engine
from phasebit.emulator.checker.register_waits import used_before_wait
from phasebit.emulator.checker.shared_shadow import SharedShadow
from phasebit.emulator.checker.tensor_cells import TensorCells
from phasebit.emulator.checker.tensor_shadow import I4, Reading, TensorShadow
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.numbers.words import among, distinct
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.matrix_descriptors import crooked
from phasebit.emulator.tensor_core.regions import COPIED, SHIFTED, SOURCE, Region, overlap
from phasebit.emulator.tensor_core.tensor_observer import (
    Commit,
    Reads,
    SharedTile,
    TensorObserver,
)

MANY = 256
"""Operations whose reads of shared memory are remembered."""


class TensorChecks(TensorObserver, LaunchObserver):
    """Watches what threads and the tensor core do to tensor memory."""

    def __init__(self, cells: TensorCells, engine: Engine, mbarriers: MbarrierOrder) -> None:
        self.machine = cells.machine
        self.findings = cells.findings
        self.races = cells.races
        self.cells = cells
        self.engine = engine
        self.mbarriers = mbarriers
        self.used: dict[Instruction, bool] = {}
        """``tcgen05.ld`` -> what uses its registers before the wait."""
        self.committed: dict[Commit, Array] = {}
        """What each commit will publish when it arrives."""

    # -- threads --------------------------------------------------------------

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
        s, t = self.races.shadows[g.batch], self.cells.shadow(g.batch)
        if t.after is None:
            t.after = np.zeros((g.batch.lanes, s.team), I4)
        t.after[g.lanes] = s.clock[g.lanes, s.fences : s.fences + s.team]

    def loads_columns(
        self, g: Group, regions: Sequence[tuple[Array, Region]], registers: int
    ) -> None:
        """``tcgen05.ld`` by whole warps.

        Whoever uses a register that it loads waits for the value, with or without tcgen05.wait::ld
        (9.7.16.6.4.5); only the cells are in use until the wait.  Compilers that generate code
        take a use of the registers for the wait.
        """
        access = self.machine.executing_access()
        for lanes, region in regions:
            self.cells.touch(g.batch, lanes, region, access, "reads", writes=False)
            self.cells.shadow(g.batch).loading.add(int(lanes[0]), region, access)
        instruction = self.machine.executing()
        assert instruction is not None
        if instruction.generated and self._used(instruction):
            for lanes, _ in regions:
                self.waits_for_columns(g, lanes, "ld")

    def _used(self, load: Instruction) -> bool:
        """Whether something uses the registers of a load before a wait."""
        if load not in self.used:
            self.used[load] = used_before_wait(self.machine.program.graphs.values(), load)
        return self.used[load]

    def stores_columns(
        self, g: Group, regions: Sequence[tuple[Array, Region]], registers: int
    ) -> None:
        """``tcgen05.st`` by whole warps."""
        for lanes, region in regions:
            self._store(g, lanes, region, self.machine.executing_access())

    def _store(self, g: Group, lanes: Array, region: Region, access: int) -> None:
        """A warp's ``tcgen05.st``."""
        mine = int(lanes[0])  # one warp's stores come in their order
        self.cells.touch(
            g.batch, lanes, region, access, "writes", writes=True, in_order_of=mine
        )  # fmt: skip
        self.cells.shadow(g.batch).storing.add(mine, region, access)

    def waits_for_columns(self, g: Group, lanes: Array, word: str) -> None:
        """A warp's ``tcgen05.wait``."""
        t = self.cells.shadow(g.batch)
        s = self.races.shadows[g.batch]
        waiting, last = (t.storing, t.written) if word == "st" else (t.loading, t.read)
        for _, region, access in waiting.ended(int(lanes[0])):
            last.note(region, int(s.threads(lanes)[0]), self.machine.now, access)

    def wrong_quarter(self, g: Group, why: Sentence, where: Sentence) -> None:
        """A warp gives an address in a quarter of tensor memory that is not its own."""
        self.findings.report("wrong-tensor-quarter", why, -1, ("quarter", where))

    def reserved_bit(self, g: Group, bits: int, where: Sentence) -> None:
        """A bit that the PTX ISA wants to be 0, of which nothing follows here."""
        self.findings.report(
            "reserved-descriptor-bit",
            say(
                "{} multiplies by instruction descriptor {:#010x}: {}; bit 12 is reserved for "
                "4-bit elements with block scales and must be 0: it is taken as 0, which the PTX "
                "ISA does not promise",
                g.batch.describe(g.lanes), bits, where,
            ),
            self.machine.executing_access(), ("reserved", self.machine.executing_access()),
        )  # fmt: skip

    def address_of_other_space(self, g: Group, address: int, given: str) -> None:
        """A generic address for ``.shared::cluster``, or an address of that for a generic one."""
        access = self.machine.executing_access()
        what, asked, remedy = (
            ("the generic address", "one of .shared::cluster", "give __cvta_generic_to_shared's")
            if given == "generic" else
            ("the address", "a generic one, though it is of .shared::cluster",
             "say .shared::cluster, or give the pointer itself")
        )  # fmt: skip
        self.findings.report(
            "generic-shared-address",
            say(
                "{} gives {} {:#x} for {}: {}; its lower half is taken, which the PTX ISA does "
                "not promise: {}",
                g.batch.describe(g.lanes), what, address, asked, self.findings.place(access),
                remedy,
            ),
            access, ("generic", access),
        )  # fmt: skip

    # -- the tensor core ------------------------------------------------------

    def issues(self, g: Group, word: str) -> None:
        """Do several threads of a warp issue what one is meant to?"""
        if g.n == 1 or len(np.unique(g.batch.warp_of[g.lanes])) == g.n:
            return
        access = self.machine.executing_access()
        self.findings.report(
            "repeated-tensor-operation",
            say(
                "{} issue {}, each of them once more: {}; let one thread do it (elect.sync)",
                g.batch.describe(g.lanes), word, self.findings.place(access),
            ),
            access, ("many", access),
        )  # fmt: skip

    def reads_tile(self, g: Group, tile: SharedTile, where: Sentence) -> None:
        """Is A or B, or the source of a copy, what its descriptor says?

        A swizzled tile must begin where its descriptor says that the pattern does.  That is not
        asked of what tensor copies have brought: they swizzle by the address in shared memory, as
        the tensor core does, and CuTe DSL aligns its tiles to 128 bytes only.
        """
        descriptor = tile.descriptor
        wrong = self.engine.otherwise(g.batch, tile.start, descriptor.swizzle.name)
        if tile.elements is not None:
            wrong = wrong or self.engine.other_elements(g.batch, tile.start, tile.elements)
        if tile.folded and not wrong:
            wrong = say(
                "two of its elements lie at one place: leading {} or stride {} is too small",
                descriptor.leading, descriptor.stride,
            )  # fmt: skip
        if wrong:
            text = say("the descriptor of {} is wrong: {}; {}", tile.role, wrong, where)
            self.findings.report("wrong-descriptor", text, -1, ("descriptor", tile.role, where))
        if tile.elements is not None and (why := crooked(descriptor)) and (
            descriptor.base_offset or self.races.threads_wrote(g, tile.start)
        ):
            who = g.batch.describe(g.lanes)
            text = say("tcgen05.mma of {}: {}: {}; {}", who, tile.role, why, where)
            self.findings.report("misaligned-tile", text, -1, ("misaligned", text))

    def multiplies(
        self, g: Group, target: Region, source: Region | None, reads: Sequence[Reads], adds: bool,
        scales: Sequence[Region], form: int, metadata: Region | None,
    ) -> None:  # fmt: skip
        """One thread's ``tcgen05.mma``."""
        shift = self.races.facts.shift
        words = distinct(np.concatenate([one.words(shift) for one in reads]))
        access = self.machine.executing_access()
        beside = [(region, "scales") for region in scales]
        if metadata is not None:
            beside.append((metadata, "metadata"))
        self._multiply(g, access, target, source, words, adds, beside=beside, form=form)

    def copies_columns(self, g: Group, target: Region, reads: Reads) -> None:
        """One thread's ``tcgen05.cp``."""
        self._multiply(
            g, self.machine.executing_access(), target, None, reads.words(self.races.facts.shift),
            False, "a tcgen05.cp", form=COPIED,
        )  # fmt: skip

    def _multiply(
        self, g: Group, access: int, target: Region, source: Region | None, words: Array,
        accumulates: bool, what: str = "a tcgen05.mma",
        beside: Sequence[tuple[Region, str]] = (), form: int = 0,
    ) -> None:  # fmt: skip
        """One thread's ``tcgen05.mma`` or ``cp``: ``words`` of shared memory are what it reads.

        ``beside``: regions with its scales and its metadata.  ``form``: the shape of a product;
        :data:`COPIED` for a copy.
        """
        batch, lane = g.batch, g.lanes
        t = self.cells.shadow(batch)
        s = self.races.shadows[batch]
        column = s.team + int(s.threads(lane)[0])
        self.engine.look(s, g, words, access, what)
        reading = Reading(words, int(lane[0]), column, self.machine.now, access)
        t.reading.append(reading)
        if len(t.reading) > MANY:
            known = s.clock[batch.alive].min(axis=0)
            t.reading = [r for r in t.reading if r.time > known[r.column]][-MANY:]
        if source is not None:
            self.cells.touch(batch, lane, source, access, "multiplies A in", writes=False,
                       tensor_core=True)  # fmt: skip
            t.consumed.note(source, column, self.machine.now, access)
        for region, role in beside:
            self.cells.touch(batch, lane, region, access, f"takes {role} from", writes=False,
                       tensor_core=True)  # fmt: skip
            t.consumed.note(region, column, self.machine.now, access)
        if accumulates:
            self.cells.touch(batch, lane, target, access, "accumulates into", writes=False,
                       tensor_core=True)  # fmt: skip
        self.cells.touch(batch, lane, target, access, "writes", writes=True, tensor_core=True)
        if form != COPIED:
            self._in_order(s, t, g, target, access, form)
            if source is not None:
                self._in_order(s, t, g, source, access, SOURCE)
            for read, role in ((source, "A"), *beside):
                if read is not None and overlap(read, target):
                    self.findings.report(
                        "product-over-operand",
                        say(
                            "a tcgen05.mma of {} writes its sums, {}, over its own {}, {}: {}",
                            batch.describe(lane), target, role, read, self.findings.place(access),
                        ),
                        access, ("over itself", access),
                    )  # fmt: skip
        t.written.note(target, column, self.machine.now, access)
        t.formed(target, form)

    def _in_order(
        self, s: SharedShadow, t: TensorShadow, g: Group, region: Region, access: int, form: int
    ) -> None:
        """Does the tensor core run this after what the same thread asked it for before?

        Without a wait only these do (9.7.16.6.2): products of one shape into the same sums; a
        product after a copy or a shift; a shift after a product.  A copy over what a product reads
        is not among them, but CUTLASS relies on that order with block scales: not asked for.
        """
        if len(t.forms) < 2 and form != SOURCE and t.forms <= {form}:
            return
        column = s.team + int(s.threads(g.lanes)[0])
        key = region.key
        mine = (t.written.who[key] == column) & (
            t.written.time[key] > s.clock[int(g.lanes[0]), column]
        )
        before = t.form[key]
        unlike = before == COPIED if form == SHIFTED else (before > SHIFTED) & (before != form)
        bad = mine & unlike
        if bad.any():
            there = int(t.written.access[key][bad][0])
            what = {SHIFTED: "shifts", SOURCE: "multiplies A in"}.get(form, "writes")
            other = "a product of another shape" if before[bad][0] > SHIFTED else "a copy"
            if form == SOURCE:
                other = "a product"
            self.findings.report(
                "missing-tcgen05-commit",
                say(
                    "{} {} tensor memory, {}: {}; {} of the same thread writes it, and no rule "
                    "puts the two in order: wait for a tcgen05.commit between them: {}",
                    g.batch.describe(g.lanes), what, region, self.findings.place(access), other,
                    self.findings.place(there),
                ),
                access, ("in order", access, there),
            )  # fmt: skip

    def shifts(self, g: Group, region: Region) -> None:
        """One thread's ``tcgen05.shift``: cells are read, and written."""
        access = self.machine.executing_access()
        t = self.cells.shadow(g.batch)
        s = self.races.shadows[g.batch]
        for writes, verb in ((False, "reads"), (True, "writes")):
            self.cells.touch(
                g.batch, g.lanes, region, access, verb, writes=writes, tensor_core=True
            )
        self._in_order(s, t, g, region, access, SHIFTED)
        t.formed(region, SHIFTED)
        t.written.note(region, s.team + int(s.threads(g.lanes)[0]), self.machine.now, access)

    def commits(self, commit: Commit) -> None:
        """One thread's ``tcgen05.commit``: what its arrival will publish.

        That is its operations so far, and what they came after: all that the thread had learnt
        from others, the arrival of the operands above all.  What it wrote itself is not in it.
        """
        g, site = commit.thread, commit.site
        self.mbarriers.touch(g, g.lanes, site, itself=False)
        s = self.races.shadows[g.batch]
        learnt = s.clock[int(g.lanes[0])]
        column = s.team + int(s.threads(g.lanes)[0])
        access = self.machine.executing_access()
        self.mbarriers.asks(site, column, int(g.lanes[0]))
        self.cells.shadow(g.batch).arrivals[column, site.slot] = (self.machine.now, access)
        known: Array = np.maximum(learnt, self.races.order.copies_frontier(g.batch, g.lanes))
        self.races.order.may_be_overwritten(s, g.lanes, known)
        if self.races.facts.tensor_fences:
            known[s.fences + column - s.team] = self.machine.now
        self.committed[commit] = known

    def commit_arrives(self, commit: Commit) -> None:
        """A commit arrives."""
        self.mbarriers.publish(commit.site, self.committed.pop(commit))

    # -- shared memory that it reads ------------------------------------------

    def against_readers(
        self, s: SharedShadow, g: Group, footprint: Footprint, start: int, access: int
    ) -> None:
        """Threads write to shared memory: does an operation still read there?"""
        t = self.cells.shadows.get(g.batch)
        if t is None or not t.reading:
            return
        words = footprint.once + start
        low, high = int(words.min()), int(words.max())
        for one in t.reading:
            if one.high < low or one.low > high:
                continue
            mine = g.lanes // s.team == one.lane // s.team
            if (s.clock[g.lanes[mine], one.column] >= one.time).all():
                continue
            both = words[among(words, one.words)]
            if not len(both):
                continue
            lanes, written = touching(g, footprint, start, both)
            late = s.clock[lanes, one.column] < one.time
            if late.any():
                i = int(np.argmax(late))
                self.findings.report(
                    "missing-tcgen05-commit",
                    say(
                        "{} writes {}: {}; a tensor operation of {} may still read it, and this "
                        "thread has not waited for an mbarrier at which a tcgen05.commit after it "
                        "arrives: {}",
                        g.batch.describe(lanes[i : i + 1]),
                        self.races.shared_name(s, int(written[i]) - s.base),
                        self.findings.place(access), g.batch.describe(np.array([one.lane])),
                        self.findings.place(one.access),
                    ),
                    access, ("reading", access, one.access),
                )  # fmt: skip


__all__ = ["TensorChecks"]
