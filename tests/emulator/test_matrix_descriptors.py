"""Matrix descriptors: each field, each sentence, and where each element lies, one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from phasebit.emulator.numbers import swizzle
from phasebit.emulator.tensor_core.matrix_descriptors import (
    DescriptorError,
    MatrixDescriptor,
    crooked,
    decode,
    encode,
    explain,
    field,
    folded,
    places,
)

FAMILIES = ("wgmma", "tcgen05")
MODES = [
    ("wgmma", 0, swizzle.NONE), ("wgmma", 1, swizzle.B128), ("wgmma", 2, swizzle.B64),
    ("wgmma", 3, swizzle.B32), ("tcgen05", 0, swizzle.NONE), ("tcgen05", 1, swizzle.B128_ATOM_32B),
    ("tcgen05", 2, swizzle.B128), ("tcgen05", 4, swizzle.B64), ("tcgen05", 6, swizzle.B32),
]  # fmt: skip
BLACKWELL = 1 << 46


@pytest.mark.parametrize(("family", "mode", "pattern"), MODES)
def test_which_bits_say_what(family: str, mode: int, pattern: swizzle.Swizzle) -> None:
    bits = 0x1234 | 0x2BCD << 16 | 0x0FFF << 32
    bits |= mode << 62 if family == "wgmma" else mode << 61 | BLACKWELL
    for base in (0, 5):
        whole = bits | base << 49
        assert decode(whole, family) == MatrixDescriptor(0x12340, 0x2BCD0, 0xFFF0, base, pattern)
        assert encode(0x12340, 0x2BCD0, 0xFFF0, pattern, family, base) == whole
    assert encode(0x52340, 0x6BCD0, 0x4FFF0, pattern, family) == bits  # what has no room is cut off


def test_a_field_of_bits() -> None:
    assert [field(0b1011010, low, 3) for low in range(5)] == [2, 5, 6, 3, 5]


@pytest.mark.parametrize(("family", "bits", "says"), [
    ("wgmma", 1 << 14, "bits 14-15 must be 0; addresses and offsets are written divided by 16"),
    ("wgmma", 1 << 15, "bits 14-15 must be 0"), ("wgmma", 1 << 31, "bits 30-31 must be 0"),
    ("wgmma", 1 << 30, "bits 30-31 must be 0"), ("wgmma", 1 << 47, "bits 46-48 must be 0"),
    ("wgmma", 1 << 48, "bits 46-48 must be 0"), ("wgmma", 1 << 52, "bits 52-61 must be 0"),
    ("wgmma", 1 << 61, "bits 52-61 must be 0"),
    ("wgmma", 1 << 46,
     "bits 46-47 are 1: this is a Blackwell descriptor (tcgen05); wgmma wants zeros "
     "there, and its swizzle in bits 62-63"),
    ("tcgen05", 0,
     "version 0: this is a Hopper descriptor (wgmma); tcgen05 wants 1 in bits 46-48, and "
     "its swizzle in bits 61-63: 1 128B with atoms of 32B, 2 128B, 4 64B, 6 32B"),
    ("tcgen05", 2 << 46, "bits 46-48 are 010 and must be 001"),
    ("tcgen05", 5 << 46, "bits 46-48 are 101 and must be 001"),
    ("tcgen05", BLACKWELL | 1 << 52,
     "bit 52 asks for an absolute leading address, which only sm_103a "
     "has (K = 96); set it to 0"),
    ("tcgen05", BLACKWELL | 1 << 53, "bits 53-60 must be 0"),
    ("tcgen05", BLACKWELL | 1 << 60, "bits 53-60 must be 0"),
    ("tcgen05", BLACKWELL | 3 << 61,
     "swizzle 3 is none; there are: 0 none, 1 128B, atoms of 32B, 2 "
     "128B, 4 64B, 6 32B"),
    ("tcgen05", BLACKWELL | 7 << 61, "swizzle 7 is none; there are: "),
])  # fmt: skip
def test_what_is_no_descriptor(family: str, bits: int, says: str) -> None:
    with pytest.raises(DescriptorError) as raised:
        decode(bits, family)
    assert str(raised.value).startswith(f"matrix descriptor {bits:#018x}: {says}")
    shown = explain(bits, family).splitlines()
    assert shown[0] == f"{family} matrix descriptor {bits:#018x}"
    assert shown[-1].startswith(f"  wrong: {says}")


def test_bits_that_nobody_looks_at() -> None:
    assert decode(BLACKWELL | 1 << 14 | 1 << 31, "tcgen05") == decode(BLACKWELL, "tcgen05")


def test_a_descriptor_in_words() -> None:
    bits = encode(0x12340, 0x500, 0x600, swizzle.B64, "wgmma", 3)
    assert explain(bits, "wgmma").splitlines()[1:] == [
        "  bits  0-13  start address    0x12340", "  bits 16-29  leading offset   1280 bytes",
        "  bits 32-45  stride offset    1536 bytes", "  bits 46-48  version          0",
        "  bits 49-51  base offset      3", "  bits 62-63  swizzle          2: 64B",
        "  the matrix begins in row 2 of the 64B swizzle's pattern, but the base offset is 3: "
        "align it to 512 bytes",
    ]  # fmt: skip
    blackwell = explain(encode(0x400, 0, 0, swizzle.B128, "tcgen05"), "tcgen05").splitlines()
    assert blackwell[4:] == [
        "  bits 46-48  version          1", "  bits 49-51  base offset      0",
        "  bits 61-63  swizzle          2: 128B",
    ]  # fmt: skip
    assert "  bits 61-63  swizzle          5: none such" in explain(BLACKWELL | 5 << 61, "tcgen05")


@pytest.mark.parametrize(("start", "pattern", "base", "row"), [
    (0, swizzle.B128, 0, None), (0x7F, swizzle.B128, 0, None), (0x80, swizzle.B128, 0, 1),
    (0x380, swizzle.B128, 7, None), (0x400, swizzle.B128, 0, None), (0x400, swizzle.B128, 1, 0),
    (0x180, swizzle.B64, 0, 3), (0x200, swizzle.B64, 0, None), (0x80, swizzle.B32, 0, 1),
    (0x80, swizzle.NONE, 3, None),
])  # fmt: skip
def test_where_a_pattern_begins(
    start: int, pattern: swizzle.Swizzle, base: int, row: int | None
) -> None:
    said = crooked(MatrixDescriptor(start, 0, 0, base, pattern))
    wanted = "" if row is None else (
        f"the matrix begins in row {row} of the {pattern.name} swizzle's pattern, but the base "
        f"offset is {base}: align it to {pattern.repeat} bytes"
    )  # fmt: skip
    assert said == wanted


SHAPES = [(8, 4), (32, 16), (64, 24)]


@pytest.mark.parametrize("base", [0, 3])
@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("pattern", [swizzle.NONE, swizzle.B32, swizzle.B64, swizzle.B128,
                                     swizzle.B128_ATOM_32B], ids=lambda p: p.name)  # fmt: skip
def test_9_7_16_3_where_each_element_lies(
    pattern: swizzle.Swizzle, width: int, mn_major: bool, base: int
) -> None:
    start, leading, stride = 0x1470, 0x2000, 0x900
    found = MatrixDescriptor(start, leading, stride, base, pattern)
    for rows, depth in SHAPES:
        got = places(found, rows, depth, width, mn_major)
        assert got.shape == (rows, depth)
        for r, k in itertools.product(range(rows), range(depth)):
            span = pattern.span if pattern.bits else 16
            if not mn_major:
                at = k * width
                linear = r % 8 * span + r // 8 * stride + at // span * leading + at % span
            else:
                lines = 4 if pattern is swizzle.B128_ATOM_32B else 8
                right, down = (leading, stride) if pattern.bits else (stride, leading)
                at = r * width
                linear = at % span + at // span * right + k % lines * span + k // lines * down
            assert got[r, k] == pattern(start + linear, base << 7), (r, k)


def test_places_are_kept_and_not_to_be_changed() -> None:
    one = MatrixDescriptor(0x400, 128, 256, 0, swizzle.NONE)
    first = places(one, 64, 16, 2, False)
    first += 1
    again = places(one, 64, 16, 2, False)
    assert np.array_equal(first, again + 1)
    far = MatrixDescriptor(0x400 + (7 << 10), 128, 256, 0, swizzle.NONE)
    assert np.array_equal(places(far, 64, 16, 2, False), again + (7 << 10))


@pytest.mark.parametrize(("leading", "stride", "twice"), [
    (128, 256, False), (0, 256, True), (128, 128, True), (128, 0, True), (1024, 128, False),
    (64, 256, True),
])  # fmt: skip
def test_two_elements_at_one_place(leading: int, stride: int, twice: bool) -> None:
    found = MatrixDescriptor(0x400, leading, stride, 0, swizzle.NONE)
    assert folded(found, 64, 16, 2, False) is twice


@pytest.mark.parametrize("family", FAMILIES)
def test_numpy_s_numbers_are_numbers(family: str) -> None:
    bits = encode(0x400, 16, 1024, swizzle.B128, family)
    assert decode(np.uint64(bits), family) == decode(bits, family)
