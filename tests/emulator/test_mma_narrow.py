"""``mma`` of 8, 6 and 4 bits by ``.kind``, and with block scales: PTX ISA 9.7.14.3, 9.7.14.5.14.

Each case is one instruction of two warps, against sums that are written down element by element.
There was no GPU of sm_120a to compare with: these are the words of the PTX ISA.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phasebit import process, toolchain
from phasebit.emulator import Run
from phasebit.emulator.errors import EmulatorError
from tests.emulator.scaled_kernels import FIELDS, WIDTH, numbers, value
from tests.emulator.tensor_ptx import run

Array = NDArray[Any]
WARPS = 2

KERNEL = """
.version 9.0
.target sm_120a
.address_size 64
.visible .entry kernel(.param .u64 words, .param .u64 out)
{
    .reg .b32 %r<30>; .reg .b16 %rs<5>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [words]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 48; add.u64 %rd1, %rd1, %rd3;
    mul.wide.u32 %rd3, %r1, 16; add.u64 %rd2, %rd2, %rd3;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1]; ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd1+16];
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1+32];
    mov.u16 %rs1, BYTE_A; mov.u16 %rs2, THREAD_A;
    OPCODE
    REGISTERS, {%r2, %r3, %r4, %r5}, {%r6, %r7}, REGISTERS SCALES;
    st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};
    ret;
}
"""
"""A thread's words: four of A, two of B, the scales of A and of B, four of C, which D replaces."""


@dataclass(frozen=True)
class Case:
    kind: str
    a: str
    b: str
    per_row: int = 0
    scale: str = "ue8m0"
    word: str = ""
    d: str = "f32"
    byte: tuple[int, int] = (0, 0)
    thread: tuple[int, int] = (0, 0)

    @property
    def k(self) -> int:
        return 64 if self.kind in ("mxf4", "mxf4nvf4") else 32

    @property
    def text(self) -> str:
        scaled = f".block_scale{self.word}" if self.per_row else ""
        opcode = (
            f"mma.sync.aligned.kind::{self.kind}{scaled}.m16n8k{self.k}.row.col."
            f"{self.d}.{self.a}.{self.b}.{self.d}" + (f".{self.scale}" if self.per_row else "")
        )
        given = f", %r8, {{%rs1, %rs2}}, %r9, {{{self.byte[1]}, {self.thread[1]}}}"
        text = KERNEL.replace("OPCODE", opcode).replace("SCALES", given if self.per_row else "")
        text = text.replace("BYTE_A", str(self.byte[0])).replace("THREAD_A", str(self.thread[0]))
        four, two = "{%r10, %r11, %r12, %r13}", "{%r10, %r11}"
        return text.replace("REGISTERS", two if self.d == "f16" else four)


def word_of(codes: list[int], kind: str, packed: bool) -> int:
    """A register with four numbers in bytes, those of 4 bits in the middle, or with eight."""
    if packed:
        return sum(code << 4 * i for i, code in enumerate(codes))
    return sum(code << 8 * i + (2 if WIDTH[kind] == 4 else 0) for i, code in enumerate(codes))


