"""Matrix instructions outside the one rule of fragments: m8n8k4 of f16, stmatrix of bytes, mma.sp.

Each test writes out, for one element of one lane, what the named section of the PTX ISA says.
No GPU's answers are recorded for these.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasebit.emulator.launch import Module


def execute(
    instruction: str, given: np.ndarray, results: int, target: str = "sm_90a"
) -> np.ndarray:
    """Registers %r0 … of each lane after ``instruction``; before it lane l has ``given[l]``.

    ``given`` is uint32 [32, registers]; the results are the registers after those.
    """
    count = given.shape[1]
    loads = " ".join(f"ld.global.b32 %r{i}, [%rd1+{4 * i}];" for i in range(count))
    stores = " ".join(
        f"st.global.b32 [%rd2+{4 * i}], %r{count + i};" for i in range(results)
    )  # fmt: skip
    text = f""".version 9.0
.target {target}
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
    .reg .b32 %r<40>; .reg .b32 %lane; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %lane, %tid.x;
    mad.wide.u32 %rd1, %lane, {4 * count}, %rd1;
    mad.wide.u32 %rd2, %lane, {4 * results}, %rd2;
    {loads}
    {instruction}
    {stores}
    ret;
}}"""
    out = np.zeros((32, results), np.uint32)
    Module(text)["k"].launch(1, 32, [np.ascontiguousarray(given), out])
    return out


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


# -- m8n8k4 of f16 ----------------------------------------------------------------------


def a_of_quads(lane: int, i: int, layout: str) -> tuple[int, int]:
    """Row and column of a_i (PTX ISA 9.7.14.5.1)."""
    low = lane < 16
    if layout == "row":
        return (lane % 4 if low else lane % 4 + 4), i
    return (i % 4 if low else i % 4 + 4), lane % 4


def b_of_quads(lane: int, i: int, layout: str) -> tuple[int, int]:
    """Row and column of b_i (PTX ISA 9.7.14.5.1)."""
    low = lane < 16
    if layout == "row":
        return lane % 4, (i if low else i + 4)
    return i, (lane % 4 if low else lane % 4 + 4)


def c_of_quads(lane: int, i: int, kind: str) -> tuple[int, int]:
    """Row and column of c_i and d_i (PTX ISA 9.7.14.5.1)."""
    if kind == "f16":
        return (lane % 4 if lane < 16 else lane % 4 + 4), i
    x = (lane & 0b1) + (i & 0b10)
    return (x if lane < 16 else x + 4), (i & 0b100) + (lane & 0b10) + (i & 0b1)


def in_order(a: np.ndarray, b: np.ndarray, c: float, result: str) -> float:
    """One element as the machine code for sm_90 has it: float32 [4] times [4], plus c."""
    f = np.float32

    def fma(x: np.float32, y: np.float32, z: np.float32) -> np.float32:
        return f(np.float64(x) * np.float64(y) + np.float64(z))  # exact for these numbers

    if result == "f32":
        s = f(0)
        for k in range(4):
            s = fma(a[k], b[k], s)
        return f(f(c) + s)
    low, high = (fma(a[k + 1], b[k + 1], f(a[k] * b[k])) for k in (0, 2))
    return np.float16(f(f(f(c) + low) + high))


@pytest.mark.parametrize("layouts", [*itertools.product(("row", "col"), repeat=2)], ids=".".join)
@pytest.mark.parametrize("of_d, of_c", [("f32", "f32"), ("f16", "f16"), ("f32", "f16")])
def test_m8n8k4_of_each_quad(layouts: tuple[str, str], of_d: str, of_c: str) -> None:
    """9.7.14.5.1: lanes 4 q … 4 q + 3 and 16 more multiply by themselves, for q = 0 … 3."""
    random = np.random.default_rng(list(f"{layouts}{of_d}{of_c}".encode()))
    a = random.normal(size=(4, 8, 4)).astype(np.float16)
    b = random.normal(size=(4, 4, 8)).astype(np.float16)
    c = random.normal(size=(4, 8, 8)).astype({"f16": np.float16, "f32": np.float32}[of_c])
    c[:, ::2] *= 1000  # so that the order of the sum shows
    words = 8 if of_c == "f32" else 4
    given = np.zeros((32, 4 + words), np.uint32)
    for lane in range(32):
        q = lane % 16 // 4
        parts = [
            np.array([a[q][a_of_quads(lane, i, layouts[0])] for i in range(4)]),
            np.array([b[q][b_of_quads(lane, i, layouts[1])] for i in range(4)]),
            np.array([c[q][c_of_quads(lane, i, of_c)] for i in range(8)]),
        ]
        given[lane] = np.concatenate([part.view(np.uint32) for part in parts])
    results = 8 if of_d == "f32" else 4
    got = execute(
        f"mma.sync.aligned.m8n8k4.{layouts[0]}.{layouts[1]}.{of_d}.f16.f16.{of_c} "
        f"{registers(4 + words, results)}, {registers(0, 2)}, {registers(2, 2)}, "
        f"{registers(4, words)};",
        given, results,
    )  # fmt: skip
    numbers = got.view({"f16": np.float16, "f32": np.float32}[of_d])
    for lane, i in np.ndindex(32, 8):
        q = lane % 16 // 4
        row, column = c_of_quads(lane, i, of_d)
        x, y = a[q, row].astype(np.float32), b[q, :, column].astype(np.float32)
        assert numbers[lane, i] == in_order(x, y, c[q, row, column], of_d)
