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


POINTERS = {"e2m1": "*u8", "e4m3": "*fp8e4nv", "e5m2": "*fp8e5"}
FORMS = [
    ("e4m3", "e4m3", 32, "kind::mxf8f6f4", 128, 128),
    ("e5m2", "e4m3", 32, "kind::mxf8f6f4", 64, 128),
    ("e4m3", "e2m1", 32, "kind::mxf8f6f4", 128, 128),
    ("e2m1", "e5m2", 32, "kind::mxf8f6f4", 32, 128),
    ("e2m1", "e2m1", 32, "kind::mxf4.", 128, 128), ("e2m1", "e2m1", 32, "kind::mxf4.", 256, 256),
    ("e2m1", "e2m1", 16, "kind::mxf4nvf4", 128, 128),
]  # fmt: skip


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize(("a", "b", "vector", "kind", "bn", "bk"), FORMS,
                         ids=[f"{f[0]} {f[1]} {f[2]} {f[4]}x{f[5]}" for f in FORMS])  # fmt: skip
def test_dot_scaled(
    a: str, b: str, vector: int, kind: str, bn: int, bk: int, schedule: str
) -> None:
    m, n, k = 256, 2 * bn, 2 * bk
    kernel, shared = built(a, b, vector, kind, bn, bk)
    rng = np.random.default_rng(bn)
    raw, wide, scales = [], [], []
    for rows, of in ((m, a), (n, b)):
        codes = np.arange(1 << WIDTH[of])
        whole = numbers(codes, of)
        plain = codes[(np.abs(whole) <= 6) & (whole * 4 % 1 == 0)]
        drawn = rng.choice(plain, (rows, k)).astype(np.uint8)
        raw.append(drawn[:, ::2] | drawn[:, 1::2] << 4 if of == "e2m1" else drawn)
        if vector == 32:
            one = rng.integers(126, 130, (rows, k // 32)).astype(np.uint8)
            factors = 2.0 ** (one.astype(float) - 127)
        else:
            one = rng.choice([0x30, 0x38, 0x3C, 0x40], (rows, k // 16)).astype(np.uint8)
            factors = np.array([value(c, 4, 3) for c in range(128)])[one]
        scales.append(one)
        wide.append(numbers(drawn, of) * np.repeat(factors, vector, axis=1))
    c = np.full((m, n), np.nan, np.float32)
    args = [*map(np.ascontiguousarray, raw), c, *scales, k]
    args += [0] * (len(kernel.function.parameters) - len(args))
    found = kernel.launch((2, 2), 128, args, shared=shared, schedule=schedule)
    assert not found.hazards, found.hazards[0]
    assert np.array_equal(c, wide[0] @ wide[1].T)


def built(a: str, b: str, vector: int, kind: str, bn: int, bk: int) -> tuple[Any, int]:
    """The kernel in the emulator, and the bytes of dynamic shared memory that it wants."""
    scale = "*u8" if vector == 32 else "*fp8e4nv"
    types = {"a": POINTERS[a], "b": POINTERS[b], "c": "*fp32", "sa": scale, "sb": scale, "K": "i32"}
    constants = {"BM": 128, "BN": bn, "BK": bk, "FA": a, "FB": b, "PA": 1 + (a == "e2m1"),
                 "PB": 1 + (b == "e2m1"), "V": vector}  # fmt: skip
    source = triton.compiler.ASTSource(
        scaled, signature=types | dict.fromkeys(constants, "constexpr"), constexprs=constants,
        attrs={(i,): [["tt.divisibility", 16]] for i in range(6)},
    )  # fmt: skip
    options = {"num_warps": 4, "num_stages": 2}
    made = triton.compile(source, target=backends.GPUTarget("cuda", 100, 32), options=options)
    text = made.asm["ptx"]
    assert kind in text and "block_scale" in text
    module = Module(text)
    return module[module.kernels[0]], made.metadata.shared
