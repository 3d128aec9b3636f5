# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton's code for Hopper: pipelines of wgmma, of every type, with A from registers too.

Written with Triton's documented API and compiled without a GPU.  Triton is not among the book's
requirements: without it these tests are skipped.  Install it with ``pip install triton``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

triton: Any = pytest.importorskip("triton", reason="triton is not installed: NOT asked")
tl: Any = pytest.importorskip("triton.language")

from phasebit.emulator import formats  # noqa: E402
from tests.foreign.triton_tools import Built  # noqa: E402

pytestmark = pytest.mark.foreign

HOPPER = 90
SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
Array = np.ndarray[Any, np.dtype[Any]]


@triton.jit
def product(a, b, c, K, sam, scm, sbk, sbn,
            BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WIDEN: tl.constexpr,
            WHOLE: tl.constexpr):  # fmt: skip
    """A tile of C = A·B; B's strides say which way it lies.  WIDEN: A is bytes, made bf16."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a += rows[:, None] * sam + k[None, :]
    b += k[:, None] * sbk + columns[None, :] * sbn
    total = tl.zeros((BM, BN), tl.int32 if WHOLE else tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(a)
        if WIDEN:
            x = x.to(tl.bfloat16)
        if WHOLE:
            total += tl.dot(x, tl.load(b), out_dtype=tl.int32)
        else:
            total = tl.dot(x, tl.load(b), total)
        a += BK
        b += BK * sbk
    tl.store(c + rows[:, None] * scm + columns[None, :], total)


@triton.jit
def attention(q, k, v, o, n,
              BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):  # fmt: skip
    """Softmax(Q·Kᵀ)·V in powers of two: the second multiplication takes A from registers."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns, depth = tl.arange(0, BN), tl.arange(0, D)
    queries = tl.load(q + rows[:, None] * D + depth[None, :])
    most = tl.zeros((BM,), tl.float32) - float("inf")
    weights = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        keys = tl.load(k + (start + columns)[None, :] * D + depth[:, None])
        scores = tl.dot(queries, keys)
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.math.exp2(scores - now[:, None])
        less = tl.math.exp2(most - now)
        weights = weights * less + tl.sum(p, 1)
        values = tl.load(v + (start + columns)[:, None] * D + depth[None, :])
        total = tl.dot(p.to(tl.float16), values, total * less[:, None])
        most = now
    tl.store(o + rows[:, None] * D + depth[None, :], total / weights[:, None])


FORMS = {
    "f16": ("*fp16", "*fp16", "f16", "f16", 64),
    "bf16": ("*bf16", "*bf16", "bf16", "bf16", 64),
    "tf32": ("*fp32", "*fp32", "f32", "f32", 32),
    "e4m3": ("*fp8e4nv", "*fp8e4nv", "e4m3", "e4m3", 128),
    "e5m2": ("*fp8e5", "*fp8e5", "e5m2", "e5m2", 128),
    "s8": ("*i8", "*i8", "s8", "s8", 128),
    "A from registers": ("*i8", "*bf16", "s8", "bf16", 64),
}  # fmt: skip


def stored(kind: str, values: Array) -> Array:
    if kind == "s8":
        return values.astype(np.int8)
    if kind == "f32":
        return values.astype(np.float32)
    return np.asarray(formats.encode(kind, values.astype(np.float64)))


@pytest.mark.parametrize("how", SCHEDULES, ids=lambda s: s[0])
@pytest.mark.parametrize(("warps", "side"), [(4, 64), (8, 128)])
@pytest.mark.parametrize("name", FORMS)
def test_products(name: str, warps: int, side: int, how: tuple[str, int]) -> None:
    of_a, of_b, kind_a, kind_b, depth = FORMS[name]
    of_c = "*i32" if name == "s8" else "*fp32"
    kernel = Built(
        product,
        {"a": of_a, "b": of_b, "c": of_c, "K": "i32", "sam": "i32", "scm": "i32"},
        {"sbk": 64 if name == "f16" else 1, "sbn": 1 if name == "f16" else 256,
         "BM": side, "BN": 64, "BK": depth, "WIDEN": int(name == "A from registers"),
         "WHOLE": int(name == "s8")}, HOPPER, warps=warps,
    )  # fmt: skip
    assert "wgmma.mma_async" in kernel.kernel.ptx
    random = np.random.default_rng()
    m, k = 2 * side, 256
    a, b = random.integers(-4, 5, (m, k)), random.integers(-4, 5, (k, 64))
    c = np.full((m, 64), -1, np.int32 if name == "s8" else np.float32)
    given = stored(kind_b, b if name == "f16" else np.ascontiguousarray(b.T))
    kernel.launch((2, 1), [stored(kind_a, a), given, c, k, k, 64], how)
    assert np.array_equal(c, a @ b)


@pytest.mark.parametrize("how", SCHEDULES, ids=lambda s: s[0])
@pytest.mark.parametrize(("warps", "side"), [(4, 64), (8, 128)])
def test_attention(warps: int, side: int, how: tuple[str, int]) -> None:
    kernel = Built(
        attention,
        {"q": "*fp16", "k": "*fp16", "v": "*fp16", "o": "*fp32", "n": "i32"},
        {"BM": side, "BN": 64, "D": 64}, HOPPER, warps=warps,
    )  # fmt: skip
    random = np.random.default_rng(1)
    q, k, v = (random.standard_normal((256, 64)).astype(np.float16) for _ in range(3))
    out = np.full((256, 64), np.nan, np.float32)
    kernel.launch((256 // side,), [q, k, v, out, 256], how)
    scores = q.astype(np.float64) @ k.T.astype(np.float64)
    p = np.exp2(scores - scores.max(axis=1, keepdims=True))
    wanted = p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64)
    assert np.abs(out - wanted).max() < 5e-3
