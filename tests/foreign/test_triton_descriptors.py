# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton's code for Hopper and Blackwell: tensor descriptors, roles, blocks that stay, attention.

Written with Triton's documented API and compiled without a GPU.  Triton is not among the book's
requirements: without it these tests are skipped.  Install it with ``pip install triton``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

triton: Any = pytest.importorskip("triton", reason="triton is not installed: NOT asked")
tl: Any = pytest.importorskip("triton.language")

from phasebit.emulator import formats  # noqa: E402
from tests.foreign.triton_tools import Built, Tiled  # noqa: E402

pytestmark = pytest.mark.foreign

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
Array = np.ndarray[Any, np.dtype[Any]]


@triton.jit
def ragged(a, b, c, M, N, K, sam, sbn, scm, BM: tl.constexpr, BN: tl.constexpr,
           BK: tl.constexpr, TOTAL: tl.constexpr):  # fmt: skip
    """A tile of C = A·Bᵀ through pointers, with masks at the edges."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    total = tl.zeros((BM, BN), TOTAL)
    for first in range(0, K, BK):
        inside = first + k < K
        x = tl.load(a + rows[:, None] * sam + (first + k)[None, :],
                    mask=(rows[:, None] < M) & inside[None, :], other=0.0)  # fmt: skip
        y = tl.load(b + (first + k)[:, None] + columns[None, :] * sbn,
                    mask=(columns[None, :] < N) & inside[:, None], other=0.0)  # fmt: skip
        total = tl.dot(x, y, total, out_dtype=TOTAL)
    where = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * scm + columns[None, :], total, mask=where)


@triton.jit
def boxes(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ROLES: tl.constexpr):
    """The same through tensor maps."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, tl.cdiv(K, BK), warp_specialize=ROLES):
        total = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, total)
    c.store([row, column], total.to(tl.float16))


@triton.jit
def staying(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
            BLOCKS: tl.constexpr, ROLES: tl.constexpr, FLAT: tl.constexpr,
            HALVES: tl.constexpr):  # fmt: skip
    """Each block takes one tile after the other; HALVES: it stores them in two boxes."""
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, BLOCKS, flatten=FLAT,
                         warp_specialize=ROLES):  # fmt: skip
        row, column = (tile // across) * BM, (tile % across) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            total = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, total)
        if HALVES:
            left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))
            c.store([row, column], left.to(tl.float16))
            c.store([row, column + BN // 2], right.to(tl.float16))
        else:
            c.store([row, column], total.to(tl.float16))


@triton.jit
def made_here(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
              BLOCKS: tl.constexpr, ROLES: tl.constexpr):  # fmt: skip
    """The kernel makes its tensor maps itself."""
    a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    c = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    across = tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(M, BM) * across, BLOCKS,
                         warp_specialize=ROLES):  # fmt: skip
        row, column = (tile // across) * BM, (tile % across) * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            total = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, total)
        c.store([row, column], total.to(tl.float16))


@triton.jit
def attention(q, k, v, o, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
              ROLES: tl.constexpr, CAUSAL: tl.constexpr):  # fmt: skip
    """Softmax(Q·Kᵀ)·V in powers of two; CAUSAL: each row sees those up to its own."""
    row = tl.program_id(0) * BM
    queries = q.load([row, 0])
    most = tl.full((BM,), -float("inf"), tl.float32)
    weights = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, D), tl.float32)
    for start in tl.range(0, row + BM if CAUSAL else n, BN, warp_specialize=ROLES):
        scores = tl.dot(queries, k.load([start, 0]).T)
        if CAUSAL:
            seen = (row + tl.arange(0, BM))[:, None] >= (start + tl.arange(0, BN))[None, :]
            scores = tl.where(seen, scores, -1.0e6)
        now = tl.maximum(most, tl.max(scores, 1))
        p = tl.math.exp2(scores - now[:, None])
        less = tl.math.exp2(most - now)
        weights = weights * less + tl.sum(p, 1)
        total = tl.dot(p.to(tl.float16), v.load([start, 0]), total * less[:, None])
        most = now
    o.store([row, 0], (total / weights[:, None]).to(tl.float16))


