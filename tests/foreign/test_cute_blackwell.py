# mypy: ignore-errors
"""CuTe DSL's code for Blackwell: tcgen05 products of all kinds, in the emulator.

CuTe DSL is not among the book's requirements: without it these tests are skipped.  Install it
with ``pip install nvidia-cutlass-dsl``; it needs no GPU.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cutlass

from tests.foreign.cute_blackwell import THREADS, Gemm
from tests.foreign.cute_tools import Notes, compiled, fake, launch, shown, stored, tensor_map

F16, BF16, F32 = cutlass.Float16, cutlass.BFloat16, cutlass.Float32
E4M3, E5M2, S8, S32 = cutlass.Float8E4M3FN, cutlass.Float8E5M2, cutlass.Int8, cutlass.Int32
pytestmark = pytest.mark.foreign

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]
ROWS = {"k": "row", "mn": "column"}

CASES = {
    "f16": ((256, 256, 192), F16, F32, (128, 128, 64), {}),
    "bf16": ((256, 256, 192), BF16, BF16, (128, 64, 64), {}),
    "tf32": ((128, 128, 96), F32, F32, (128, 128, 32), {}),
    "e4m3": ((128, 256, 384), E4M3, F32, (128, 256, 128), {}),
    "e5m2 by e4m3": ((128, 128, 384), E5M2, F16, (128, 128, 128), {"kind_b": E4M3}),
    "s8": ((128, 128, 384), S8, S32, (128, 128, 128), {}),
    "f16 mn-major": ((256, 128, 128), F16, F32, (128, 128, 64), {"a_major": "mn", "b_major": "mn"}),
    "tf32 mn-major": ((128, 128, 96), F32, F32, (128, 128, 32), {"a_major": "mn", "b_major": "mn"}),
    "e4m3 mn-major": ((128, 128, 256), E4M3, F32, (128, 128, 128), {"a_major": "mn"}),
    "64 rows": ((128, 128, 128), F16, F32, (64, 128, 64), {}),
    "32 columns": ((128, 96, 128), F16, F32, (128, 32, 64), {}),
    "deep stages": ((128, 128, 256), F16, F32, (128, 128, 128), {"stages": 2}),
    "64-byte swizzle": ((128, 128, 96), F16, F32, (128, 128, 32), {"stages": 4}),
    "32-byte swizzle": ((128, 128, 96), F16, F32, (128, 128, 16), {"stages": 4}),
}


@functools.cache
def built(name):
    shape, kind, out, tile, more = CASES[name]
    gemm = Gemm(kind, out, tile, **more)
    gemm.notes = Notes()
    m, n, k = shape
    tensors = (fake(kind, (m, k), ROWS[gemm.majors[0]]), fake(gemm.kind_b, (n, k),
               ROWS[gemm.majors[1]]), fake(out, (m, n)))  # fmt: skip
    return gemm, compiled(gemm, tensors, "sm_100a")


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_products(name, how):
    (m, n, k), kind, out, tile, _ = CASES[name]
    gemm, kernel = built(name)
    random = np.random.default_rng()
    a, b = random.integers(-4, 5, (m, k)), random.integers(-4, 5, (n, k))
    majors = [ROWS[major] for major in gemm.majors]
    bits = [
        stored(of, values if major == "row" else np.ascontiguousarray(values.T))
        for of, values, major in zip((kind, gemm.kind_b), (a, b), majors, strict=True)
    ]
    c = stored(out, np.full((m, n), 77))
    maps = [
        tensor_map(*one)
        for one in zip(gemm.notes.boxes, bits, ((m, k), (n, k)), majors, strict=True)
    ]
    grid = (m // tile[0], n // tile[1])
    launch(kernel, grid, THREADS, [*maps, c], how, shared=gemm.notes.shared)
    assert np.array_equal(shown(out, c), shown(out, stored(out, a @ b.T)))
