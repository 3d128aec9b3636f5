# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton's block-scaled products for Blackwell: ``tl.dot_scaled`` with 8- and 4-bit elements.

Triton is not among the book's requirements: without it these tests are skipped.  Install it with
``pip install triton``; it compiles without a GPU.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

triton: Any = pytest.importorskip("triton", reason="triton is not installed: NOT asked")
tl: Any = pytest.importorskip("triton.language")

from phasebit.emulator import formats  # noqa: E402
from tests.foreign.triton_tools import Built  # noqa: E402

pytestmark = pytest.mark.foreign

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
SIDE, DEPTH, TILE_K = 128, 256, 128


@triton.jit
def scaled(a, scale_a, b, scale_b, c, K, SIDE: tl.constexpr, BK: tl.constexpr, OF_A: tl.constexpr,
           OF_B: tl.constexpr, PACK_A: tl.constexpr, PACK_B: tl.constexpr,
           VECTOR: tl.constexpr):  # fmt: skip
    """C = A·Bᵀ; PACK elements lie in a byte, VECTOR of them along K share a scale."""
    side = tl.arange(0, SIDE)
    rows = tl.program_id(0) * SIDE + side
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for k in range(0, K, BK):
        in_a = k // PACK_A + tl.arange(0, BK // PACK_A)
        in_b = k // PACK_B + tl.arange(0, BK // PACK_B)
        scales = k // VECTOR + tl.arange(0, BK // VECTOR)
        x = tl.load(a + rows[:, None] * (K // PACK_A) + in_a[None, :])
        y = tl.load(b + side[None, :] * (K // PACK_B) + in_b[:, None])
        of_x = tl.load(scale_a + rows[:, None] * (K // VECTOR) + scales[None, :])
        of_y = tl.load(scale_b + side[:, None] * (K // VECTOR) + scales[None, :])
        total = tl.dot_scaled(x, of_x, OF_A, y, of_y, OF_B, total)
    tl.store(c + rows[:, None] * SIDE + side[None, :], total)


CASES = {
    "mxf8": ("e4m3", "e4m3", 32, "kind::mxf8f6f4"),
    "mxf8 of two kinds": ("e5m2", "e4m3", 32, "kind::mxf8f6f4"),
    "mxf8 by mxf4": ("e4m3", "e2m1", 32, "kind::mxf8f6f4"),
    "mxf4": ("e2m1", "e2m1", 32, "kind::mxf4."),
    "nvf4": ("e2m1", "e2m1", 16, "kind::mxf4nvf4"),
}
TYPES = {"e4m3": "*fp8e4nv", "e5m2": "*fp8e5", "e2m1": "*u8"}


@functools.cache
def built(name: str) -> Built:
    of_a, of_b, vector, word = CASES[name]
    scale = "*fp8e4nv" if vector == 16 else "*u8"
    made = Built(
        scaled,
        {"a": TYPES[of_a], "scale_a": scale, "b": TYPES[of_b], "scale_b": scale, "c": "*fp32",
         "K": "i32"},
        {"SIDE": SIDE, "BK": TILE_K, "OF_A": of_a, "OF_B": of_b, "PACK_A": 1 + (of_a == "e2m1"),
         "PACK_B": 1 + (of_b == "e2m1"), "VECTOR": vector}, 100,
    )  # fmt: skip
    assert word in made.kernel.ptx
    return made


def operand(kind: str, rows: int, vector: int) -> tuple[Any, Any, Any]:
    """Bits, the scales' bits, and the numbers that they stand for."""
    random = np.random.default_rng()
    values = random.choice([0, 0.5, 1, 1.5, 2, 3, -1, -2, -4, 6], (rows, DEPTH))
    bits = np.asarray(formats.encode(kind, values)).astype(np.uint8)
    if kind == "e2m1":
        bits = bits[:, ::2] | bits[:, 1::2] << 4
    if vector == 16:
        factors = random.choice([0.5, 1, 1.5, 2], (rows, DEPTH // vector))
        scales = np.asarray(formats.encode("e4m3", factors))
    else:
        scales = random.integers(125, 130, (rows, DEPTH // vector)).astype(np.uint8)
        factors = 2.0 ** (scales.astype(int) - 127)
    return bits, scales, values * np.repeat(factors, vector, axis=1)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_scaled_products(name: str, how: tuple[str, int]) -> None:
    of_a, of_b, vector, _ = CASES[name]
    a, scale_a, x = operand(of_a, 2 * SIDE, vector)
    b, scale_b, y = operand(of_b, SIDE, vector)
    c = np.full((2 * SIDE, SIDE), np.nan, np.float32)
    built(name).launch((2, 1), [a, scale_a, b, scale_b, c, DEPTH], how)
    assert np.array_equal(c, (x @ y.T).astype(np.float32))
