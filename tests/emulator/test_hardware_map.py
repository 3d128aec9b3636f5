"""Tensor maps that host code writes without the driver.

The words were read off maps that CuTe DSL 4.8.1 made of tensors whose extents were given.
"""

from __future__ import annotations

import struct

import pytest

from phasebit.emulator.copy_engine.tensormap import decode, problem, replaced
from phasebit.emulator.errors import LaunchError

A = 0x7000_0000_1000


def image(*quads: int) -> bytes:
    """128 bytes of which the first are given, as 64-bit words; the others are anything."""
    return struct.pack(f"<{len(quads)}Q", *quads).ljust(64, b"\0") + b"\x55" * 64


SEEN = {
    "f32 of 100 x 200": (
        image(A, 0x0000003200040392, 0, 0, 0x00000063000000C7, 0, 0x3F00000000000000, 0x1F),
        ("f32", (200, 100), (800,), (64, 32), "none"),
    ),
    "tf32": (
        image(A, 0x0000003400250392, 0, 0, 0x0000012B000000CF, 0, 0x1F00000000000000, 0x0F),
        ("tf32", (208, 300), (832,), (32, 16), "none"),
    ),
    "bf16": (
        image(A, 0x0000001A00040512, 0, 0, 0x0000012B000000CF, 0, 0x1F00000000000000, 0x0F),
        ("bf16", (208, 300), (416,), (32, 16), "none"),
    ),
    "f16, 128B": (
        image(A, 0x0000001A00046312, 0, 0, 0x0000012B000000CF, 0, 0x3F00000000000000, 0x0F),
        ("f16", (208, 300), (416,), (64, 16), "128B"),
    ),
    "f32, 128B in atoms of 32": (
        image(A, 0x00000034002C6392, 0, 0, 0x0000012B000000CF, 0, 0x1F00000000000000, 0x0F),
        ("f32", (208, 300), (832,), (32, 16), "128B_ATOM_32B"),
    ),
    "f64": (
        image(A, 0x0000006800240492, 0, 0, 0x0000012B000000CF, 0, 0x1F00000000000000, 0x0F),
        ("f64", (208, 300), (1664,), (32, 16), "none"),
    ),
    "4-bit": (
        image(A, 0x0000000800040592, 0, 0, 0x0000012B000000FF, 0, 0x3F00000000000000, 0x0F),
        ("b4x16", (256, 300), (128,), (64, 16), "none"),
    ),
    "one dimension": (
        image(A, 0x0000000000040302, 0, 0, 0x0000000000000FFF, 0, 0x3F00000000000000),
        ("f16", (4096,), (), (64,), "none"),
    ),
    "five": (
        image(A, 0x0000001A00240342, 0x0001C90800001E78, 0x9858, 0x0000012B000000CF,
              0x0000000600000004, 0x1F00000000000002, 0x1010F),
        ("f16", (208, 300, 5, 7, 3), (416, 124800, 1872000, 624000), (32, 16, 2, 2, 1), "none"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_what_was_given_is_read_and_the_rest_does_not_count(name):
    made, (data_type, dims, strides, box, swizzle) = SEEN[name]
    d = decode(made)
    assert d is not None and d.address == A
    assert (d.data_type, d.dims, d.strides, d.box, d.swizzle) == (
        data_type, dims, strides, box, swizzle,
    )  # fmt: skip
    assert d.element_strides == (1,) * len(dims) and problem(d) == ""


@pytest.mark.parametrize("name", SEEN)
def test_it_is_written_as_it_was_read(name):
    made = SEEN[name][0]
    d = decode(made)
    assert d is not None
    large = 1 << 21  # a hint that follows from the extents, and changes no copy
    flags = struct.unpack_from("<I", made, 8)[0] & ~large
    assert d.encode()[:64] == made[:8] + struct.pack("<I", flags) + made[12:64]


@pytest.mark.parametrize("bit", [0, 3, 15, 22, 31])
def test_a_bit_that_was_never_seen_makes_it_none(bit):
    made = bytearray(SEEN["bf16"][0])
    made[8 + bit // 8] ^= 1 << bit % 8
    assert decode(bytes(made)) is None


def test_nothing_is_read_into_zeros_or_noise():
    assert decode(bytes(128)) is None
    assert decode(bytes(range(128))) is None


def test_fields_are_replaced_in_place():
    made = SEEN["f16, 128B"][0]
    for field, ordinal, value in (
        ("global_address", 0, A + 4096), ("global_dim", 1, 40), ("global_stride", 0, 512),
        ("box_dim", 1, 8), ("swizzle_mode", 0, 2), ("elemtype", 0, 10),
    ):  # fmt: skip
        made = replaced(made, field, ordinal, value)
        assert len(made) == 128 and made[64:] == b"\x55" * 64
    d = decode(made)
    assert d is not None
    assert (d.address, d.dims, d.strides, d.box) == (A + 4096, (208, 40), (512,), (64, 8))
    assert (d.swizzle, d.data_type) == ("64B", "bf16")


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "words"),
    [
        ("global_dim", 5, 1, "has 5 ordinals"),
        ("rank", 0, 5, "more than 5"),
        ("elemtype", 0, 16, "there is no element type 16"),
    ],
)
def test_what_cannot_be_replaced_is_a_sentence(field, ordinal, value, words):
    with pytest.raises(LaunchError, match=words):
        replaced(SEEN["f16, 128B"][0], field, ordinal, value)


def test_a_dimension_more():
    d = decode(replaced(SEEN["f16, 128B"][0], "rank", 0, 2))
    assert d is not None and (d.rank, d.dims, d.box) == (3, (208, 300, 1), (64, 16, 1))