def integers(*shape: int) -> Array:
    return np.random.default_rng().integers(-4, 5, shape)


KINDS = {"fp16": "f16", "bf16": "bf16", "fp32": "", "fp8e4nv": "e4m3", "fp8e5": "e5m2", "i8": ""}
POINTERS = {
    **{kind: (kind, (208, 144, 176), (128, 64, 64), {}) for kind in KINDS},
    "fp8e4nv": ("fp8e4nv", (208, 144, 176), (128, 64, 128), {}),
    "fp8e5": ("fp8e5", (208, 144, 176), (128, 64, 128), {}),
    "i8": ("i8", (208, 144, 176), (128, 64, 128), {}),
    "8 warps": ("fp16", (208, 144, 176), (128, 128, 64), {"warps": 8}),
    "large": ("fp16", (256, 256, 192), (256, 128, 64), {"warps": 8}),
    "small": ("fp16", (112, 80, 96), (64, 32, 32), {}),
    "mma.sync": ("fp16", (48, 32, 96), (16, 16, 32), {}),
    "one stage": ("fp16", (208, 144, 176), (128, 64, 64), {"stages": 1}),
    "five stages": ("fp16", (128, 64, 512), (128, 64, 64), {"stages": 5}),
}  # fmt: skip


@functools.cache
def pointers(name: str, target: int) -> Built:
    kind, _, (bm, bn, bk), more = POINTERS[name]
    total = (tl.int32, "i32") if kind == "i8" else (tl.float32, "fp32")
    types = {"a": "*" + kind, "b": "*" + kind, "c": "*" + total[1]}
    types |= dict.fromkeys(("M", "N", "K", "sam", "sbn", "scm"), "i32")
    sizes = {"BM": bm, "BN": bn, "BK": bk, "TOTAL": total[0]}
    return Built(ragged, types, sizes, target, **more)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("target", [90, 100])
