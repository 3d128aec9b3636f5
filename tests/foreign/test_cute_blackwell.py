# mypy: ignore-errors
"""CuTe DSL's code for Blackwell: tcgen05 products of all kinds, in the emulator.

CuTe DSL is not among the book's requirements: without it these tests are skipped.  Install it
with ``pip install nvidia-cutlass-dsl``; it needs no GPU.
"""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cutlass
from cutlass.cute.nvgpu import tcgen05 as LOADS

from tests.foreign.cute_blackwell import Gemm
from tests.foreign.cute_staying import Staying
from tests.foreign.cute_tools import Product

pytestmark = pytest.mark.foreign

F16, BF16, F32 = cutlass.Float16, cutlass.BFloat16, cutlass.Float32
E4M3, E5M2, S8, S32 = cutlass.Float8E4M3FN, cutlass.Float8E5M2, cutlass.Int8, cutlass.Int32
SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
X4, X8, X16 = LOADS.Repetition.x4, LOADS.Repetition.x8, LOADS.Repetition.x16
MN = {"a_major": "mn", "b_major": "mn"}
PAIR = {"pair": True, "cluster": (2, 1)}

CASES = {
    "f16": ((256, 256, 192), F16, F32, (128, 128, 64), {}),
    "bf16": ((256, 256, 192), BF16, BF16, (128, 64, 64), {}),
    "tf32": ((128, 128, 96), F32, F32, (128, 128, 32), {}),
    "e4m3": ((128, 256, 384), E4M3, F32, (128, 256, 128), {}),
    "e5m2 by e4m3": ((128, 128, 384), E5M2, F16, (128, 128, 128), {"kind_b": E4M3}),
    "s8": ((128, 128, 384), S8, S32, (128, 128, 128), {}),
    "f16 mn-major": ((256, 128, 128), F16, F32, (128, 128, 64), MN),
    "tf32 mn-major": ((128, 128, 96), F32, F32, (128, 128, 32), MN),
    "e4m3 mn-major": ((128, 128, 256), E4M3, F32, (128, 128, 128), {"a_major": "mn"}),
    "64 rows": ((128, 128, 128), F16, F32, (64, 128, 64), {}),
    "32 columns": ((128, 96, 128), F16, F32, (128, 32, 64), {}),
    "deep stages": ((128, 128, 256), F16, F32, (128, 128, 128), {"stages": 2}),
    "64-byte swizzle": ((128, 128, 96), F16, F32, (128, 128, 32), {"stages": 4}),
    "32-byte swizzle": ((128, 128, 96), F16, F32, (128, 128, 16), {"stages": 4}),
    "16x64b": ((128, 128, 128), F16, F32, (128, 128, 64), {"load": LOADS.Ld16x64bOp(X16)}),
    "16x128b": ((128, 128, 128), F16, F32, (128, 128, 64), {"load": LOADS.Ld16x128bOp(X8)}),
    "16x256b": ((128, 128, 128), F16, F32, (128, 128, 64), {"load": LOADS.Ld16x256bOp(X4)}),
    "32x32b.x4": ((128, 128, 128), F16, F32, (128, 128, 64), {"load": LOADS.Ld32x32bOp(X4)}),
    "cluster 2 x 1": ((256, 256, 128), F16, F32, (128, 128, 64), {"cluster": (2, 1)}),
    "cluster 1 x 2": ((256, 256, 128), F16, F32, (128, 128, 64), {"cluster": (1, 2)}),
    "cluster 2 x 2": ((256, 256, 320), F16, F32, (128, 128, 64), {"cluster": (2, 2)}),
    "pair": ((256, 256, 128), F16, F32, (256, 128, 64), PAIR),
    "pair of 128 rows": ((256, 256, 128), BF16, F32, (128, 128, 64), PAIR),
    "pair s8": ((256, 128, 256), S8, S32, (256, 128, 128), PAIR),
    "pair mn-major": ((256, 128, 128), F16, F32, (256, 128, 64), PAIR | MN),
    "two pairs": ((512, 256, 128), F16, F32, (256, 128, 64), PAIR | {"cluster": (4, 1)}),
    "pairs 2 x 2": ((512, 256, 320), F16, F32, (256, 128, 64), PAIR | {"cluster": (2, 2)}),
}


@functools.cache
def built(name):
    shape, kind, out, tile, more = CASES[name]
    return Product(Gemm(kind, out, tile, **more), shape, "sm_100a")


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_products(name, how):
    built(name).check(how)


@functools.cache
def staying():
    return Product(Staying(BF16, F32, (128, 64, 64)), (384, 256, 192), "sm_100a")


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
def test_blocks_that_stay(how):
    staying().check(how)
