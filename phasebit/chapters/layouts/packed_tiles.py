"""``kernels/layouts/packing.cuh`` on the emulator: the sectors that A costs, in place and packed.

A batch of products C = A · B in f32. Element (m, k) of A number b lies ``m · sm + k · sk + b · sb``
floats from the first. A product reads it there, or from tiles that a copy has packed before.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from phasebit.emulator import Access, Run
from phasebit.launching.launch import Module
from phasebit.launching.launch import compile as compile_cuda

TILE, DEPTH = 128, 16
"""Rows and columns of C that a block makes; depth of its tiles."""

_SECTOR = 32
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"
_FIELDS = [
    *((name, "u8") for name in "ABC"),
    *((name, "i4") for name in ("M", "N", "K", "batch")),
    *((name, "u8") for name in ("sm", "sk", "sb")),
]
_SOURCE = """
#include "layouts/packing.cuh"
template __global__ void product<true>(Batch, const float*);
template __global__ void product<false>(Batch, const float*);
template __global__ void pack<1>(Batch, float*);
template __global__ void pack<2>(Batch, float*);
template __global__ void pack<4>(Batch, float*);
template __global__ void pack<8>(Batch, float*);
"""


@dataclass(frozen=True)
class Sectors:
    """Sectors of 32 bytes that moved because of A."""

    strided: int  # the product reads A where it lies
    copy: int  # the copy reads A and writes tiles
    packed: int  # the product reads the tiles
    right: bool  # both products are exact
    strided_loads: int  # instructions of warps that load A where it lies
    packed_loads: int  # and from tiles
    strided_conflicts: int  # bank conflicts of stores into the tiles in shared memory
    packed_conflicts: int

    @property
    def with_copy(self) -> int:
        """The copy, and the product that reads what it wrote."""
        return self.copy + self.packed


def count(
    shape: tuple[int, int, int], strides: tuple[int, int, int], batch: int = 1, seed: int = 10
) -> Sectors:
    """Run both ways on whole numbers.

    ``shape``: M, N, K; ``strides``: sm, sk, sb in floats. Raises ``ValueError`` for strides that
    give two elements one place.
    """
    m, n, k = shape
    sm, sk, sb = strides
    index = (
        np.arange(batch)[:, None, None] * sb
        + np.arange(m)[:, None] * sm
        + np.arange(k) * sk
    )  # fmt: skip
    if len(np.unique(index)) != index.size:
        raise ValueError(f"with the strides {strides} two elements of A have one place")
    draw, module = np.random.default_rng(seed), _module()
    sizes = (batch, m, k), (batch, k, n)
    values = [draw.integers(-4, 5, size).astype(np.float32) for size in sizes]
    scattered = np.full(index.max() + 1, np.nan, np.float32)
    scattered[index] = values[0]
    across, down, deep = -(-n // TILE), -(-m // TILE), -(-k // DEPTH)
    tiles = batch * down * deep * TILE * DEPTH
    room = {"A": scattered, "B": values[1], "C": np.full((batch, m, n), np.nan, np.float32),
            "tiles": np.full(tiles, np.nan, np.float32)}  # fmt: skip
    at = {}
    for name, data in room.items():
        at[name] = module.memory.allocate(data.nbytes, name)
        module.memory.bytes(at[name])[:] = data.view(np.uint8).ravel()
    addresses = (at[name].address for name in "ABC")
    problem = np.array((*addresses, m, n, k, batch, sm, sk, sb), _FIELDS)[()]
    together = batch if sb == 1 else 1
    each = next(size for size in (1, 2, 4, 8) if size >= min(together, 8))  # as launch_pack does
    rows = TILE if each == 1 else 256 // each
    grid = (deep, down * (TILE // rows), -(-batch // each))
    kernels = {name: next(full for full in module.kernels if name in full)
               for name in (f"packILi{each}E", "productILb0", "productILb1")}  # fmt: skip

    def run(name: str, blocks: tuple[int, int, int], tiles: int) -> Run:
        module.memory.bytes(at["C"])[:] = 0xFF  # NaN
        return module[kernels[name]].launch(blocks, 256, [problem, tiles], accesses=True)

    exact = values[0] @ values[1]

    def is_right() -> bool:
        got = module.memory.bytes(at["C"]).view(np.float32).reshape(batch, m, n)
        return bool(np.array_equal(got, exact))

    product = (across, down, batch)
    in_place = run("productILb0", product, 0)
    right = is_right()
    copying = run(f"packILi{each}E", grid, at["tiles"].address)
    copy = _sectors(copying, "A") + _sectors(copying, "tiles")
    from_tiles = run("productILb1", product, at["tiles"].address)
    right = right and is_right()
    for allocation in at.values():
        module.memory.free(allocation)
    return Sectors(
        _sectors(in_place, "A"), copy, _sectors(from_tiles, "tiles"), right,
        len(_accesses(in_place, "A")), len(_accesses(from_tiles, "tiles")),
        in_place.counters[_CONFLICTS], from_tiles.counters[_CONFLICTS],
    )  # fmt: skip


def _accesses(run: Run, array: str) -> list[Access]:
    return [each for each in run.accesses if each.space == "global" and each.array == array]


def _sectors(run: Run, array: str) -> int:
    """Sectors that the accesses of one array touch, each request by itself."""
    return sum(
        len({int(first) // _SECTOR + i
             for first in access.addresses[access.lanes]
             for i in range(-(-access.size // _SECTOR))})
        for access in _accesses(run, array)
    )  # fmt: skip


@functools.cache
def _module() -> Module:
    return compile_cuda(_SOURCE, "sm_75")