@pytest.mark.parametrize("name", POINTERS)
def test_pointers(name: str, target: int, how: tuple[str, int]) -> None:
    kind, (m, n, k), (bm, bn, _), _ = POINTERS[name]
    a, b = integers(m, k), integers(n, k)
    plain = {"i8": np.int8, "fp32": np.float32}
    given = [v.astype(plain[kind]) if kind in plain
             else formats.encode(KINDS[kind], v.astype(np.float64)) for v in (a, b)]  # fmt: skip
    c = np.full((m, n), -1, np.int32 if kind == "i8" else np.float32)
    grid = (-(-m // bm), -(-n // bn))
    pointers(name, target).launch(grid, [*given, c, m, n, k, k, k, n], how)
    assert np.array_equal(c, a @ b.T)


BOTH, NEW = (90, 100), (100,)
ROLES = {"ROLES": True}
BOXES: dict[str, Any] = {
    "boxes": (boxes, BOTH, {}, {}),
    "boxes, 8 warps": (boxes, BOTH, {}, {"warps": 8}),
    "boxes, roles": (boxes, NEW, ROLES, {}),
    "boxes, roles, 8 warps": (boxes, BOTH, ROLES, {"warps": 8}),
    "boxes, 2 blocks": (boxes, BOTH, {}, {"blocks": 2}),
    "boxes, wide": (boxes, BOTH, {"BN": 256}, {"warps": 8}),
    "staying": (staying, BOTH, {}, {}),
    "staying, flat": (staying, BOTH, {"FLAT": True}, {}),
    "staying, roles": (staying, NEW, ROLES, {}),
    "staying, roles, flat": (staying, BOTH, ROLES | {"FLAT": True}, {}),
    "staying, halves": (staying, NEW, ROLES | {"FLAT": True, "HALVES": True}, {}),
    "made here": (made_here, BOTH, {}, {}),
    "made here, roles": (made_here, BOTH, ROLES, {}),
}
"""Those that Triton 3.9 cannot compile for Hopper are asked for Blackwell only."""


@functools.cache
def through_boxes(name: str, target: int) -> Built:
    function, _, sizes, more = BOXES[name]
    sizes = {"BM": 128, "BN": 128, "BK": 64, "ROLES": False} | sizes
    wide = sizes["BN"] // (2 if sizes.get("HALVES") else 1)
    types = {"a": "tensordesc<fp16[128,64]>", "b": f"tensordesc<fp16[{sizes['BN']},64]>",
             "c": f"tensordesc<fp16[128,{wide}]>"}  # fmt: skip
    if function is made_here:
        types = dict.fromkeys("abc", "*fp16")
    types |= dict.fromkeys(("K",) if function is boxes else ("M", "N", "K"), "i32")
    if function is not boxes:
        sizes["BLOCKS"] = 2
    if function is staying:
        sizes = {"FLAT": False, "HALVES": False} | sizes
    return Built(function, types, sizes, target, **more)


@pytest.mark.parametrize(("shape", "how"), [
    *(((256, 256, 192), how) for how in SCHEDULES), ((200, 136, 208), ("random", 2)),
], ids=str)  # fmt: skip
@pytest.mark.parametrize(("name", "target"), [(n, t) for n in BOXES for t in BOXES[n][1]])
def test_boxes(name: str, target: int, shape: Any, how: tuple[str, int]) -> None:
    m, n, k = shape
    a, b = integers(m, k).astype(np.float16), integers(n, k).astype(np.float16)
    c = np.full((m, n), np.nan, np.float16)
    function, _, sizes, _ = BOXES[name]
    given: list[Any] = [a, b, c] if function is made_here else [Tiled(x) for x in (a, b, c)]
    if function is boxes:
        through_boxes(name, target).launch(
            (-(-m // 128), -(-n // sizes.get("BN", 128))), [*given, k], how
        )
    else:
        through_boxes(name, target).launch((2,), [*given, m, n, k], how)
    assert np.array_equal(c, (a.astype(np.float32) @ b.T.astype(np.float32)).astype(np.float16))


ATTENTION: dict[str, Any] = {
    "attention": (BOTH, 256, {}, 4),
    "causal": (BOTH, 256, {"CAUSAL": True}, 4),
    "roles": (NEW, 256, ROLES, 4),
    "8 warps": (BOTH, 512, {"BN": 128}, 8),
}


@functools.cache
def attending(name: str, target: int) -> Built:
    _, _, more, warps = ATTENTION[name]
    sizes = {"BM": 128, "BN": 64, "D": 64, "ROLES": False, "CAUSAL": False} | more
    types = {"q": "tensordesc<fp16[128,64]>", "k": f"tensordesc<fp16[{sizes['BN']},64]>",
             "v": f"tensordesc<fp16[{sizes['BN']},64]>", "o": "tensordesc<fp16[128,64]>",
             "n": "i32"}  # fmt: skip
    return Built(attention, types, sizes, target, warps=warps)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize(("name", "target"), [(n, t) for n in ATTENTION for t in ATTENTION[n][0]])
def test_attention(name: str, target: int, how: tuple[str, int]) -> None:
    _, n, more, _ = ATTENTION[name]
    q, k, v = np.random.default_rng().standard_normal((3, n, 64)).astype(np.float16)
    out = np.full((n, 64), np.nan, np.float16)
    built = attending(name, target)
    built.launch((n // 128,), [*(Tiled(x) for x in (q, k, v, out)), n], how)
    scores = q.astype(np.float64) @ k.T.astype(np.float64)
    if more.get("CAUSAL"):
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    p = np.exp2(scores - scores.max(axis=1, keepdims=True))
    assert np.abs(out - p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64)).max() < 1e-2
