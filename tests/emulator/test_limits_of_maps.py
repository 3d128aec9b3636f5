"""The numbers of a tensor map at their limits: the last that is allowed, the first that is not.

The rules of the driver's ``cuTensorMapEncodeTiled``, and what PTX ISA 9.7.9.28 lets a kernel
replace.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from phasebit.emulator.copy_engine.tensormap import (
    BLANK,
    HALF,
    TYPES,
    Descriptor,
    decode,
    described,
    problem,
    replaced,
)
from phasebit.emulator.errors import LaunchError

PLAIN = Descriptor("f16", 4096, (64, 64), (128,), (64, 8), (1, 1))
SLICES = Descriptor("f16", 4096, (64, 8, 4), (16, 512), (8, 4, 2), (1, 1, 1), "16B")
FOUR = Descriptor("b4x16_p64", 4096, (256, 64), (128,), (128, 8), (1, 1))
SIX = Descriptor("b6x16_p32", 4096, (256, 64), (192,), (128, 8), (1, 1))
WINDOW = Descriptor("f16", 4096, (64, 10, 9, 2), (128, 1280, 11520), (64, 32), (1, 1, 1, 1),
                    mode="im2col", lower=(-1, -2), upper=(-1, 1))  # fmt: skip


def fresh(made: Descriptor) -> Descriptor:
    """The same, whose words are not the very strings that they are compared with."""
    words = {
        field.name: "".join(value) for field in dataclasses.fields(made)
        if isinstance(value := getattr(made, field.name), str)
    }  # fmt: skip
    return dataclasses.replace(made, **words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "right", "wrong", "words"),
    [
        (PLAIN, {"address": 16}, {"address": 24}, "0x18, which is no multiple of 16 bytes"),
        (FOUR, {"address": 32}, {"address": 16}, "0x10, which is no multiple of 32 bytes"),
        (SLICES, {"address": 16}, {"address": 8}, "0x8, which is no multiple of 16 bytes"),
        (SLICES, {"interleave": "32B", "strides": (32, 512)}, {"interleave": "32B"},
         "stride of dimension 1 is 16 bytes; it must be a multiple of 32"),
        (PLAIN, {"dims": (64, 1)}, {"dims": (64, 0)}, "dimension 1 has 0 elements"),
        (PLAIN, {"dims": (1 << 32, 64)}, {"dims": ((1 << 32) + 1, 64)}, "dimension 0 has 42949672"),
        (PLAIN, {"strides": (0,)}, {"strides": (-16,)}, "stride of dimension 1 is -16 bytes"),
        (PLAIN, {"strides": ((1 << 40) - 16,)}, {"strides": (1 << 40,)}, r"below 2\^40"),
        (PLAIN, {"box": (8, 256)}, {"box": (8, 257)}, "257 elements in dimension 1"),
        (PLAIN, {"box": (8, 1)}, {"box": (8, 0)}, "0 elements in dimension 1"),
        (PLAIN, {"box": (8, 8)}, {"box": (4, 8)}, "8 bytes in dimension 0, .* multiple of 16"),
        (PLAIN, {"element_strides": (8, 8)}, {"element_strides": (1, 9)}, "dimension 1 is 9"),
        (PLAIN, {"element_strides": (1, 1)}, {"element_strides": (0, 1)}, "dimension 0 is 0"),
        (WINDOW, {"box": (64, 1024)}, {"box": (64, 1025)}, "1025 elements in dimension 1"),
        (WINDOW, {"box": (256, 32)}, {"box": (257, 32)}, "257 elements in dimension 0"),
        (WINDOW, {}, {"box": (64, 32, 1)}, "box needs 2 numbers for 4 dimensions, not 3"),
        (WINDOW, {"lower": (-128, -128)}, {"lower": (-129, 0)}, "lower .* from -128 to 127"),
        (WINDOW, {"upper": (127, 127)}, {"upper": (127, 128)}, "upper .* from -128 to 127"),
        (WINDOW, {"upper": (-10, 1)}, {"upper": (-11, 1)}, "window between the corners is empty"),
        (WINDOW, {"upper": (-1, -10)}, {"upper": (-1, -11)}, "window .* is empty"),
        (SLICES, {}, {"dims": (64, 8), "strides": (16,), "box": (8, 4), "element_strides": (1, 1)},
         "interleaved tensor has at least 3 dimensions, not 2"),
        (FOUR, {"dims": (128, 64)}, {"dims": (192, 64)}, "b4x16_p64 needs rows of 128 elements"),
        (FOUR, {}, {"box": (64, 8)}, "a box of b4x16_p64 has 128 elements in dimension 0"),
        (FOUR, {"swizzle": "128B_ATOM_32B"}, {"swizzle": "128B_ATOM_64B"},
         "takes the swizzles none, 128B, 128B_ATOM_32B, not 128B_ATOM_64B"),
        (SIX, {"swizzle": "128B_ATOM_64B"}, {"swizzle": "64B"}, "not 64B"),
        (SLICES, {}, {"data_type": "b6x16_p32", "dims": (128, 8, 4), "box": (128, 4, 2),
                      "strides": (96, 960)}, "b6x16_p32 cannot be interleaved"),
        (PLAIN, {"data_type": "b4x16", "box": (32, 8)},
         {"data_type": "b4x16", "box": (32, 8), "dims": (63, 64)}, "4-bit elements come in pairs"),
        (PLAIN, {"box": (64, 8), "swizzle": "128B"}, {"box": (72, 8), "swizzle": "128B"},
         "144 bytes in dimension 0; swizzle 128B allows 128"),
        (SLICES, {"swizzle": "32B", "box": (64, 4, 2)}, {"swizzle": "32B", "interleave": "none",
                                                          "box": (64, 4, 2)}, "allows 32"),
        (PLAIN, {"oob_fill": "nan"}, {"oob_fill": "nan", "data_type": "u16"},
         "only floating-point elements can be filled with NaN, and u16 is none"),
        (PLAIN, {"data_type": "tf32", "box": (32, 8), "oob_fill": "nan"},
         {"data_type": "s32", "box": (32, 8), "oob_fill": "nan"}, "and s32 is none"),
    ],
)  # fmt: skip
def test_the_last_that_is_allowed_and_the_first_that_is_not(
    made: Descriptor, right: dict[str, Any], wrong: dict[str, Any], words: str
) -> None:
    assert problem(made) == "" and problem(fresh(dataclasses.replace(made, **right))) == ""
    with pytest.raises(LaunchError, match=words):
        fresh(dataclasses.replace(made, **wrong)).check()


@pytest.mark.parametrize(
    ("box", "steps", "fits"),
    [((256, 227, 2), (1, 1, 1), True), ((256, 228, 2), (1, 1, 1), False),
     ((256, 255, 3), (1, 2, 1), True), ((256, 256, 4), (1, 8, 2), True),
     ((256, 228, 4), (1, 1, 2), False)],
)  # fmt: skip
def test_a_box_fits_shared_memory_as_the_driver_counts(
    box: tuple[int, ...], steps: tuple[int, ...], fits: bool
) -> None:
    """232,448 bytes, and each extent divided by its element stride, rounded down."""
    made = Descriptor("f16", 0, (256, 256, 64), (512, 1 << 17), box, steps)
    assert (problem(made) == "") is fits, problem(made)


@pytest.mark.parametrize("kind", TYPES)
def test_a_type_says_how_many_bits_an_element_has(kind: str) -> None:
    made = dataclasses.replace(PLAIN, data_type="".join(kind))
    (bits,) = re.findall(r"^[a-z]+(\d+)", kind)
    assert made.bits == int(bits) and dataclasses.replace(made, unit=32).bits == 256
    assert made.nbytes == 64 * 8 * int(bits) // 8 and made.row == 64 * int(bits) // 8


def test_a_window_fits_shared_memory() -> None:
    assert problem(dataclasses.replace(WINDOW, box=(256, 454), element_strides=(2,) * 4)) == ""
    with pytest.raises(LaunchError, match="the box has 232960 bytes; 232448"):
        dataclasses.replace(WINDOW, box=(256, 455)).check()


@pytest.mark.parametrize(("rank", "most"), [(3, 1 << 15), (4, 1 << 7), (5, 1 << 4)])
def test_how_far_a_windows_corners_go(rank: int, most: int) -> None:
    extents = (64, *[1 << 16] * (rank - 2), 2)
    made = Descriptor("f16", 4096, extents, tuple(128 << 5 * i for i in range(rank - 1)), (64, 8),
                      (1,) * rank, mode="im2col", lower=(-most,) * (rank - 2),
                      upper=(most - 1,) * (rank - 2))  # fmt: skip
    assert problem(made) == ""
    words = f"needs {rank - 2} numbers from {-most} to {most - 1}"
    for wrong in ({"lower": (-most - 1,)}, {"upper": (most,)}):
        ((name, (n,)),) = wrong.items()
        assert words in problem(dataclasses.replace(made, **{name: (n,) * (rank - 2)}))  # type: ignore[arg-type]


def test_a_window_that_is_interleaved_has_its_slices_last_but_one() -> None:
    made = Descriptor("f16", 4096, (10, 9, 4, 2), (16, 160, 1440), (8, 8), (1, 1, 1, 1), "16B",
                      mode="im2col", lower=(0, 0), upper=(-9, -8))  # fmt: skip
    assert problem(made) == ""
    assert "is empty" in problem(dataclasses.replace(made, upper=(-10, -8)))
    assert "is empty" in problem(dataclasses.replace(made, upper=(-9, -9)))


def test_the_driver_has_32_bits_for_the_end_of_a_window() -> None:
    made = dataclasses.replace(WINDOW, dims=(64, 1 << 32, 9, 2), upper=(0, 1))
    assert problem(made) == "" and "is empty" in problem(dataclasses.replace(made, lower=(0, -2)))


@pytest.mark.parametrize("rank", [2, 6])
def test_a_window_has_three_to_five_dimensions(rank: int) -> None:
    made = Descriptor("f16", 4096, (64,) * rank, (128,) * (rank - 1), (64, 8), (1,) * rank,
                      mode="im2col", lower=(0,) * (rank - 2), upper=(0,) * (rank - 2))  # fmt: skip
    assert "dimensions, not" in problem(made)


def test_an_element_stride_innermost_counts_between_slices_alone() -> None:
    """5.5.6: of interleaved channels the innermost dimension is the width."""
    assert dataclasses.replace(PLAIN, element_strides=(2, 1)).nbytes == 64 * 8 * 2
    assert SLICES.nbytes == 8 * 1 * 2 * 16
    assert dataclasses.replace(SLICES, element_strides=(2, 1, 1)).nbytes == 4 * 1 * 2 * 16


@pytest.mark.parametrize(
    ("changes", "row", "pitch", "nbytes", "footprint"),
    [
        ({}, 128, 128, 1024, 1024),
        ({"box": (24, 3)}, 48, 48, 144, 144),
        ({"box": (24, 3), "swizzle": "64B"}, 48, 64, 144, 176),
        ({"box": (16, 5), "swizzle": "128B"}, 32, 128, 160, 544),
        ({"box": (16, 5), "element_strides": (1, 2), "swizzle": "32B"}, 32, 32, 96, 96),
        ({"box": (8, 3), "data_type": "f32", "swizzle": "128B"}, 32, 128, 96, 288),
    ],
)
def test_where_the_rows_of_a_box_begin(
    changes: dict[str, Any], row: int, pitch: int, nbytes: int, footprint: int
) -> None:
    made = dataclasses.replace(PLAIN, **changes)
    assert (made.row, made.pitch, made.nbytes, made.footprint) == (row, pitch, nbytes, footprint)


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "name", "wanted"),
    [
        ("global_address", 0, 1 << 40, "address", 1 << 40),
        ("rank", 0, 0, "dims", (64,)),
        ("rank", 0, 4, "dims", (64, 64, 1, 1, 1)),
        ("global_dim", 1, 1, "dims", (64, 1)),
        ("global_dim", 0, 1 << 32, "dims", (1 << 32, 64)),
        ("global_stride", 0, 0, "strides", (0,)),
        ("global_stride", 0, 48, "strides", (48,)),
        ("box_dim", 0, 256, "box", (256, 8)),
        ("box_dim", 1, 1, "box", (64, 1)),
        ("element_stride", 1, 8, "element_strides", (1, 8)),
        ("elemtype", 0, 0, "data_type", "u8"),
        ("elemtype", 0, 11, "data_type", "tf32"),
        ("elemtype", 0, 12, "data_type", "tf32.ftz"),
        ("elemtype", 0, 15, "data_type", "b6x16_p32"),
        ("interleave_layout", 0, 2, "interleave", "32B"),
        ("swizzle_mode", 0, 3, "swizzle", "128B"),
        ("fill_mode", 0, 1, "oob_fill", "nan"),
    ],
)
def test_one_field_is_replaced_and_no_other(
    field: str, ordinal: int, value: int, name: str, wanted: Any
) -> None:
    before = PLAIN.encode()[:HALF] + b"\x77" * HALF
    image = replaced(before, field, ordinal, value)
    made = decode(image)
    assert made is not None and getattr(made, name) == wanted and image[HALF:] == before[HALF:]
    if field != "rank":
        assert dataclasses.replace(made, **{name: getattr(PLAIN, name)}) == PLAIN


@pytest.mark.parametrize(
    ("field", "ordinal", "value", "words"),
    [
        ("global_dim", 0, (1 << 32) + 1, "global_dim of 4294967297"),
        ("global_stride", 0, -16, "global_stride of -16"),
        ("global_stride", 0, 40, "global_stride of 40"),
        ("global_stride", 4, 16, "global_stride has 4 ordinals, and 4 is none"),
        ("box_dim", 0, 0, "box_dim of 0"),
        ("element_stride", 0, 0, "element_stride of 0"),
        ("interleave_layout", 0, 3, "there is no interleave_layout 3"),
        ("swizzle_atomicity", 0, 2, "atoms other than 16B need swizzle_mode 3"),
    ],
)
def test_a_value_that_no_field_takes(field: str, ordinal: int, value: int, words: str) -> None:
    with pytest.raises(LaunchError, match=words):
        replaced(BLANK, field, ordinal, value)


def test_atoms_come_and_go_with_the_swizzle_of_128_bytes() -> None:
    image = replaced(BLANK, "swizzle_mode", 0, 3)
    for atoms, name in ((3, "128B_ATOM_64B"), (1, "128B_ATOM_32B"), (0, "128B")):
        image = replaced(image, "swizzle_atomicity", 0, atoms)
        made = decode(image)
        assert made is not None and made.swizzle == name
    with pytest.raises(LaunchError, match="atoms other than 16B"):
        replaced(image, "swizzle_atomicity", 0, 4)
    made = decode(replaced(replaced(BLANK, "swizzle_mode", 0, 2), "swizzle_atomicity", 0, 0))
    assert made is not None and made.swizzle == "64B"


NUMBERS = [6, 2, 4096, 64, 64, 1, 1, 1, 128, 0, 0, 0, 64, 8, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, 16, "there is no data type number 16"),
        (0, -1, "there is no data type number -1"),
        (1, 0, "1 to 5 dimensions, not 0"),
        (1, 6, "1 to 5 dimensions, not 6"),
        (22, 3, "there is no interleave number 3"),
        (23, 7, "there is no swizzle number 7"),
        (24, 4, "there is no L2 promotion number 4"),
        (25, 2, "there is no fill number 2"),
    ],
)
def test_the_drivers_numbers(place: int, value: int, words: str) -> None:
    assert described(NUMBERS) == PLAIN
    with pytest.raises(LaunchError, match=words):
        described([*NUMBERS[:place], value, *NUMBERS[place + 1 :]])


@pytest.mark.parametrize("rank", [1, 5])
def test_the_drivers_numbers_of_few_and_of_many_dimensions(rank: int) -> None:
    dims, strides = [64, 8, 4, 2, 1], [128, 1024, 4096, 8192]
    made = described([6, rank, 4096, *dims, *strides, 8, 8, 2, 2, 1, *range(1, 6), 0, 0, 0, 0])
    assert (made.dims, made.strides) == (tuple(dims[:rank]), tuple(strides[: rank - 1]))
    assert made.box == (8, 8, 2, 2, 1)[:rank]
    assert made.element_strides == (1, 2, 3, 4, 5)[:rank]
