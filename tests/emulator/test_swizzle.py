"""Swizzles, by the bits that PTX ISA 5.5.7 draws."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.numbers import swizzle
from phasebit.emulator.numbers.swizzle import MASK, MODES, PATTERN, SPANS, swizzled

# Bits that change, and the bits that each of them is XORed with, from the lowest.
BITS: dict[str, tuple[list[int], list[int]]] = {
    "none": ([], []), "32B": ([4], [7]), "64B": ([4, 5], [7, 8]), "128B": ([4, 5, 6], [7, 8, 9]),
    "128B_ATOM_32B": ([5, 6], [7, 8]), "128B_ATOM_32B_FLIP_8B": ([3, 5, 6], [7, 7, 8]),
    "128B_ATOM_64B": ([6], [7]),
}  # fmt: skip
SPAN = {"none": 16, "32B": 32, "64B": 64}
REPEAT = {"none": 16, "32B": 256, "64B": 512, "128B": 1024, "128B_ATOM_32B": 512,
          "128B_ATOM_32B_FLIP_8B": 512, "128B_ATOM_64B": 256}  # fmt: skip


@pytest.mark.parametrize("name", MODES)
def test_5_5_7_which_bits_of_an_address_change(name: str) -> None:
    mode = MODES[name]
    places = np.arange(4096)
    moved = places.copy()
    for bit, by in zip(*BITS[name], strict=True):
        moved ^= (places >> by & 1) << bit
    assert np.array_equal(mode(places), moved)
    assert np.array_equal(mode(mode(places)), places)
    assert [mode(int(each)) for each in places[:512]] == moved[:512].tolist()
    assert (mode.span, mode.repeat) == (SPAN.get(name, 128), REPEAT[name])
    assert np.array_equal(mode(places + mode.repeat), moved + mode.repeat)


@pytest.mark.parametrize("name", MODES)
def test_a_pattern_may_begin_elsewhere(name: str) -> None:
    mode, places = MODES[name], np.arange(4096)
    base = 7 << 7
    assert np.array_equal(mode(places + base, base), (mode(places) ^ places) ^ (places + base))


def test_the_swizzles_that_engines_have_in_common() -> None:
    assert [*MODES] == [*BITS] and [*SPANS] == [0, 32, 64, 128]
    assert MASK == {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}
    assert PATTERN == {0: 16, 32: 256, 64: 512, 128: 1024}
    places = np.arange(4096)
    for span, mode in SPANS.items():
        assert np.array_equal(swizzled(places, span), mode(places))
    assert swizzle.B128(0x80) == swizzled(0x80, 128) == 0x90
