"""Swizzles and matrix descriptors, each rule named after its section of the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.__main__ import main
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.tensor_core import (
    descriptor_words,
    instruction_descriptors,
    scaled_descriptors,
)
from phasebit.emulator.tensor_core.matrix_descriptors import (
    DescriptorError,
    decode,
    encode,
    explain,
    places,
)

ALL = [swizzle.NONE, swizzle.B32, swizzle.B64, swizzle.B128, swizzle.B128_ATOM_32B,
       swizzle.B128_ATOM_32B_FLIP_8B, swizzle.B128_ATOM_64B]  # fmt: skip


@pytest.mark.parametrize("pattern", ALL, ids=lambda p: p.name)
def test_5_5_7_a_swizzle_is_its_own_inverse_and_stays_in_its_pattern(
    pattern: swizzle.Swizzle,
) -> None:
    address = np.arange(4096)
    moved = pattern(address)
    assert np.array_equal(pattern(moved), address)
    assert np.array_equal(moved // pattern.span, address // pattern.span)
    if pattern.bits:
        assert np.array_equal(moved[: pattern.repeat] + pattern.repeat,
                              moved[pattern.repeat : 2 * pattern.repeat])  # fmt: skip


@pytest.mark.parametrize("pattern", [swizzle.B32, swizzle.B64, swizzle.B128])
def test_5_5_7_a_column_of_sixteen_bytes_touches_every_bank_group_evenly(
    pattern: swizzle.Swizzle,
) -> None:
    """Eight rows of a K-major matrix: what one phase of a matrix load reads."""
    column = pattern(np.arange(8) * pattern.span)
    assert len(np.unique(column % 128 // 16)) == 8


def test_5_5_7_the_rows_of_the_128_byte_pattern() -> None:
    """Row r holds its piece p at place p ^ r."""
    row, piece = np.divmod(np.arange(64), 8)
    assert np.array_equal(swizzle.B128(16 * np.arange(64)) // 16, 8 * row + (piece ^ row))


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_5_5_7_the_function_of_a_row_length_is_the_same_swizzle(span: int) -> None:
    address = np.arange(4096)
    assert np.array_equal(swizzle.swizzled(address, span), swizzle.SPANS[span](address))


@pytest.mark.parametrize("family", ["wgmma", "tcgen05"])
def test_9_7_16_4_1_what_is_encoded_is_decoded(family: str) -> None:
    for pattern in ALL[:4]:
        found = decode(encode(0x12340, 0x500, 0x3FFF0, pattern, family, 5), family)
        assert (found.start, found.leading, found.stride) == (0x12340, 0x500, 0x3FFF0)
        assert (found.base_offset, found.swizzle) == (5, pattern)


def test_9_7_16_4_1_a_descriptor_of_the_other_generation_is_explained() -> None:
    hopper = encode(0x400, 16, 1024, swizzle.B128, "wgmma")
    with pytest.raises(DescriptorError, match="version 0: this is a Hopper descriptor"):
        decode(hopper, "tcgen05")
    assert "Hopper" in explain(hopper, "tcgen05")
    with pytest.raises(DescriptorError, match="this is a Blackwell descriptor"):
        decode(encode(0x400, 16, 1024, swizzle.B128, "tcgen05"), "wgmma")


@pytest.mark.parametrize("bits", [1 << 46 | 3 << 61, 2 << 46, 1 << 46 | 1 << 52, 1 << 46 | 1 << 53])
def test_9_7_16_4_1_fields_that_must_not_be_so(bits: int) -> None:
    with pytest.raises(DescriptorError):
        decode(bits, "tcgen05")


@pytest.mark.parametrize("mn_major", [False, True], ids=["K-major", "MN-major"])
@pytest.mark.parametrize("pattern", ALL[:4], ids=lambda p: p.name)
@pytest.mark.parametrize("width", [1, 2, 4])
def test_9_7_16_3_3_a_tile_fills_its_bytes(
    width: int, pattern: swizzle.Swizzle, mn_major: bool
) -> None:
    """Every element has a place of its own, and together they fill a stretch without a hole."""
    rows, depth = 64, 32 // width
    if mn_major and pattern.span > rows * width:
        rows = pattern.span // width
    if not mn_major and pattern.bits:
        depth = pattern.span // width
    groups = depth // 8 if mn_major else rows // 8
    if mn_major:
        span, pieces = pattern.span, rows * width // pattern.span
        distances = (span * 8 * max(groups, 1), span * 8)
        if depth % 8:
            depth, distances = 8, (span * 8, span * 8)
        leading, stride = distances if pattern.bits else distances[::-1]
        assert pieces
    else:
        leading, stride = rows * 16, 8 * (pattern.span if pattern.bits else 16)
    bits = encode(2048, leading, stride, pattern, "tcgen05")
    found = places(decode(bits, "tcgen05"), rows, depth, width, mn_major)
    assert np.array_equal(np.sort(found.ravel()), 2048 + np.arange(rows * depth) * width)


def test_9_7_16_3_3_a_step_along_k_is_an_addition_to_the_start() -> None:
    """Within a swizzled row, 32 bytes further the same descriptor reads the next slice."""
    whole = places(decode(encode(1024, 16, 1024, swizzle.B128, "tcgen05"), "tcgen05"),
                   64, 64, 2, False)  # fmt: skip
    for step in range(4):
        bits = encode(1024 + 32 * step, 16, 1024, swizzle.B128, "tcgen05")
        part = places(decode(bits, "tcgen05"), 64, 16, 2, False)
        assert np.array_equal(part, whole[:, 16 * step : 16 * step + 16])


def test_9_7_16_4_2_a_descriptor_with_scales_is_encoded_and_decoded() -> None:
    for kind, per_row, scale, a, b in (
        ("mxf8f6f4", 1, "ue8m0", "e3m2", "e5m2"), ("mxf4", 2, "ue8m0", "e2m1", "e2m1"),
        ("mxf4nvf4", 4, "ue4m3", "e2m1", "e2m1"),
    ):  # fmt: skip
        for a_id in scaled_descriptors.IDS[per_row]:
            bits = scaled_descriptors.encode(
                kind, 80, a, b, scale, m=256, a_id=a_id, b_id=scaled_descriptors.IDS[per_row][-1],
                negate_b=True,
            )  # fmt: skip
            found = scaled_descriptors.decode(bits, kind, per_row, 2)
            assert (found.m, found.n, found.a, found.b, found.scale) == (256, 80, a, b, scale)
            assert (found.a_id, found.b_id) == (a_id, scaled_descriptors.IDS[per_row][-1])
            assert (found.negate_a, found.negate_b) == (False, True)


def test_9_7_16_4_2_every_bit_of_a_descriptor_has_one_name() -> None:
    for kind in descriptor_words.KINDS:
        bits = [b for low, width, *_ in descriptor_words.fields(0, kind)
                for b in range(low, low + width)]  # fmt: skip
        assert len(bits) == len(set(bits))
        unnamed = {3, 6, 23, 24, 25, 26, 29, 31, 12}  # reserved in some of the kinds
        assert set(range(32)) - set(bits) <= unnamed


@pytest.mark.parametrize(("words", "says"), [
    (["0x08200010"], ["of kind::f16", "of kind::f8f6f4", "cta_group::1: kind::f16: D f32 (128"]),
    (["0x08840480", "--kind", "mxf4nvf4"], ["type of scales               1: ue8m0",
                                            "cta_group::1, 4 scales a row: kind::mxf4nvf4"]),
    (["0x08040010", "--kind", "mxf8f6f4"], ["looks like a descriptor of kind::f8f6f4"]),
    (["0x28840480", "--kind", "mxf4"], ["id of A's scales             1", "it is 0 or 2"]),
    (["0"], ["no kind of tcgen05.mma takes"]),
    (["0x4000404000010040"], ["tcgen05 matrix descriptor", "128B"]),
    (["0x4000000000000040", "--of", "wgmma"], ["wgmma matrix descriptor"]),
])  # fmt: skip
def test_the_command_explains_descriptors(
    words: list[str], says: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["descriptor", *words]) == 0
    printed = capsys.readouterr().out
    for text in says:
        assert text in printed


def test_the_command_knows_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["descriptor", "0", "--kind", "fp4"]) == 2
    assert "it has f16, tf32" in capsys.readouterr().err


def test_9_7_16_4_2_the_shapes_of_weights() -> None:
    bits = instruction_descriptors.encode("f16", 32, 64, "f16", "f16", "f32")
    assert instruction_descriptors.decode(bits, "f16", weights=True).m == 32
    with pytest.raises(instruction_descriptors.InstructionDescriptorError, match="M = 32"):
        instruction_descriptors.decode(bits, "f16")


F16 = instruction_descriptors.encode("f16", 64, 16, "f16", "f16", "f32")
TF32 = instruction_descriptors.encode("tf32", 64, 16, "tf32", "tf32", "f32")
F8 = instruction_descriptors.encode("f8f6f4", 64, 16, "e4m3", "e5m2", "f32")
I8 = instruction_descriptors.encode("i8", 64, 16, "u8", "s8", "s32")


@pytest.mark.parametrize(
    ("kind", "right", "changed", "words"),
    [
        ("f16", F16, 1 << 3, "bit 3, saturation, is for kind::i8 only"),
        ("tf32", TF32, 1 << 3, "bit 3, saturation, is for kind::i8 only"),
        ("f8f6f4", F8, 1 << 3, "bit 3, saturation, is for kind::i8 only"),
        ("i8", I8, 1 << 13, "bits 13 and 14, negation, are not for kind::i8"),
        ("i8", I8, 1 << 14, "bits 13 and 14, negation, are not for kind::i8"),
        ("f16", F16, 1 << 2, "bit 2 asks for a sparse A"),
        ("f16", F16, 1 << 0, "bits 0-1 must be 0"),
        ("f16", F16, 1 << 6, "bits 6-6 must be 0"),
        ("f16", F16, 1 << 23, "bits 23-23 must be 0"),
        ("f16", F16, 1 << 31, "bits 29-31 must be 0"),
        ("f16", F16, 3 << 4, "type 2 of D is none of kind::f16, which has: 0 f16, 1 f32"),
        ("f16", F16, 2 << 7, "type 2 of A is none of kind::f16, which has: 0 f16, 1 bf16"),
        ("f16", F16, 7 << 10, "type 7 of B is none of kind::f16"),
        ("f8f6f4", F8, 2 << 7, "type 2 of A is none of kind::f8f6f4"),
        ("f16", F16, 8 << 24, "M = 192; with cta_group::1 it is 64 or 128"),
        ("f16", F16, 2 << 17, "N = 0; with M = 64 it is a multiple of 8 up to 256"),
        ("f16", F16, 0x23 << 17, "N = 264; with M = 64 it is a multiple of 8 up to 256"),
    ],
)
def test_9_7_16_4_2_a_descriptor_that_no_multiplication_takes(
    kind: str, right: int, changed: int, words: str
) -> None:
    """`changed`: the bits that are the other way round."""
    assert instruction_descriptors.decode(right, kind).kind == kind
    with pytest.raises(instruction_descriptors.InstructionDescriptorError, match=words):
        instruction_descriptors.decode(right ^ changed, kind)


def test_9_7_16_4_2_what_only_some_kinds_have() -> None:
    assert instruction_descriptors.decode(I8 | 1 << 3, "i8").saturate
    for kind, bits in (("f16", F16), ("tf32", TF32), ("f8f6f4", F8)):
        made = instruction_descriptors.decode(bits | 1 << 13, kind)
        assert (made.negate_a, made.negate_b) == (True, False)
