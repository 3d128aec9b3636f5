# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""Triton's code for products with block scales on Blackwell: ``tl.dot_scaled``.

An independent witness for what no GPU at hand can say: where the scales lie in tensor memory, how
numbers of 4 bits lie in shared memory, what the instruction descriptor means.  Without Triton these
tests are skipped.  Install it with ``pip install triton``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator.launch import Module
from phasebit.emulator.tensormap import TensorMap
from tests.emulator.scaled_kernels import WIDTH, numbers, value

triton: Any = pytest.importorskip("triton", reason="triton is not installed: NOT asked")
tl: Any = pytest.importorskip("triton.language")
backends: Any = pytest.importorskip("triton.backends.compiler")

pytestmark = pytest.mark.foreign
Array = np.ndarray[Any, np.dtype[Any]]


@triton.jit
def scaled(a, b, c, sa, sb, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr,
           V: tl.constexpr):  # fmt: skip
    """A tile of C = (A · scales) (B · scales)ᵀ, one scale for V numbers; PA and PB in a byte."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    scales = tl.arange(0, BK // V)
    a += rows[:, None] * (K // PA) + tl.arange(0, BK // PA)[None, :]
    b += columns[None, :] * (K // PB) + tl.arange(0, BK // PB)[:, None]
    sa += rows[:, None] * (K // V) + scales[None, :]
    sb += columns[:, None] * (K // V) + scales[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot_scaled(tl.load(a), tl.load(sa), FA, tl.load(b), tl.load(sb), FB, total)
        a += BK // PA
        b += BK // PB
        sa += BK // V
        sb += BK // V
    n = tl.num_programs(1) * BN
    tl.store(c + rows[:, None] * n + columns[None, :], total)


@triton.jit
def boxes(a, b, c, sa, sb, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
          FA: tl.constexpr, FB: tl.constexpr, PA: tl.constexpr, PB: tl.constexpr,
          V: tl.constexpr):  # fmt: skip
    """The same with A and B through tensor maps."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    rows, columns = row + tl.arange(0, BM), column + tl.arange(0, BN)
    scales = tl.arange(0, BK // V)
    sa += rows[:, None] * (K // V) + scales[None, :]
    sb += columns[:, None] * (K // V) + scales[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        x, y = a.load([row, k // PA]), b.load([column, k // PB])
        total = tl.dot_scaled(x, tl.load(sa), FA, y.T, tl.load(sb), FB, total)
        sa += BK // V
        sb += BK // V
    n = tl.num_programs(1) * BN
    tl.store(c + rows[:, None] * n + columns[None, :], total)


POINTERS = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5"}
FORMS = [
    ("e4m3", "e4m3", 32, "kind::mxf8f6f4", 128, 128),
    ("e5m2", "e4m3", 32, "kind::mxf8f6f4", 64, 128),
    ("e4m3", "e2m1", 32, "kind::mxf8f6f4", 128, 128),
    ("e2m1", "e5m2", 32, "kind::mxf8f6f4", 32, 128),
    ("e2m1", "e2m1", 32, "kind::mxf4.", 128, 128), ("e2m1", "e2m1", 32, "kind::mxf4.", 256, 256),
    ("e2m1", "e2m1", 16, "kind::mxf4nvf4", 128, 128),
]  # fmt: skip


SWIZZLES = ("none", "32B", "64B", "128B")
TYPES = {0: "u8", 13: "b4x16", 14: "b4x16_p64"}
"""The driver's numbers of element types -> ours."""


@pytest.mark.parametrize(("a", "b", "vector", "kind", "bn", "bk"), FORMS,
                         ids=[f"{f[0]} {f[1]} {f[2]} {f[4]}x{f[5]}" for f in FORMS])  # fmt: skip
def test_dot_scaled(a: str, b: str, vector: int, kind: str, bn: int, bk: int) -> None:
    """All schedules in turn."""
    schedule = ("eager", "late", "random")[FORMS.index((a, b, vector, kind, bn, bk)) % 3]
    m, n, k = 256, 2 * bn, 2 * bk
    kernel, metadata = built(scaled, a, b, vector, kind, bn, bk)
    raw, scales, right = drawn(m, n, k, a, b, vector)
    c = np.full((m, n), np.nan, np.float32)
    launch(kernel, [*raw, c, *scales, k], metadata.shared, schedule)
    assert np.array_equal(c, right)


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("a", "b", "kind"), [
    ("e4m3", "e2m1", "kind::mxf8f6f4"), ("e2m1", "e2m1", "kind::mxf4."),
])  # fmt: skip
def test_dot_scaled_through_tensor_maps(a: str, b: str, kind: str, schedule: str) -> None:
    """Beside 8-bit numbers those of 4 bits come in slots: b4x16_p64.  The compiler's own count of
    bytes at the mbarrier is without the gaps."""
    m, n, k = 256, 256, 512
    kernel, metadata = built(boxes, a, b, 32, kind, 128, 128)
    raw, scales, right = drawn(m, n, k, a, b, 32)
    c = np.full((m, n), np.nan, np.float32)
    args: list[Any] = []
    for array, of in zip(raw, metadata.tensordesc_meta, strict=True):
        kind_of = TYPES[of["elem_type"]]
        assert kind_of == ("b4x16_p64" if of["fp4_padded"] else "u8")
        wide = array.shape[1] * (1 + of["fp4_padded"])
        args.append(TensorMap(
            array, of["block_size"][::-1], data_type=kind_of, dims=(wide, len(array)),
            strides=(array.shape[1],), swizzle=SWIZZLES[of["swizzle"]],
        ))  # fmt: skip
        args += [*array.shape, array.shape[1], 1]
    launch(kernel, [*args, c, *scales, k], metadata.shared, schedule)
    assert np.array_equal(c, right)


def drawn(
    m: int, n: int, k: int, a: str, b: str, vector: int
) -> tuple[list[Array], list[Array], Array]:
    """A and B as bytes, their scales, and the product."""
    rng = np.random.default_rng(n)
    raw, wide, scales = [], [], []
    for rows, of in ((m, a), (n, b)):
        codes = np.arange(1 << WIDTH[of])
        whole = numbers(codes, of)
        plain = codes[(np.abs(whole) <= 6) & (whole * 4 % 1 == 0)]
        some = rng.choice(plain, (rows, k)).astype(np.uint8)
        packed = some[:, ::2] | some[:, 1::2] << 4 if of == "e2m1" else some
        raw.append(np.ascontiguousarray(packed))
        if vector == 32:
            one = rng.integers(126, 130, (rows, k // 32)).astype(np.uint8)
            factors = 2.0 ** (one.astype(float) - 127)
        else:
            one = rng.choice([0x30, 0x38, 0x3C, 0x40], (rows, k // 16)).astype(np.uint8)
            factors = np.array([value(c, 4, 3) for c in range(128)])[one]
        scales.append(one)
        wide.append(numbers(some, of) * np.repeat(factors, vector, axis=1))
    return raw, scales, wide[0] @ wide[1].T


def launch(kernel: Any, args: list[Any], shared: int, schedule: str) -> None:
    """Four blocks; Triton's kernels have pointers to scratch memory at the end, without use."""
    args = args + [0] * (len(kernel.function.parameters) - len(args))
    found = kernel.launch((2, 2), 128, args, shared=shared, schedule=schedule)
    assert not found.hazards, found.hazards[0]


def built(
    function: Any, a: str, b: str, vector: int, kind: str, bn: int, bk: int
) -> tuple[Any, Any]:
    """The kernel in the emulator, and what Triton says of it."""
    scale = "*u8" if vector == 32 else "*fp8e4nv"
    types = {"a": POINTERS[a], "b": POINTERS[b], "c": "*fp32", "sa": scale, "sb": scale, "K": "i32"}
    constants = {"BM": 128, "BN": bn, "BK": bk, "FA": a, "FB": b, "PA": 1 + (a == "e2m1"),
                 "PB": 1 + (b == "e2m1"), "V": vector}  # fmt: skip
    first = 0
    if function is boxes:
        first = 2
        for name, rows, of in (("a", 128, a), ("b", bn, b)):
            inner = bk // (1 + (of == "e2m1"))
            types[name] = f"tensordesc<{POINTERS[of][1:]}[{rows},{inner}]>"
    source = triton.compiler.ASTSource(
        function, signature=types | dict.fromkeys(constants, "constexpr"), constexprs=constants,
        attrs={(i,): [["tt.divisibility", 16]] for i in range(first, 6)},
    )  # fmt: skip
    options = {"num_warps": 4, "num_stages": 2}
    made = triton.compile(source, target=backends.GPUTarget("cuda", 100, 32), options=options)
    text = made.asm["ptx"]
    assert kind in text and "block_scale" in text
    module = Module(text)
    return module[module.kernels[0]], made.metadata
