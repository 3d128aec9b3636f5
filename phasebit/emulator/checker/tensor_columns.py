"""Columns of tensor memory: who asks for how many, and who gives them back."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.checker.tensor_cells import TensorCells
from phasebit.emulator.checker.tensor_shadow import I4
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.cluster import cluster_barrier
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.multiprocessors import two_fit
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.cta_pairs import pair_of
from phasebit.emulator.tensor_core.regions import HALVES, Region
from phasebit.emulator.tensor_core.tensor_memory import COLUMNS, TensorMemory
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver


class TensorColumns(TensorObserver, LaunchObserver):
    """Watches allocations."""

    def __init__(self, cells: TensorCells) -> None:
        self.machine = cells.machine
        self.races = cells.races
        self.findings = cells.findings
        self.cells = cells
        self.asked: dict[tuple[Batch, int], int] = {}
        """How many columns each block asked for last."""
        self.granted: dict[tuple[Batch, int, int], tuple[int, int, int, Sentence]] = {}
        """Block of a pair, first column -> when they were granted, to which thread, at which
        barrier of the cluster it has still to arrive, where."""

    def ends(self, batch: Batch) -> None:
        """A batch has left the kernel."""
        self.cells.shadows.pop(batch, None)
        self.asked = {key: count for key, count in self.asked.items() if key[0] is not batch}
        self.granted = {key: one for key, one in self.granted.items() if key[0] is not batch}

    def asks_for_columns(self, g: Group, warps: int) -> None:
        """Does a block that allocates for a pair know that the other block runs (9.7.16.7.1)?

        It has met it at the cluster's barrier, in whatever order, or has learnt from it.
        """
        memory = g.batch.known(TensorMemory)
        if memory is None or memory.group is None or memory.group[0] != 2:
            return
        s, size = self.races.shadows[g.batch], g.batch.threads
        for slot in np.unique(g.lanes // size).tolist():
            lanes = g.lanes[g.lanes // size == slot]
            other = sum(pair_of(g.batch, slot)) - slot
            columns = s.threads(np.arange(other * size, (other + 1) * size))
            if cluster_barrier(g.batch).passed(lanes) or s.clock[np.ix_(lanes, columns)].any():
                continue
            access = self.machine.executing_access()
            self.findings.report(
                "tensor-memory-pair-peer-unknown",
                say(
                    "{} allocates tensor memory for a pair: {}; nothing says that the other block "
                    "runs yet: let the cluster wait before it",
                    g.batch.describe(lanes), self.findings.place(access),
                ),
                access, ("peer unknown", access),
            )  # fmt: skip

    def requests_columns(self, g: Group, slot: int, count: int, held: int, where: Sentence) -> None:
        """A block may ask for fewer columns than the time before, not for more (9.7.16.7.1).

        And could two blocks on one multiprocessor each hold what the other waits for?
        """
        before = self.asked.get((g.batch, slot), 0)
        self.asked[g.batch, slot] = count
        if 0 < before < count:
            self.findings.report(
                "tensor-memory-grows",
                say(
                    "{} asks for {} columns of tensor memory after its block asked for {}: {}; "
                    "one allocation may not be larger than the one before (PTX ISA 9.7.16.7.1): "
                    "let the largest come first",
                    g.batch.describe(g.lanes), count, before,
                    where,
                ),
                -1, ("grows", where),
            )  # fmt: skip
        if two_fit(g.batch) and held and 2 * held <= COLUMNS < 2 * held + count:
            self.findings.report(
                "tensor-memory-hold-and-wait",
                say(
                    "{} asks for {} columns of tensor memory while its block holds {}: {}; two "
                    "such blocks on one multiprocessor, which has {}, may each hold what the "
                    "other waits for: let a block allocate all that it needs at once",
                    g.batch.describe(g.lanes), count, held, where,
                    COLUMNS,
                ),
                -1, ("hold and wait", where),
            )  # fmt: skip

    def allocated(self, g: Group, region: Region) -> None:
        """New columns: nobody has written them."""
        t = self.cells.shadow(g.batch)
        for last in (t.written, t.read, t.consumed):
            last.note(region, 0, 0, 0)
        if self.machine.cluster_size > 1:
            lane = int(g.lanes[0])
            self.granted[g.batch, region.slot, region.columns.start] = (
                self.machine.now, lane, cluster_barrier(g.batch).next(lane), self.machine.where(g),
            )  # fmt: skip

    def wrote_address(self, g: Group) -> None:
        """``tcgen05.alloc`` has written to shared memory: all of the warp executed it."""
        s = self.races.shadows[g.batch]
        known = np.zeros(s.clock.shape[1], I4)
        known[s.threads(g.lanes)[0]] = self.machine.now
        s.learn(g.lanes, known)
        self.machine.now += 1

    def deallocates(self, g: Group, lanes: Array, region: Region) -> None:
        """A warp gives columns back: nobody may be at work there."""
        access = self.machine.executing_access()
        self.cells.touch(g.batch, lanes, region, access, "deallocates", writes=True, fences=False)
        memory = g.batch.known(TensorMemory)
        if memory is not None and memory.group is not None and memory.group[0] == 2:
            self._before_the_peer_has_them(g, lanes, region, access)

    def _before_the_peer_has_them(
        self, g: Group, lanes: Array, region: Region, access: int
    ) -> None:
        """Does a pair's columns go back before the other block is known to have them?

        Seen on a B300: the launch fails wherever the other block is a little late (CUTLASS, issue
        3435); a barrier of the cluster anywhere between the two is enough.
        """
        for slot in pair_of(g.batch, region.slot):
            granted = self.granted.get((g.batch, slot, region.columns.start))
            if slot == region.slot or granted is None:
                continue
            time, lane, meeting, where = granted
            s = self.races.shadows[g.batch]
            if cluster_barrier(g.batch).last(lanes) >= meeting:
                continue  # met since, in whatever order
            if s.clock[lanes, s.threads(np.array([lane]))[0]].max() >= time:
                continue
            self.findings.report(
                "tensor-memory-pair-freed-early",
                say(
                    "{} gives back tensor memory of a pair: {}; nothing says that the other block "
                    "has come by its part: {}; let the cluster wait between the two",
                    g.batch.describe(lanes), self.findings.place(access), where,
                ),
                access, ("freed early", access),
            )  # fmt: skip

    def block_ends(self, batch: Batch, slot: int, known: Array) -> None:
        """All threads of a block have left: has it given back its tensor memory?

        And is the other block of its pair done with it?  ``known``: what its threads knew.
        """
        memory = batch.known(TensorMemory)
        if memory is None:
            return
        self._outlived(batch, slot)
        for columns in memory.leaked(slot):
            self.findings.report(
                "tensor-memory-leak",
                say(
                    "block {} leaves the kernel with {} columns of tensor memory allocated: {}; a "
                    "warp must execute tcgen05.dealloc before the block ends",
                    int(batch.blocks[slot]), columns.count, columns.where,
                ),
                -1, ("leaked", columns.where),
            )  # fmt: skip

    def _outlived(self, batch: Batch, slot: int) -> None:
        """Do tensor operations of other blocks reach into a block that has left the kernel?"""
        t, s = self.cells.shadows.get(batch), self.races.shadows[batch]
        if t is None or self.machine.cluster_size == 1:
            return
        own = np.arange(slot * batch.threads, (slot + 1) * batch.threads)
        known = s.clock[own].max(axis=0)
        ranks = s.threads(own)
        known[ranks] = known[s.team + ranks] = np.iinfo(I4).max
        start = slot * batch.shared_stride + batch.shared_base >> self.races.facts.shift
        end = start + (batch.shared_stride >> self.races.facts.shift)
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
                "block-leaves-too-early",
                say(
                    "block {} may leave the kernel before a tensor operation of {} {}: {}; let it "
                    "wait for an mbarrier at which a tcgen05.commit after that arrives",
                    int(batch.blocks[slot]), batch.describe(np.array([lane])), what,
                    self.findings.place(access),
                ),
                access, ("outlives", access),
            )  # fmt: skip


__all__ = ["TensorColumns"]
