# mypy: ignore-errors
"""CuTe DSL's code for Hopper: wgmma products of all kinds, in the emulator.

CuTe DSL is not among the book's requirements: without it these tests are skipped.  Install it
with ``pip install nvidia-cutlass-dsl``; it needs no GPU.
"""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cutlass

from tests.foreign.cute_hopper import Gemm
from tests.foreign.cute_tools import Product

pytestmark = pytest.mark.foreign

F16, BF16, F32 = cutlass.Float16, cutlass.BFloat16, cutlass.Float32
E4M3, E5M2, S8, S32 = cutlass.Float8E4M3FN, cutlass.Float8E5M2, cutlass.Int8, cutlass.Int32
SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
TWO, DIRECT = {"groups": (2, 1)}, {"store": "direct"}
MN = {"a_major": "mn", "b_major": "mn"}

CASES = {
    "f16": ((256, 256, 192), F16, F16, (128, 128, 64), TWO),
    "bf16": ((256, 256, 192), BF16, BF16, (64, 128, 64), {}),
    "256 columns": ((128, 256, 192), F16, F16, (128, 256, 64), TWO | {"stages": 2}),
    "groups side by side": ((128, 256, 192), F16, F16, (64, 256, 64), {"groups": (1, 2)}),
    "f32 out": ((128, 128, 192), F16, F32, (128, 128, 64), TWO),
    "f16 mn-major": ((128, 128, 192), F16, F16, (128, 128, 64), TWO | MN),
    "e4m3": ((128, 128, 384), E4M3, F16, (128, 128, 128), TWO),
    "e5m2": ((128, 128, 384), E5M2, F32, (64, 128, 128), {}),
    "s8": ((128, 128, 384), S8, S32, (64, 128, 128), DIRECT),
    "ragged": ((200, 152, 136), F16, F16, (128, 128, 64), TWO),
    "ragged, direct": ((200, 152, 136), F16, F32, (64, 64, 64), DIRECT),
    "64-byte swizzle": ((128, 128, 96), F16, F16, (64, 128, 32), {"stages": 4}),
    "cluster 2 x 1": ((256, 256, 192), F16, F16, (128, 128, 64), TWO | {"cluster": (2, 1)}),
    "cluster 1 x 2": ((256, 256, 192), F16, F16, (64, 64, 64), {"cluster": (1, 2)}),
    "cluster 2 x 2": ((256, 256, 192), BF16, F16, (64, 64, 64), {"cluster": (2, 2)}),
}


@functools.cache
def built(name):
    shape, kind, out, tile, more = CASES[name]
    return Product(Gemm(kind, out, tile, **more), shape, "sm_90a")


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_products(name, how):
    built(name).check(how)
