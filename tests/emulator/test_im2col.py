"""im2col copies: the pixels under one place of a filter, against an oracle with plain loops.

PTX ISA 5.5.4 (im2col mode), 9.7.9.27.1.2.  Compared with an H200: ``proof/boxes.py``.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

import phasebit as pb
from phasebit.emulator.copy_engine.tensormap import TensorMap, described
from phasebit.emulator.errors import Fault, LaunchError
from tests.emulator import saved

SOURCE = r"""
#include "ptx_sm90.cuh"
extern "C" __global__ void k(const __grid_constant__ CUtensorMap map, int c, int w, int h, int n,
                             unsigned short dw, unsigned short dh, int bytes, int* out) {
    extern __shared__ __align__(1024) int tile[];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::mbarrier_arrive_expect_tx(&full, bytes);
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};"
                     :: "r"(ptx::shared_address(tile)), "l"(&map), "r"(c), "r"(w), "r"(h), "r"(n),
                        "r"(ptx::shared_address(&full)), "h"(dw), "h"(dh) : "memory");
    }
    __syncwarp();
    ptx::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < bytes / 4; i += 32) out[i] = tile[i];
}
"""

IMAGES = np.arange(3 * 7 * 9 * 16, dtype=np.int32).reshape(3, 7, 9, 16)


def pixels(lower: tuple[int, int], upper: tuple[int, int], at: tuple[int, int, int],
           count: int) -> list[tuple[int, int, int]]:  # fmt: skip
    """(n, h, w) of the pixels of the window, from ``at`` (w, h, n) on."""
    _, height, width, _ = IMAGES.shape
    window = itertools.product(
        range(20), range(lower[1], height + upper[1]), range(lower[0], width + upper[0])
    )
    first = (at[2], at[1], at[0])
    return list(itertools.islice((p for p in window if p >= first), count))


class TestLoad:
    @pytest.mark.parametrize("offset", list(itertools.product(range(3), range(3))))
    @pytest.mark.parametrize("at", [(-1, -1, 0), (3, 2, 0), (7, 4, 1), (0, 5, 2)])
    def test_a_convolution_with_padding(
        self, offset: tuple[int, int], at: tuple[int, int, int]
    ) -> None:
        """A filter of 3 by 3 with padding 1: corners -1 and -1."""
        made = pb.TensorMap.im2col(IMAGES, 8, 64, (-1, -1), (-1, -1))
        out = np.full((64, 8), -1, np.int32)
        k = saved.module("im2col")["k"]
        run = k.launch(
            1, 32, [made, 4, *at, *offset, made.nbytes, out], shared=made.nbytes + 1024
        )
        wanted = np.zeros((64, 8), np.int32)
        for i, (n, h, w) in enumerate(pixels((-1, -1), (-1, -1), at, 64)):
            y, x = h + offset[1], w + offset[0]
            if n < 3 and 0 <= y < 7 and 0 <= x < 9:
                wanted[i] = IMAGES[n, y, x, 4:12]
        assert np.array_equal(out, wanted)
        assert not run.findings

    def test_the_map_must_be_one_for_im2col(self) -> None:
        made = pb.TensorMap(IMAGES, (8, 4, 4, 1))
        with pytest.raises(Fault, match="made for tile, the instruction is im2col"):
            saved.module("im2col")["k"].launch(
                1, 32, [made, 0, 0, 0, 0, 0, 0, 512, np.zeros(128, np.int32)], shared=2048
            )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((IMAGES[0, 0], 8, 8, (), ()), "3 to 5 dimensions"),
        ((IMAGES, 8, 8, (0,), (0,)), "lower corner needs 2 numbers"),
        ((IMAGES, 8, 8, (0, 0), (0, 200)), "upper corner needs 2 numbers from -128 to 127"),
        ((IMAGES, 8, 8, (0, 0), (-9, 0)), "window between the corners is empty"),
        ((IMAGES, 8, 1025, (0, 0), (0, 0)), "allowed are 1 to 1024"),
    ],
)
def test_the_drivers_rules(arguments: Any, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        pb.TensorMap.im2col(*arguments)


def test_the_drivers_numbers_make_the_same_map() -> None:
    """``cuTensorMapEncodeIm2col``, as the stand-in runtime passes it on."""
    image = np.zeros((2, 9, 10, 64), np.float16)
    wanted = TensorMap.im2col(image, 64, 32, (-1, -2), (-1, 1), swizzle="128B").at(4096)
    minus = [2**64 - 1, 2**64 - 2, 0]
    words = [
        6, 4, 4096, 64, 10, 9, 2, 0, *wanted.strides, 0, 64, 32, 0, 0, 0, 1, 1, 1, 1, 0,
        0, 3, 0, 0, *minus, 2**64 - 1, 1, 0,
    ]  # fmt: skip
    made = described(words)
    assert dataclasses.replace(made, l2_promotion=wanted.l2_promotion) == wanted
