"""Four rows anywhere in a tensor, fetched and stored as one box, against plain indexing.

PTX ISA 5.5.3.4 and 9.7.9.27.1.2 (.tile::gather4, .tile::scatter4).  No GPU that has them was at
hand; what they share with other boxes, swizzle and edges, is compared with an H200.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator.errors import Fault
from phasebit.emulator.numbers.swizzle import MODES
from tests.emulator import saved

SOURCE = r"""
#include "ptx_sm90.cuh"
using Map = CUtensorMap;
struct Rows { int of[4]; };
extern "C" __global__ void gather(const __grid_constant__ Map map, int column, Rows rows,
                                  int bytes, unsigned* out) {
    extern __shared__ __align__(1024) unsigned tile[];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_arrive_expect_tx(&full, bytes);
        asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global.tile::gather4"
                     " [%0, {%1, %2, %3, %4, %5}];" :: "l"(&map), "r"(column), "r"(rows.of[0]),
                     "r"(rows.of[1]), "r"(rows.of[2]), "r"(rows.of[3]) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7];"
                     :: "r"(ptx::shared_address(tile)), "l"(&map), "r"(column), "r"(rows.of[0]),
                        "r"(rows.of[1]), "r"(rows.of[2]), "r"(rows.of[3]),
                        "r"(ptx::shared_address(&full)) : "memory");
    }
    __syncwarp();
    ptx::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < bytes / 4; i += 32) out[i] = tile[i];
}
extern "C" __global__ void scatter(const __grid_constant__ Map map, int column, Rows rows,
                                   int bytes, const unsigned* in) {
    extern __shared__ __align__(1024) unsigned tile[];
    for (int i = threadIdx.x; i < bytes / 4; i += 32) tile[i] = in[i];
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group"
                     " [%0, {%1, %2, %3, %4, %5}], [%6];" :: "l"(&map), "r"(column),
                     "r"(rows.of[0]), "r"(rows.of[1]), "r"(rows.of[2]), "r"(rows.of[3]),
                     "r"(ptx::shared_address(tile)) : "memory");
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read<0>();
    }
}
"""
SHAPE = (24, 40)
COLUMNS = 32


def launch(
    name: str, made: pb.TensorMap, column: int, rows: tuple[int, ...], tile: Any,
    schedule: str = "late", rank: int = 2,
) -> Any:  # fmt: skip
    text = saved.module("gather").ptx.replace("tensor.2d", f"tensor.{rank}d")
    kernel = pb.Module(text)[name]
    arguments = [made, column, np.array(rows, np.int32).tobytes(), tile.nbytes, tile]
    return kernel.launch(1, 32, arguments, shared=tile.nbytes + 1024, schedule=schedule)


def swizzled(tile: Any, mode: str) -> Any:
    """A tile's words as they lie in shared memory."""
    where = MODES[mode](np.arange(tile.size) * 4) // 4
    found = np.empty(tile.size, tile.dtype)
    found[where] = tile.ravel()
    return found


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("rows", [(3, 17, 3, 0), (-1, 5, 23, 24), (9, 8, 7, 6)])
@pytest.mark.parametrize("column", [0, 20])
def test_5_5_3_4_four_rows_make_one_box(
    column: int, rows: tuple[int, ...], swizzle: str
) -> None:
    data = np.arange(1, 1 + SHAPE[0] * SHAPE[1], dtype=np.uint32).reshape(SHAPE)
    made = pb.TensorMap(data, (COLUMNS, 1), swizzle=swizzle)
    tile = np.zeros(4 * COLUMNS, np.uint32)
    run = launch("gather", made, column, rows, tile)
    wide = np.pad(data, ((1, 1), (0, COLUMNS)))  # outside of the tensor there are zeros
    wanted = wide[[r + 1 for r in rows], column : column + COLUMNS]
    assert np.array_equal(tile, swizzled(wanted, swizzle))
    assert not run.findings


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_5_5_3_4_one_box_goes_to_four_rows(swizzle: str, schedule: str) -> None:
    data = np.zeros(SHAPE, np.uint32)
    made = pb.TensorMap(data, (COLUMNS, 1), swizzle=swizzle)
    box = np.arange(1, 1 + 4 * COLUMNS, dtype=np.uint32).reshape(4, COLUMNS)
    run = launch("scatter", made, 20, (7, 24, 0, 23), swizzled(box, swizzle), schedule)
    wanted = np.zeros(SHAPE, np.uint32)
    wanted[[7, 0, 23], 20:] = box[[0, 2, 3], :20]  # row 24 is outside, and columns from 40 on
    assert np.array_equal(data, wanted)
    assert not run.findings


@pytest.mark.parametrize(
    ("changes", "rows", "words"),
    [
        ({"box": (COLUMNS, 4)}, (0, 1, 2, 3), "the tensor map's box has 1 row, not 4"),
        ({"dims": (40, 24, 1), "strides": (160, 3840), "box": (COLUMNS, 1, 1)}, (0, 1, 2, 3),
         "has 3 dimensions, not 2"),
    ],
)  # fmt: skip
def test_5_5_3_4_what_the_tensor_map_must_be(
    changes: dict[str, Any], rows: tuple[int, ...], words: str
) -> None:
    data = np.zeros(SHAPE, np.uint32)
    made = pb.TensorMap(data, **{"box": (COLUMNS, 1), **changes})
    with pytest.raises(Fault, match=words):
        launch("gather", made, 0, rows, np.zeros(4 * COLUMNS, np.uint32))


def test_5_5_3_4_a_tensor_has_two_dimensions() -> None:
    """By hand: ptxas refuses it. Interleaved tensors have at least three."""
    shape: Any = {"dims": (40, 24, 1), "strides": (160, 3840), "box": (COLUMNS, 1, 1)}
    made = pb.TensorMap(np.zeros(SHAPE, np.uint32), **shape)
    with pytest.raises(Fault, match="takes a tensor of 2 dimensions, and this one has 3"):
        launch("gather", made, 0, (0, 1, 2, 3), np.zeros(4 * COLUMNS, np.uint32), rank=3)


def test_a_store_to_a_negative_row_is_a_fault() -> None:
    made = pb.TensorMap(np.zeros(SHAPE, np.uint32), (COLUMNS, 1))
    with pytest.raises(Fault, match="no coordinate may be negative"):
        launch("scatter", made, 0, (0, 1, -1, 2), np.zeros(4 * COLUMNS, np.uint32))
