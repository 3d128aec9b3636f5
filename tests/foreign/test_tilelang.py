# mypy: ignore-errors
"""Kernels that TileLang makes for Hopper; `pip install tilelang`, it needs no GPU.

Its warp-specialised products, also ragged, sums by atomics, and attention by two chained products.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("tilelang", reason="tilelang is not installed: NOT asked")

from phasebit.emulator import formats
from tests.foreign import tile_kernels
from tests.foreign.tile_tools import Built

pytestmark = [pytest.mark.foreign, pytest.mark.nvcc]

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
BYTES = {"transposed": True}

PRODUCTS = {
    "f16": ((256, 256, 192), (128, 128, 64), {}),
    "ragged": ((200, 136, 208), (128, 128, 64), {}),
    "f32 out, two groups": ((256, 128, 192), (128, 128, 64), {"out": "float32", "threads": 256}),
    "e4m3": ((128, 128, 256), (128, 128, 128),
             BYTES | {"dtype": "float8_e4m3fn", "out": "float32"}),
    "s8": ((128, 128, 256), (128, 128, 128),
           BYTES | {"dtype": "int8", "out": "int32", "total": "int32"}),
}  # fmt: skip
ATTENTION = {
    "one group": (2, 128, 256, 64, 64, 64, {}),
    "causal, two groups": (1, 256, 256, 64, 128, 64, {"threads": 256, "causal": True}),
}


@functools.cache
def built(name):
    if name == "split":
        return Built(tile_kernels.split(128, 128, 256, (128, 128, 64), 2), "sm_90a")
    if name in PRODUCTS:
        shape, tile, more = PRODUCTS[name]
        return Built(tile_kernels.gemm(*shape, tile, **more), "sm_90a")
    *sizes, bm, bn, more = ATTENTION[name]
    return Built(tile_kernels.attention(*sizes, bm, bn, **more), "sm_90a")


def stored(kind, values):
    if kind == "int8":
        return values.astype(np.int8)
    name = "e4m3" if "e4m3" in kind else "f16"
    return np.asarray(formats.encode(name, values.astype(np.float64)))


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", [*PRODUCTS, "split"])
def test_products(name, how):
    (m, n, k), _, more = PRODUCTS.get(name, ((128, 128, 256), 0, {"out": "float32"}))
    random, kind = np.random.default_rng(), more.get("dtype", "float16")
    a, b = random.integers(-4, 5, (m, k)), random.integers(-4, 5, (k, n))
    given = np.ascontiguousarray(b.T) if "transposed" in more else b
    c = np.zeros((m, n), more.get("out", "float16"))
    built(name).launch({"A": stored(kind, a), "B": stored(kind, given), "C": c}, how)
    assert np.array_equal(c, (a @ b).astype(c.dtype))


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name, how):
    heads, rows, columns, dim, _, _, more = ATTENTION[name]
    random = np.random.default_rng()
    q, k, v = (random.standard_normal((heads, n, dim)).astype(np.float16)
               for n in (rows, columns, columns))  # fmt: skip
    out = np.zeros_like(q)
    built(name).launch({"Q": q, "K": k, "V": v, "O": out}, how)
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) / dim**0.5
    if more.get("causal"):
        s = np.where(np.arange(rows)[:, None] >= np.arange(columns), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v.astype(np.float64)
    assert np.abs(out - wanted).max() < 4e-3
