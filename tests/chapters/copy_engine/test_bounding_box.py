"""Where a box's pieces lie: as the emulator's copies leave them, and as the PTX ISA draws them."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import phasebit as pb
from phasebit.chapters.copy_engine import bounding_box
from phasebit.emulator import TensorMap, swizzle

KERNEL = """
#include "ptx_sm90.cuh"
extern "C" __global__ void fetch(const __grid_constant__ CUtensorMap map, int x, int y,
                                 unsigned short* out, int bytes, int room) {
    extern __shared__ __align__(1024) unsigned short tile[];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
    }
    for (int i = threadIdx.x; i < room; i += blockDim.x) tile[i] = 0;
    ptx::fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, bytes);
        ptx::cp_async_bulk_tensor_load(tile, map, x, y, &full);
    }
    __syncthreads();
    ptx::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < room; i += blockDim.x) out[i] = tile[i];
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("mode", [mode for mode in swizzle.MODES if "FLIP" not in mode])
def test_as_the_emulator_copies(mode: str) -> None:
    draw = random.Random(mode)
    kernel = pb.compile(KERNEL, "sm_90a")["fetch"]
    data = np.arange(1, 41 * 96 + 1, dtype=np.uint16).reshape(41, 96)
    for _ in range(6):
        span = swizzle.MODES[mode].span if mode != "none" else 128
        box = (8 * draw.randint(1, span // 16), draw.choice([1, 5, 8, 16]))
        at = (8 * draw.randint(-2, 11), draw.randint(-3, 40))
        tensor = TensorMap(data, box, swizzle=mode, dims=(93, 41), strides=(192,))
        room = 16 * 128 // 2
        out = np.zeros(room, np.uint16)
        kernel.launch(1, 32, [tensor, *at, out, tensor.nbytes, room], shared=2 * room)
        for piece in bounding_box.pieces(tensor, at):
            got = out[piece.place // 2 : piece.place // 2 + 8]
            columns = at[0] + piece.number * 8 + np.arange(8)
            exists = (columns >= 0) & (columns < 93) & (0 <= at[1] + piece.row < 41)
            right = np.where(exists, (at[1] + piece.row) * 96 + columns + 1, 0)
            assert np.array_equal(got, right), (box, at, piece)
            assert piece.inside == 2 * exists.sum()


def test_a_row_of_the_128B_swizzle_is_exchanged_by_its_number() -> None:
    tensor = TensorMap(np.zeros((8, 64), np.float16), (64, 8), swizzle="128B")
    for piece in bounding_box.pieces(tensor):
        assert piece.place == 128 * piece.row + 16 * (piece.number ^ piece.row)
    columns = {number: set() for number in range(8)}  # type: dict[int, set[int]]
    for piece in bounding_box.pieces(tensor):
        columns[piece.number].add(piece.group)
    assert all(len(groups) == 8 for groups in columns.values())


def test_the_picture_names_every_piece() -> None:
    tensor = TensorMap(np.zeros((20, 40), np.float16), (64, 8), swizzle="128B")
    words = str(bounding_box.picture(tensor, at=(0, 16)))
    assert "swizzle 128B" in words and "at (0, 16)" in words
    assert set(re.findall(r"\d\.\d", words)) == {f"{r}.{p}" for r in range(4) for p in range(5)}
    assert "outside: filled" in bounding_box.picture(tensor, at=(0, 16)).svg
    odd = TensorMap(np.zeros((20, 40), np.float16), (64, 8), dims=(36, 20), strides=(80,))
    assert "2.4 +0" in str(bounding_box.picture(odd))
    narrow = TensorMap(np.zeros((20, 40), np.float16), (16, 8), swizzle="128B")
    assert len(str(bounding_box.picture(narrow)).splitlines()) == 1 + 8  # a line of 128 bytes each


def test_what_cannot_be_drawn_is_refused() -> None:
    tensor = TensorMap(np.zeros((8, 64), np.float16), (64, 8))
    with pytest.raises(ValueError, match="give 2"):
        bounding_box.pieces(tensor, at=(1, 2, 3))
    with pytest.raises(ValueError, match="1 coordinates: give 2"):
        bounding_box.pieces(tensor, at=8)
    with pytest.raises(ValueError, match="multiple of 16"):
        bounding_box.pieces(tensor, at=(4, 0))
    packed = TensorMap(0, (128, 8), data_type="b4x16_p64", dims=(256, 8), strides=(128,))
    with pytest.raises(ValueError, match="whole bytes"):
        bounding_box.pieces(packed)
