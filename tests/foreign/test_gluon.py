# mypy: ignore-errors
"""Gluon's code for Hopper and Blackwell, in the emulator: every copy, wait and role by hand.

Gluon comes with Triton, which is not among the book's requirements: without it these tests are
skipped.  Install it with ``pip install triton``; it compiles without a GPU.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("triton", reason="triton is not installed: NOT asked")

from triton.experimental.gluon import language as gl

from phasebit.emulator import formats
from tests.foreign import gluon_blackwell as new
from tests.foreign import gluon_hopper as old
from tests.foreign.triton_tools import Built, Tiled

pytestmark = pytest.mark.foreign

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
ENCODED = {"fp16": "f16", "bf16": "bf16", "fp8e4nv": "e4m3", "fp8e5": "e5m2"}
PLAIN = {"fp32": np.float32, "i8": np.int8}
WIDE = {"fp16": 16, "bf16": 16, "fp8e4nv": 8, "fp8e5": 8, "fp32": 32, "i8": 8}


def box(kind, *shape, spread=()):
    """The type of a tensor map; ``spread``: which blocks of a cluster hold which part."""
    layout = gl.NVMMASharedLayout(128, WIDE[kind], rank=2, cga_layout=[list(b) for b in spread])
    return f"tensordesc<{kind}[{','.join(map(str, shape))}],{layout!r}>"


def integers(*shape):
    return np.random.default_rng().integers(-4, 5, shape)


def halves(*shape):
    return integers(*shape).astype(np.float16)


def product(a, b):
    return a.astype(np.float32) @ b.astype(np.float32).T


ALONG = [[1, 0]]
ROWS2 = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=ALONG)
ROWS4 = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0], [0, 1]])
PRODUCTS = {
    "roles": (old.roles, 90, (128, 128, 64), (256, 256, 320), {"STAGES": 3}, ((),) * 3),
    "roles, ragged": (old.roles, 90, (64, 64, 64), (120, 136, 208), {"STAGES": 2}, ((),) * 3),
    "staying": (new.staying, 100, (128, 128, 64), (384, 256, 192), {"STAGES": 3}, ((),) * 3),
    "staying, ragged": (new.staying, 100, (128, 64, 64), (328, 200, 136), {"STAGES": 2},
                        ((),) * 3),
    "taking": (new.taking, 100, (128, 64, 64), (384, 256, 128), {}, ((),) * 3),
    "pair": (new.pairs, 100, (256, 128, 64), (512, 256, 192),
             {"SPREAD": ALONG, "MANY": False, "LAYOUT": ROWS2}, (ALONG,) * 3),
    "two pairs": (new.pairs, 100, (256, 128, 64), (512, 256, 192),
                  {"SPREAD": [[1, 0], [0, 1]], "MANY": True, "LAYOUT": ROWS4},
                  ([[1, 0], [0, 0]], [[1, 0], [2, 0]], [[1, 0], [0, 1]])),
}  # fmt: skip


@functools.cache
def multiplying(name):
    function, target, (m, n, k), _, sizes, spread = PRODUCTS[name]
    shapes = ((m, k), (n, k), (m, n))
    types = {x: box("fp16", *shape, spread=s)
             for x, shape, s in zip("abc", shapes, spread, strict=True)}  # fmt: skip
    types |= dict.fromkeys(("M", "N", "K") if function is new.staying else ("K",), "i32")
    return Built(function, types, sizes, target, blocks=2 ** len(spread[0]))


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, how):
    function, _, (bm, bn, _), (m, n, k), _, _ = PRODUCTS[name]
    a, b, c = halves(m, k), halves(n, k), np.full((m, n), np.nan, np.float16)
    grid, sizes = (-(-m // bm), -(-n // bn)), (k,)
    if function is new.staying:
        grid, sizes = (2,), (m, n, k)
    multiplying(name).launch(grid, [*(Tiled(x) for x in (a, b, c)), *sizes], how)
    assert np.array_equal(c, product(a, b).astype(np.float16))


@functools.cache
def splitting():
    types = {"a": box("fp16", 64, 64), "b": box("fp16", 64, 64), "c": box("fp32", 64, 64),
             "K": "i32"}  # fmt: skip
    return Built(old.split, types, {}, 90)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
def test_parts_that_the_copy_engine_adds(how):
    a, b, c = halves(128, 384), halves(128, 384), np.zeros((128, 128), np.float32)
    splitting().launch((2, 2, 3), [Tiled(a), Tiled(b), Tiled(c), 384], how)
    assert np.array_equal(c, product(a, b))


@functools.cache
def one_tile(kind, registers):
    deep = 128 * 8 // WIDE[kind]
    types = {"a": box(kind, 64, deep), "b": box(kind, 64, deep),
             "c": "*i32" if kind == "i8" else "*fp32"}  # fmt: skip
    sizes = {"BM": 64, "BN": 64, "TOTAL": gl.int32 if kind == "i8" else gl.float32,
             "DEEP": 256 // WIDE[kind], "REGISTERS": registers}  # fmt: skip
    return Built(old.one_tile, types, sizes, 90)


@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize("kind", WIDE)
def test_every_type_of_wgmma(kind, registers):
    a, b = integers(64, 1024 // WIDE[kind]), integers(64, 1024 // WIDE[kind])
    given = [v.astype(PLAIN[kind]) if kind in PLAIN
             else np.asarray(formats.encode(ENCODED[kind], v.astype(np.float64)))
             for v in (a, b)]  # fmt: skip
    for how in SCHEDULES:
        c = np.zeros((64, 64), np.int32 if kind == "i8" else np.float32)
        one_tile(kind, registers).launch((1,), [*(Tiled(x) for x in given), c], how)
        assert np.array_equal(c, a @ b.T)


@functools.cache
def chaining():
    types = {"q": box("fp16", 128, 64), **{x: box("fp16", 64, 64) for x in "kv"},
             "o": box("fp16", 128, 64)}  # fmt: skip
    return Built(new.chain, types, {}, 100)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
def test_a_first_operand_in_tensor_memory(how):
    q, k, v = (np.random.default_rng().integers(-2, 3, (rows, 64)).astype(np.float16)
               for rows in (256, 64, 64))  # fmt: skip
    o = np.full((256, 64), np.nan, np.float16)
    chaining().launch((2,), [Tiled(x) for x in (q, k, v, o)], how)
    scores = product(q, k).astype(np.float16).astype(np.float32)
    assert np.array_equal(o, (scores @ v.astype(np.float32)).astype(np.float16))


@functools.cache
def moving():
    types = {"source": box("fp16", 1, 64), "taken": "*i32", "target": box("fp16", 1, 64),
             "given": "*i32"}  # fmt: skip
    return Built(new.move_rows, types, {"COUNT": 32}, 100)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
def test_rows_from_anywhere_to_anywhere(how):
    random = np.random.default_rng()
    source, target = halves(200, 128), np.full((64, 128), np.nan, np.float16)
    taken = random.permutation(200)[:64].astype(np.int32)
    given = random.permutation(64).astype(np.int32)
    moving().launch((2, 2), [Tiled(source), taken, Tiled(target), given], how)
    assert np.array_equal(target[given], source[taken])


@functools.cache
def there_and_back(shape, rows):
    types = {"x": "*fp32", "y": "*fp32"}
    return Built(new.there_and_back, types, {"BM": rows, "BN": 64, "SHAPE": shape}, 100)


@pytest.mark.parametrize(("shape", "rows"), [
    ("32x32b", 128), ("16x64b", 128), ("16x128b", 128), ("16x256b", 128), ("16x64b", 64),
])  # fmt: skip
def test_every_shape_of_load_and_store(shape, rows):
    for how in SCHEDULES:
        x = integers(rows, 64).astype(np.float32)
        y = np.zeros_like(x)
        there_and_back(shape, rows).launch((1,), [x, y], how)
        assert np.array_equal(y, 2 * x)


def test_packed_arithmetic():
    built = Built(new.packed, dict.fromkeys(("x", "y", "z", "out"), "*fp32"), {}, 100)
    assert "sub.f32x2" in built.kernel.ptx
    x, y, z = (integers(512).astype(np.float32) for _ in range(3))
    out = np.zeros(512, np.float32)
    built.launch((1,), [x, y, z, out], ("late", 0))
    assert np.array_equal(out, x * y + z + x * z - y)
