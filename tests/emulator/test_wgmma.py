"""wgmma: fragments, majors, swizzles, asynchrony; the arithmetic against sums of loops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from phasebit import hardware
from phasebit.__main__ import main
from phasebit.emulator.errors import Fault, PtxError
from phasebit.emulator.numbers.formats import decode
from phasebit.emulator.numbers.swizzle import B128, NONE
from phasebit.emulator.tensor_core.matrix_descriptors import MatrixDescriptor, encode
from phasebit.emulator.tensor_core.matrix_descriptors import decode as decode_descriptor
from phasebit.emulator.tensor_core.wgmma_tiles import overlaps
from phasebit.launching.launch import Module
from proof.numbers import BYTES
from tests.emulator.wgmma_cases import CASES, DATA, HEAD, Case

Array = np.ndarray[Any, np.dtype[Any]]

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]


def byte_of(d: MatrixDescriptor, row: int, k: int, size: int, k_major: bool) -> int:
    """Where an element lies, by the formulas of PTX ISA 9.7.15.5.1, one element at a time."""
    span = d.swizzle.span if d.swizzle.bits else 0
    if k_major:
        k *= size
        if span:
            # a row longer than the span, of B beside a sparse A: as an H200 reads it
            place = row % 8 * span + row // 8 * d.stride + k % span + k // span * d.leading
        else:
            place = row % 8 * 16 + row // 8 * d.stride + k // 16 * d.leading + k % 16
    else:
        row *= size
        if span:
            place = row % span + row // span * d.leading + k % 8 * span + k // 8 * d.stride
        else:
            place = row % 16 + row // 16 * d.stride + k % 8 * 16 + k // 8 * d.leading
    address = d.start + place
    chunk = (address - d.base_offset * 128) // 128 % {0: 1, 32: 2, 64: 4, 128: 8}[span]
    return address ^ chunk * 16


def tile(image: Array, descriptor: int, rows: int, k: int, kind: str, k_major: bool) -> Array:
    """The matrix [rows, k] that a descriptor finds in an image of bytes."""
    d, size = decode_descriptor(descriptor, "wgmma"), BYTES[kind]
    bits = np.zeros((rows, k), f"u{size}")
    for row in range(rows):
        for column in range(k):
            at = byte_of(d, row, column, size, k_major)
            bits[row, column] = image[at : at + size].view(f"u{size}")[0]
    return value(bits, kind)


def value(bits: Array, kind: str) -> Array:
    if kind == "s8":
        return bits.view(np.int8).astype(np.float64)
    return bits.astype(np.float64) if kind == "u8" else decode(kind, bits).astype(np.float64)


def row_of(thread: int, i: int) -> int:
    return 16 * (thread // 32) + thread % 32 // 4 + 8 * (i >> 1 & 1)


def from_registers(fragments: Array, k: int, kind: str) -> Array:
    """A, 64 × k, from 4 registers of each of 128 threads (PTX ISA 9.7.15.5.1.1)."""
    size = BYTES[kind]
    bits = fragments.view(f"u{size}").reshape(128, -1)
    each = 4 // size
    a = np.zeros((64, k))
    for thread in range(128):
        for j in range(4 * each):
            register, e = divmod(j, each)
            column = (thread % 4 + 4 * (register >> 1)) * each + e
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (register & 1)
            a[row, column] = value(bits[thread, j : j + 1], kind)[0]
    return a


def expected(case: Case, data: dict[str, Array], block: int) -> Array:
    """D of one block in float64, where it is exact."""
    _, of_a, of_b = case.types
    image = data["image"][block]
    da, db, keep = (int(x) for x in data["descriptors"][block])
    if case.registers:
        a = from_registers(data["fragments"][block], case.k, of_a)
    else:
        a = tile(image, da, 64, case.k, of_a, not case.along[0])
    b = tile(image, db, case.n, case.k, of_b, not case.along[1]).T
    c = accumulators(data["before"][block], case) if keep else 0.0
    return np.asarray(case.signs[0] * a @ (case.signs[1] * b) + c)


def accumulators(registers: Array, case: Case) -> Array:
    """D, 64 × n, from the registers of 128 threads."""
    of_d = case.types[0]
    kind = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[of_d]
    held = registers.view(kind).reshape(128, -1)
    d = np.zeros((64, case.n))
    for thread in range(128):
        for i in range(case.n // 2):
            d[row_of(thread, i), 8 * (i >> 2) + thread % 4 * 2 + (i & 1)] = held[thread, i]
    return d


EXACT = [c for c in CASES if c.n in (8, 64) and not c.satfinite]


@pytest.mark.parametrize("case", EXACT, ids=lambda c: c.name)
def test_whole_numbers_are_exact(case: Case) -> None:
    """Random descriptors; every second block of whole numbers goes without D (scale-d)."""
    data = {name: array[::4].copy() for name, array in case.data(12).items()}
    module = Module(HEAD + case.source())
    module[case.name].launch(3, 128, list(data.values()), check=False)
    for block in range(3):
        wanted = expected(case, data, block)
        if case.types[0] == "s32":
            wanted = wanted.astype(np.int64).astype(np.int32)
        assert np.array_equal(accumulators(data["after"][block], case), wanted), block


def test_saturation() -> None:
    case = Case(("s32", "s8", "s8"), 8, satfinite=True)
    data = case.data(2)
    data["before"][:] = np.int32(2**31 - 5).view(np.uint32)
    data["descriptors"][:, 2] = 1
    Module(HEAD + case.source())[case.name].launch(2, 128, list(data.values()))
    for block in range(2):
        wanted = np.clip(expected(case, data, block), -(2**31), 2**31 - 1)
        assert np.array_equal(accumulators(data["after"][block], case), wanted)


@pytest.mark.parametrize("name", ["n64_f32_f16_f16_s_0_0_p_p", "n64_f32_e4m3_e5m2_s_0_0_p_p"])
def test_random_numbers_are_close(name: str) -> None:
    case = next(c for c in CASES if c.name == name)
    data = case.data(4)
    Module(HEAD + case.source())[case.name].launch(4, 128, list(data.values()), check=False)
    wanted = expected(case, data, 1)
    error = np.abs(accumulators(data["after"][1], case) - wanted).max()
    assert 0 < error < (2e-5 if "f16" in name else 2e-2)


def test_tiles_that_lie_on_each_other() -> None:
    assert not overlaps(MatrixDescriptor(0, 128, 256, 0, NONE), 64, 2, True)
    assert overlaps(MatrixDescriptor(0, 128, 128, 0, NONE), 64, 2, True)
    assert not overlaps(MatrixDescriptor(0, 128, 0, 0, NONE), 8, 2, True)


@pytest.mark.gpu
@pytest.mark.skipif(hardware.gpu() is None, reason="no NVIDIA GPU")
class TestOnTheGpu:
    """The same programs on Hopper: whole numbers must agree, and so must all the others."""

    @pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
    def test_agrees(self, case: Case) -> None:
        data = case.data(12)
        real = {name: array.copy() for name, array in data.items()}
        kernel = Module(HEAD + case.source())[case.name]
        kernel.launch(12, 128, list(data.values()), check=False)
        kernel.launch(12, 128, list(real.values()), device="gpu")
        width = np.uint16 if case.types[0] == "f16" else np.uint32
        wrong = data["after"].view(width) != real["after"].view(width)
        different = {what: np.count_nonzero(wrong[i::4]) for i, what in enumerate(DATA)}
        assert not any(different.values()), f"{different} of {wrong[::4].size} each"


PROGRAM = HEAD + """
.visible .entry twice(.param .u64 out, .param .u64 image)
{{
    .reg .b32 %r<16>; .reg .b64 %rd<9>; .reg .f32 %d<4>; .reg .f32 %e<4>; .reg .pred %p<4>;
    .shared .align 1024 .b8 tile[4096];
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [image];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd2, %rd2, %rd3; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r2, %r2, %r3;
    ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd2];
    st.shared.v4.u32 [%r2], {{%r4, %r5, %r6, %r7}};
    ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%rd2+2048];
    st.shared.v4.u32 [%r2+2048], {{%r4, %r5, %r6, %r7}};
    mov.f32 %d0, 0f00000000; mov.f32 %d1, 0f3F800000; mov.f32 %d2, %d0; mov.f32 %d3, %d1;
    mov.u64 %rd4, {a}; mov.u64 %rd5, {b};
    setp.lt.u32 %p1, %r1, {threads};
    setp.eq.u32 %p2, %r1, 0;
    fence.proxy.async; bar.sync 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {{%d0, %d1, %d2, %d3}}, %rd4, %rd5, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    @%p2 st.global.u32 [%rd1+8192], %r1;
    {between}
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16
        {{%d0, %d1, %d2, %d3}}, %rd4, %rd5, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    mov.f32 %e0, %d0; mov.f32 %e1, %d1; mov.f32 %e2, %d2; mov.f32 %e3, %d3;
    @!%p2 st.global.u32 [%rd1+8196], 7;
    wgmma.wait_group.sync.aligned {wait};
    add.s64 %rd6, %rd1, %rd3;
    st.global.v4.f32 [%rd6], {{%e0, %e1, %e2, %e3}};
    ret;
}}
"""

A = encode(0, 128, 256, NONE, "wgmma")
B = encode(2048, 128, 256, NONE, "wgmma")


def twice(
    schedule: str = "late", seed: int = 0, wait: int = 0, threads: int = 128, between: str = "",
    a: int = A, b: int = B, check: bool = True, block: int = 128,
) -> Any:  # fmt: skip
    """Two multiplications; D should be 2·A·B and what stood there."""
    random = np.random.default_rng(3)
    image = random.integers(-4, 5, 2048).astype(np.float16)
    out = np.zeros(2050, np.float32)
    module = Module(PROGRAM.format(a=a, b=b, wait=wait, threads=threads, between=between))
    run = module["twice"].launch(
        1, block, [out, image.view(np.uint8)], schedule=schedule, seed=seed, check=check
    )
    bits = image.view(np.uint8)
    left = tile(bits, a, 64, 16, "f16", True)
    right = tile(bits, b, 8, 16, "f16", True)
    case = Case(("f32", "f16", "f16"), 8)
    start = np.tile(np.array([0, 1, 0, 1], np.float32), 128)
    return run, accumulators(out[:512], case), left @ right.T, accumulators(start, case)


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: s[0])
def test_a_chain_survives_branches_joins_and_moves(
    schedule: tuple[str, int], check: bool
) -> None:
    """Thread 0 leaves the others and comes back while the accumulators are under way."""
    run, found, product, before = twice(*schedule, check=check)
    assert np.array_equal(found, 2 * product + before)
    assert not run.findings


def test_late_changes_the_accumulators_only_when_somebody_waits() -> None:
    _, found, product, before = twice("late", wait=2, check=False)
    assert np.array_equal(found, before)
    _, found, product, before = twice("late", wait=1, check=False)
    assert np.array_equal(found, product + before)
    _, found, product, before = twice("eager", wait=2, check=False)
    assert np.array_equal(found, 2 * product + before)


@pytest.mark.parametrize(
    ("descriptor", "words"),
    [
        (A | 1 << 46, "this is a Blackwell descriptor"),
        (A | 1 << 14, "bits 14-15 must be 0"),
        (encode(4080, 128, 256, NONE, "wgmma"), "reaches to byte .* of the block's 4096"),
        (encode(0, 128, 1024, NONE, "wgmma"), "reaches to byte"),
    ],
)
def test_wrong_descriptors_are_explained(descriptor: int, words: str) -> None:
    with pytest.raises(Fault, match=words):
        twice(a=descriptor)


def test_threads_that_disagree_on_the_descriptor() -> None:
    with pytest.raises(Fault, match="must give one descriptor of A"):
        twice(between="cvt.u64.u32 %rd4, %r3;")


def test_an_incomplete_warp_group() -> None:
    with pytest.raises(Fault, match="needs all 128 threads of the warp group"):
        twice(block=64)


@pytest.mark.parametrize(
    ("opcode", "d", "rest", "words"),
    [
        ("m64n8k8.f32.f16.f16", 4, ", 1, 1, 0, 0", "has a k of 16"),
        ("m64n8k16.f32.f16.f16", 2, ", 1, 1, 0, 0", "is 4 registers"),
        ("m64n8k16.f32.f16.bf16", 4, ", 1, 1, 0, 0", "cannot multiply"),
        ("m64n8k16.f16.bf16.bf16", 2, ", 1, 1, 0, 0", "has a D of f32"),
        ("m64n8k32.f32.e4m3.e4m3", 4, ", 1, 1, 0, 0", "takes 2 numbers"),
        ("m64n8k16.f32.f16.f16", 4, ", 2, 1, 0, 0", "one of"),
        ("m64n40k32.s32.s8.s8", 4, "", "multiple of 16"),
    ],
)
def test_wrong_operands_are_refused(opcode: str, d: int, rest: str, words: str) -> None:
    registers = ", ".join(f"%d{i}" for i in range(d))
    text = HEAD + (
        ".visible .entry k() { .reg .b32 %d<4>; .reg .b64 %a;\n"
        f"wgmma.mma_async.sync.aligned.{opcode} {{{registers}}}, %a, %a, 1{rest};\nret; }}"
    )
    with pytest.raises(PtxError, match=re.escape(words)):
        Module(text)["k"].launch(1, 128)


def test_the_command_explains(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["descriptor", hex(encode(1024 + 256, 16, 1024, B128, "wgmma"))]) == 0
    text = capsys.readouterr().out
    assert "stride offset    1024 bytes" in text and "begins in row 2" in text
    assert main(["descriptor", hex(encode(1024, 16, 1024, B128, "tcgen05"))]) == 0
    assert "tcgen05" in capsys.readouterr().out
    assert main(["descriptor", "--of", "tcgen05", hex(A)]) == 0
    assert "version 0: this is a Hopper descriptor" in capsys.readouterr().out
