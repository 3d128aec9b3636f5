"""Matrix instructions outside the one rule of fragments: m8n8k4 of f16, stmatrix of bytes, mma.sp.

Each test writes out, for one element of one lane, what the named section of the PTX ISA says.
No GPU's answers are recorded for these.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasebit.emulator.errors import Fault
from phasebit.launching.launch import Module


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


# -- stmatrix of bytes ------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_of_bytes(count: int) -> None:
    """9.7.14.5.16: m16n8.trans.b8 writes columns of the 16 × 8 matrix as rows of 16 bytes."""
    random = np.random.default_rng(count)
    given = random.integers(0, 2**32, (32, count), np.uint32)
    got = execute(
        ".shared .align 16 .b8 tile[512]; .reg .b32 %row; .reg .pred %p;"
        "mov.u32 %row, tile; mad.lo.u32 %row, %lane, 16, %row;"
        f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8 [%row], {registers(0, count)};"
        f"bar.warp.sync -1; setp.lt.u32 %p, %lane, {8 * count};"
        f"@%p ld.shared.v4.b32 {registers(count, 4)}, [%row];",
        given, 4, "sm_100a",
    )  # fmt: skip
    rows = got.view(np.uint8)
    for lane, j, byte in np.ndindex(32, count, 4):
        row, column = lane // 4 + 8 * (byte // 2), 2 * (lane % 4) + byte % 2
        assert rows[8 * j + column, row] == given[lane].view(np.uint8)[4 * j + byte]


# -- mma.sp -----------------------------------------------------------------------------

SPARSE = [
    ("9.7.14.6.2.1", 16, "f16"), ("9.7.14.6.2.1", 16, "bf16"), ("9.7.14.6.2.2", 32, "f16"),
    ("9.7.14.6.2.2", 32, "bf16"), ("9.7.14.6.2.3", 16, "tf32"), ("9.7.14.6.2.4", 8, "tf32"),
    ("9.7.14.6.2.5", 32, "s8"), ("9.7.14.6.2.5", 32, "u8"), ("9.7.14.6.2.6", 64, "s8"),
    ("9.7.14.6.2.6", 64, "e4m3"), ("9.7.14.6.2.7", 64, "s4"), ("9.7.14.6.2.8", 128, "s4"),
    ("9.7.14.6.2.8", 128, "u4"),
]  # fmt: skip
"""Section, k and type of A and B."""
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "s4": 4, "u4": 4}


def encoded(value: int, kind: str) -> int:
    """The bits of a small whole number."""
    if kind == "f16":
        return int(np.float16(value).view(np.uint16))
    if kind in ("bf16", "tf32"):
        return int(np.float32(value).view(np.uint32)) >> (16 if kind == "bf16" else 0)
    if kind == "e4m3":
        return {0: 0, 1: 0x38, 2: 0x40, 3: 0x44}[abs(value)] | (0x80 if value < 0 else 0)
    return value & ((1 << BITS[kind]) - 1)


def holder(row: int, chunk: int, k: int, kind: str, selector: int) -> tuple[int, int]:
    """Lane and lowest bit of the metadata of a chunk of A: the figures of 9.7.14.6.2."""
    first = 4 * (row % 8)
    if kind in ("f16", "bf16", "tf32"):
        if k == {"tf32": 8}.get(kind, 16):  # T(4 g + selector): row g low, row g + 8 high
            return first + selector, 4 * chunk + 16 * (row // 8)
        return first + 2 * selector + chunk // 4, 4 * (chunk % 4) + 16 * (row // 8)
    if k == 128 or (k == 64 and kind in ("s8", "u8", "e4m3")):
        return first + 2 * (chunk // 8) + row // 8, 4 * (chunk % 8)
    return first + 2 * selector + row // 8, 4 * chunk


def sparse_case(
    k: int, kind: str, selector: int, ordered: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Registers of A, B, C and metadata for random matrices; and the product."""
    random = np.random.default_rng([k, selector, *kind.encode()])
    span = {"tf32": 2, "s4": 8, "u4": 8}.get(kind, 4)
    low = 0 if kind[0] == "u" else -3
    per = 32 // BITS[kind]
    whole = np.zeros((16, k), np.int64)
    stored = np.zeros((16, k // 2), np.int64)
    e = random.integers(0, 2**32, 32, np.uint32)  # lanes not selected may hold anything
    taken: set[tuple[int, int]] = set()
    for row, chunk in np.ndindex(16, k // span):
        values = random.integers(low, 4, span // 2)
        stored[row, chunk * span // 2 :][: span // 2] = values
        at = whole[row, chunk * span :][:span]
        if span == 2:
            place = int(random.integers(2))
            at[place], bits = values[0], (0b0100, 0b1110)[place]
        else:
            one, two = random.permutation(4)[:2].tolist()
            if ordered:
                one, two = sorted((one, two))
            width = span // 4
            at[one * width :][:width], at[two * width :][:width] = values.reshape(2, width)
            bits = one | two << 2
        lane, shift = holder(row, chunk, k, kind, selector)
        assert (lane, shift) not in taken
        taken.add((lane, shift))
        e[lane] = int(e[lane]) & ~(15 << shift) | bits << shift
    b = random.integers(low, 4, (k, 8))
    c = random.integers(-50, 50, (16, 8))
    given = np.zeros((32, 0), np.uint32)
    a_registers, b_registers = k // 2 * 16 // 32 // per, k * 8 // 32 // per
    for lane in range(32):
        g, t = lane // 4, lane % 4
        words = []
        for j in range(a_registers):  # as a dense A of half the columns: 9.7.14.5
            row, column = g + 8 * (j % 2), (t + 4 * (j // 2)) * per
            words.append([encoded(int(v), kind) for v in stored[row, column : column + per]])
        for j in range(b_registers):
            row = (t + 4 * j) * per
            words.append([encoded(int(v), kind) for v in b[row : row + per, g]])
        packed = [sum(v << BITS[kind] * i for i, v in enumerate(word)) for word in words]
        mine = [int(c[g + 8 * (i // 2), 2 * t + i % 2]) for i in range(4)]
        form = np.int32 if kind[0] in "su" else np.float32
        packed += np.array(mine, form).view(np.uint32).tolist()
        if lane == 0:
            given = np.zeros((32, len(packed) + 1), np.uint32)
        given[lane] = [*packed, int(e[lane])]
    return given, whole @ b + c, np.array([a_registers, b_registers]), e


@pytest.mark.parametrize("ordered", [False, True], ids=["sp", "ordered"])
@pytest.mark.parametrize("section, k, kind", SPARSE)
def test_mma_sp(section: str, k: int, kind: str, ordered: bool) -> None:
    """Whole numbers through every shape, for every lane or pair of lanes that may have metadata."""
    span = {"tf32": 2, "s4": 8, "u4": 8}.get(kind, 4)
    lanes = k // span // 4
    for selector in range(4 // lanes):
        given, wanted, (na, nb), _ = sparse_case(k, kind, selector, ordered)
        result = "s32" if kind[0] in "su" else "f32"
        name = "sp::ordered_metadata" if ordered else "sp"
        last = given.shape[1] - 1
        got = execute(
            f"mma.{name}.sync.aligned.m16n8k{k}.row.col.{result}.{kind}.{kind}.{result} "
            f"{registers(last + 1, 4)}, {registers(0, na)}, {registers(na, nb)}, "
            f"{registers(na + nb, 4)}, %r{last}, {selector};",
            given, 4,
        )  # fmt: skip
        numbers = got.view(np.int32 if result == "s32" else np.float32)
        for lane, i in np.ndindex(32, 4):
            assert numbers[lane, i] == wanted[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2]


@pytest.mark.parametrize(
    ("bits", "selector", "message"),
    [
        (0x44444444, 1, "selector is 1; here it is below 1"),
        (0x44445444, 0, "the metadata of row 0 has 0101 for chunk 3, which is invalid"),
    ],
)
def test_metadata_that_the_isa_calls_invalid(bits: int, selector: int, message: str) -> None:
    """9.7.14.6.1 and 9.7.14.6.3."""
    given = np.full((32, 13), bits, np.uint32)
    with pytest.raises(Fault, match=message):
        execute(
            "mma.sp.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 "
            f"{registers(13, 4)}, {registers(0, 4)}, {registers(4, 4)}, {registers(8, 4)}, "
            f"%r12, {selector};",
            given, 4,
        )  # fmt: skip
