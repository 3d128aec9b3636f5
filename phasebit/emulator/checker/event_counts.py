"""Counts of what happens at barriers, in copies and in the tensor core."""

from __future__ import annotations

from collections.abc import Sequence

from phasebit.emulator.copy_engine.bulk_copies import BulkCopy
from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver, ThreadCopyObserver
from phasebit.emulator.machine.agents import ThreadCopy
from phasebit.emulator.machine.barrier_sites import BarrierSite, MbarrierObserver
from phasebit.emulator.machine.counters import Counters
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.named_barriers import BlockBarrierObserver
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver
from phasebit.emulator.tensor_core.warpgroups import SIZE, Multiplication, WarpGroupObserver
from phasebit.emulator.tensor_core.wgmma_tiles import Tile


class EventCounts(
    LaunchObserver, BlockBarrierObserver, MbarrierObserver, ThreadCopyObserver, BulkCopyObserver,
    TensorObserver, WarpGroupObserver,
):  # fmt: skip
    """Listens, and counts."""

    def __init__(self, counters: Counters) -> None:
        self.add = counters.add

    def divides(self, g: Group, p: Array, join: int) -> None:
        self.add("branch.divergent", 1)

    def syncs_block(self, g: Group) -> None:
        self.add("barrier.syncs", g.n)

    def syncs_warp(self, g: Group) -> None:
        self.add("barrier.warp_syncs", g.n)

    def arrives(self, g: Group, lanes: Array, site: BarrierSite, sem: str, scope: str) -> None:
        self.add("mbarrier.arrivals", len(lanes))

    def waits(self, g: Group, site: BarrierSite, blocked: bool) -> None:
        self.add("mbarrier.waits", 1)
        if blocked:
            self.add("mbarrier.waits_that_blocked", 1)

    def starts_thread_copy(self, g: Group, copy: ThreadCopy) -> None:
        self.add("cp_async.bytes", copy.width * g.n)

    def starts_copies(self, g: Group, copies: Sequence[tuple[Group, BulkCopy]]) -> None:
        self.add("cp_async_bulk.bytes", sum(copy.size for _, copy in copies))

    def asks_for_columns(self, g: Group, warps: int) -> None:
        self.add("tcgen05.allocations", warps)

    def loads_columns(
        self, g: Group, regions: Sequence[tuple[Array, Region]], registers: int
    ) -> None:
        self.add("tcgen05.ld.registers", g.n * registers)

    def stores_columns(
        self, g: Group, regions: Sequence[tuple[Array, Region]], registers: int
    ) -> None:
        self.add("tcgen05.st.registers", g.n * registers)

    def issues(self, g: Group, word: str) -> None:
        if word.startswith("tcgen05.mma"):
            self.add("tcgen05.mma", g.n)

    def starts_product(self, g: Group, mma: Multiplication, tiles: Sequence[Tile]) -> None:
        self.add("wgmma.multiplications", g.n // SIZE)


__all__ = ["EventCounts"]
