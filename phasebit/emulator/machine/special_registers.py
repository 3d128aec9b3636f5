"""Special registers (PTX ISA section 10): who a thread is, and what time it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.capabilities import MULTIPROCESSORS, limits
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.ptx.types import Array, Value

U4, U8, BOOL = np.dtype("u4"), np.dtype("u8"), np.dtype(bool)

_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid",
            "cluster_nctaid")  # fmt: skip

_NUMBERS = (
    "laneid", "warpid", "nwarpid", "smid", "nsmid", "lanemask_eq", "lanemask_le", "lanemask_lt",
    "lanemask_ge", "lanemask_gt", "clock", "clock_hi", "globaltimer_lo", "globaltimer_hi",
    "cluster_ctarank", "cluster_nctarank", "total_smem_size", "dynamic_smem_size",
    "aggr_smem_size",
)  # fmt: skip

FORMS: dict[str, np.dtype[Any]] = {
    **{f"{name}.{axis}": U4 for name in _VECTORS for axis in "xyz"},
    **dict.fromkeys(_NUMBERS, U4),
    **{f"reserved_smem_offset_{n}": U4 for n in ("begin", "end", "cap", "0", "1")},
    **{f"envreg{i}": U4 for i in range(32)},
    **dict.fromkeys(("clock64", "globaltimer", "gridid"), U8),
    "is_explicit_cluster": BOOL,
}  # fmt: skip
"""The special registers the emulator has, with their NumPy types."""

CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo",
                    "globaltimer_hi"})  # fmt: skip


def read(batch: Batch, lanes: Array, time: int, name: str) -> Value:
    """A special register for these threads at this time: an array, or a scalar when all agree."""
    if name in CLOCKS:
        return _clock(batch, time, name)
    if name not in batch.specials:
        batch.specials[name] = _compute(batch, name)
    value = batch.specials[name]
    if isinstance(value, np.ndarray):
        return value[lanes[0]] if len(lanes) == 1 else value.take(lanes)
    return value


def _clock(batch: Batch, time: int, name: str) -> Value:
    """Clocks count the emulator's cycles: one an instruction of the group (see ``trace``)."""
    machine = batch.machine
    machine.polls += 1
    cycles = time
    if name.startswith("globaltimer"):
        cycles = machine.clock = max(machine.clock + 1, time)
    if name in ("clock64", "globaltimer"):
        return np.uint64(cycles)
    return np.uint32((cycles >> 32 if name.endswith("hi") else cycles) & 0xFFFFFFFF)


def _compute(batch: Batch, name: str) -> Value:
    machine = batch.machine
    threads = batch.threads
    linear = np.arange(threads)
    base, _, axis = name.partition(".")
    where = "xyz".find(axis)
    count = batch.count
    block, grid, cluster = machine.block, machine.grid, machine.cluster
    if base == "tid":
        values = (linear % block[0], linear // block[0] % block[1],
                  linear // (block[0] * block[1]))[where]  # fmt: skip
        return _each_thread(values, count, block[where])
    if base == "ntid":
        return np.uint32(block[where])
    if base == "nctaid":
        return np.uint32(grid[where])
    if base in ("ctaid", "clusterid", "cluster_ctaid"):
        index = block_index(batch.blocks, grid)[where]
        if base == "clusterid":
            index = index // cluster[where]
        elif base == "cluster_ctaid":
            index = index % cluster[where]
        return _each_block(index, threads)
    if base == "nclusterid":
        return np.uint32(grid[where] // cluster[where])
    if base == "cluster_nctaid":
        return np.uint32(cluster[where])
    if base == "cluster_ctarank":
        x, y, z = block_index(batch.blocks, grid)
        rank = x % cluster[0] + cluster[0] * (y % cluster[1] + cluster[1] * (z % cluster[2]))
        return _each_block(rank, threads)
    if base == "cluster_nctarank":
        return np.uint32(cluster[0] * cluster[1] * cluster[2])
    if base == "is_explicit_cluster":
        return np.bool_(machine.explicit_cluster)
    lane = linear % 32
    if base == "laneid":
        return _each_thread(lane, count, 32)
    if base == "warpid":
        return _each_thread(linear // 32, count, 32)
    if base == "nwarpid":
        return np.uint32(limits(90).warps)
    if base.startswith("lanemask"):
        one = np.uint64(1) << lane.astype(np.uint64)
        everything = np.uint64(0xFFFFFFFF)
        mask = {
            "eq": one, "lt": one - np.uint64(1), "le": 2 * one - np.uint64(1),
            "gt": everything & ~(2 * one - np.uint64(1)), "ge": everything & ~(one - np.uint64(1)),
        }[base[9:]]  # fmt: skip
        return _each_thread(mask, count, 32)
    if base == "smid":
        return _each_block(batch.blocks % MULTIPROCESSORS, threads)
    sizes = {
        "nsmid": MULTIPROCESSORS, "dynamic_smem_size": machine.dynamic_shared,
        "total_smem_size": machine.shared_size, "aggr_smem_size": machine.shared_size,
    }  # fmt: skip
    if base.startswith("envreg"):  # 1 and 2 hold the grid workspace of a cooperative launch
        workspace = machine.workspace
        return np.uint32(
            {"envreg1": workspace >> 32, "envreg2": workspace & 0xFFFFFFFF}.get(base, 0)
        )
    if base.startswith("reserved"):
        start = machine.reserved
        offset = {"begin": 0, "0": 0, "1": 512}.get(base[21:], 1024)
        return np.uint32(start + offset)
    if base == "gridid":
        return np.uint64(1)
    return np.uint32(sizes[base])


def block_index(blocks: Any, grid: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """``%ctaid`` from the linear number of a block."""
    return blocks % grid[0], blocks // grid[0] % grid[1], blocks // (grid[0] * grid[1])


def _each_thread(values: Any, blocks: int, extent: int) -> Value:
    if extent == 1:
        return np.uint32(0)
    return np.tile(values.astype(np.uint32), blocks)


def _each_block(values: Any, threads: int) -> Value:
    if len(values) == 1:
        return np.uint32(values[0])
    return np.repeat(values.astype(np.uint32), threads)