def place(lane: int, register: int, each: int) -> tuple[int, list[int]]:
    """Row of A and its columns, by the ISA's formulas: groupID and threadID_in_group."""
    first = lane % 4 * each + 4 * each * (register // 2)
    return lane // 4 + 8 * (register % 2), list(range(first, first + each))


def image(case: Case, a: Array, b: Array, c: Array, sa: Array, sb: Array) -> Array:
    """What each thread is given; whatever nobody should look at is 0xa5."""
    each = 8 if case.k == 64 else 4
    words = np.full((WARPS, 32, 12), 0xA5A5A5A5, np.uint32)
    for w, lane in itertools.product(range(WARPS), range(32)):
        mine = words[w, lane]
        for j in range(4):
            row, columns = place(lane, j, each)
            mine[j] = word_of([int(a[w, row, i]) for i in columns], case.a, each == 8)
        for j in range(2):
            _, columns = place(lane, 2 * j, each)
            mine[4 + j] = word_of([int(b[w, lane // 4, i]) for i in columns], case.b, each == 8)
        group, at = divmod(lane, 4)
        some = mine[6:8].view(np.uint8).reshape(2, 4)
        if case.per_row and at // 2 == case.thread[0]:
            row = group + 8 * (at % 2)
            some[0, case.byte[0] : case.byte[0] + case.per_row] = sa[w, row]
        if case.per_row and at == case.thread[1]:
            some[1, case.byte[1] : case.byte[1] + case.per_row] = sb[w, group]
        held = np.array([c[w, group + 8 * (i // 2), at * 2 + i % 2] for i in range(4)])
        if case.d == "f16":
            mine[8:10] = held.astype(np.float16).view(np.uint32)
        else:
            mine[8:12] = held.astype(np.float32).view(np.uint32)
    return words


def data(case: Case, seed: int) -> tuple[Array, Array, Array, Array, Array]:
    rng = np.random.default_rng(seed)
    found = []
    for rows, kind in ((16, case.a), (8, case.b)):
        codes = np.arange(1 << WIDTH[kind])
        values = numbers(codes, kind)
        plain = codes[(np.abs(values) <= 6) & (values * 4 % 1 == 0)]
        found.append(rng.choice(plain, (WARPS, rows, case.k)))
    c = rng.integers(-9, 10, (WARPS, 16, 8)).astype(np.float64)
    scales = [
        rng.integers(126, 130, (WARPS, rows, case.per_row)) if case.scale == "ue8m0"
        else rng.choice([0x30, 0x34, 0x38, 0x3C, 0x40], (WARPS, rows, case.per_row))
        for rows in (16, 8)
    ]  # fmt: skip
    return found[0], found[1], c, scales[0], scales[1]


def reference(case: Case, a: Array, b: Array, c: Array, sa: Array, sb: Array) -> Array:
    wide = []
    for codes, scales, kind in ((a, sa, case.a), (b, sb, case.b)):
        plain = numbers(codes, kind)
        if case.per_row:
            table = 2.0 ** (np.arange(256.0) - 127)
            if case.scale == "ue4m3":
                table = np.array([value(x, *FIELDS["e4m3"]) for x in range(128)])
            plain = plain * np.repeat(table[scales], case.k // case.per_row, axis=2)
        wide.append(plain)
    return np.einsum("wmk,wnk->wmn", *wide) + c


def product(case: Case, seed: int = 0, text: str = "") -> tuple[Array, Array, Run]:
    """D [warps, 16, 8], what it should be, and the run."""
    given = data(case, seed)
    out = np.zeros((WARPS, 32, 4), np.uint32)
    found = run(text or case.text, image(case, *given), out, threads=32 * WARPS)
    d = np.zeros((WARPS, 16, 8))
    for w, lane, i in itertools.product(range(WARPS), range(32), range(4)):
        held = out[w, lane].view(np.float16 if case.d == "f16" else np.float32)
        d[w, lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2] = held[i]
    return d, reference(case, *given), found


TYPES = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
PLAIN = [Case("f8f6f4", a, b) for a, b in itertools.product(TYPES, TYPES)]
HALF = [Case("f8f6f4", "e4m3", "e2m1", d="f16")]
ONE = [Case("mxf8f6f4", a, b, 1, word=".scale_vec::1X") for a, b in itertools.product(TYPES, TYPES)]
MORE = [
    Case("mxf8f6f4", "e4m3", "e4m3", 1), Case("mxf4", "e2m1", "e2m1", 2),
    Case("mxf4", "e2m1", "e2m1", 2, word=".scale_vec::2X"),
    Case("mxf4nvf4", "e2m1", "e2m1", 2, word=".scale_vec::2X"),
    Case("mxf4nvf4", "e2m1", "e2m1", 4, "ue4m3", ".scale_vec::4X"),
]  # fmt: skip
IDS = [
    Case("mxf8f6f4", "e4m3", "e5m2", 1, byte=(x, 3 - x), thread=(x % 2, x)) for x in range(4)
] + [Case("mxf4", "e2m1", "e2m1", 2, byte=(2 * (x % 2), 2 - 2 * (x % 2)), thread=(x % 2, 3 - x))
     for x in range(4)]  # fmt: skip


@pytest.mark.parametrize("case", [*PLAIN, *HALF, *ONE, *MORE, *IDS], ids=str)
def test_9_7_14_5_14_every_kind_and_every_pair_of_types(case: Case) -> None:
    found, right, ran = product(case, 3)
    assert not ran.findings
    assert np.array_equal(found, right)


def test_the_thread_and_the_byte_matter() -> None:
    """With another one the scales are those that nobody should look at."""
    for case, old, new in (
        (IDS[1], "mov.u16 %rs1, 1", "mov.u16 %rs1, 2"), (IDS[1], "%rs2, 1", "%rs2, 0"),
        (IDS[1], "{2, 1}", "{2, 2}"), (IDS[1], "{2, 1}", "{1, 1}"),
    ):  # fmt: skip
        assert case.text.count(old) == 1
        found, right, _ = product(case, 3, case.text.replace(old, new))
        assert not np.array_equal(found, right)


def test_sums_that_are_rounded_follow_the_model() -> None:
    """Far apart, small terms are cut off, as the tensor core's model has it: an assumption."""
    case = Case("mxf4nvf4", "e2m1", "e2m1", 2, word=".scale_vec::2X")
    a, b, c, sa, sb = data(case, 0)
    a[:], b[:], c[:], sa[:], sb[:] = 2, 2, 0, 127, 127
    sa[..., 1] = 127 + 30
    out = np.zeros((WARPS, 32, 4), np.uint32)
    run(case.text, image(case, a, b, c, sa, sb), out, threads=32 * WARPS)
    assert (out.view(np.float32) == 32 * 2.0**30).all()


SCALED = Case("mxf4", "e2m1", "e2m1", 2)
FOUR = MORE[-1]
WRONG = [
    (SCALED, "mov.u16 %rs1, 0", "mov.u16 %rs1, 1", "byte-id-a is 1.*with 2 scales a row it is 0"),
    (FOUR, "mov.u16 %rs1, 0", "mov.u16 %rs1, 2", "byte-id-a is 2.*with 4 scales a row it is 0"),
    (SCALED, "%rs2, 0", "%rs2, 2", "thread-id-a is 2.*at most 1"),
    (SCALED, "{0, 0}", "{0, 4}", "thread-id-b is 4.*at most 3"),
    (SCALED, "mov.u16 %rs1, 0", "cvt.u16.u32 %rs1, %r1", "byte-id-a and thread-id-a differ"),
    (SCALED, "{%r6, %r7}", "{%r6}", "1 registers a thread, where 2 hold"),
    (SCALED, ".ue8m0", ".ue4m3", "the scales of kind::mxf4 are ue8m0 here, not ue4m3"),
    (FOUR, ".scale_vec::4X", "", "mma with block scales is one of"),
    (FOUR, ".scale_vec::4X", ".scale_vec::1X", "mma with block scales is one of"),
    (SCALED, "e2m1.e2m1", "e2m1.e4m3", "kind::mxf4 has not these types"),
    (SCALED, "m16n8k64", "m16n8k32", "mma of kind::mxf4 is m16n8k64"),
    (Case("f8f6f4", "e4m3", "e4m3"), "m16n8k32", "m16n8k64", "kind::f8f6f4 is m16n8k32"),
    (Case("f8f6f4", "e4m3", "e4m3"), "e4m3.f32", "f16.f32", "has A and B of 8, 6 or 4 bits"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "old", "new", "says"), WRONG, ids=[w[3][:40] for w in WRONG])
def test_what_it_has_not_is_said(case: Case, old: str, new: str, says: str) -> None:
    assert case.text.count(old) == 1
    with pytest.raises(EmulatorError, match=says):
        product(case, 0, case.text.replace(old, new))


@pytest.mark.nvcc
@pytest.mark.parametrize("case", [PLAIN[3], *HALF, ONE[7], *MORE], ids=str)
def test_ptxas_assembles_it(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(case.text)
    command = toolchain.nvcc_command("cubin", "sm_120a")
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=60)
    assert done.ok and not done.stderr, done.stderr
