"""Parts of `tcgen05.mma`: lanes of rows, numbers of bits, exactness, metadata, where D lies."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.tensor_core import tensor_metadata, tensor_mma
from phasebit.emulator.tensor_core.cta_pairs import Accumulator, pair_of
from phasebit.emulator.tensor_core.instruction_descriptors import decode, encode
from phasebit.emulator.tensor_core.scaled_descriptors import decode as decode_scaled
from phasebit.emulator.tensor_core.scaled_descriptors import encode as encode_scaled

RNG = np.random.default_rng(5)


def test_9_7_16_10_5_the_lanes_of_rows() -> None:
    assert tensor_mma.rows(128, False).tolist() == [*range(128)]
    for upper in (False, True):
        lanes = tensor_mma.rows(64, upper).tolist()
        assert lanes == [32 * (row // 16) + row % 16 + 16 * upper for row in range(64)]


@pytest.mark.parametrize(("kind", "bits", "numbers"), [
    ("f16", np.array([0x3C00, 0xC000], np.uint16), [1, -2]),
    ("bf16", np.array([0x3F80, 0xC000], np.uint16), [1, -2]),
    ("tf32", np.array([0x3F801FFF, 0xC0000000, 0x3F802000], np.uint32), [1, -2, 1 + 2.0**-10]),
    ("u8", np.array([0, 200], np.uint8), [0, 200]), ("s8", np.array([127, 200], np.uint8), [127,
      -56]),
    ("e4m3", np.array([0x38, 0xC0], np.uint8), [1, -2]), ("e2m1", np.array([2, 15], np.uint8), [1,
      -6]),
])  # fmt: skip
def test_numbers_from_their_bits(kind: str, bits: np.ndarray, numbers: list[float]) -> None:
    found = tensor_mma.elements(bits, kind)
    assert found.tolist() == numbers and found.dtype == np.float32


@pytest.mark.parametrize(("of", "of_a", "of_b"), [
    (decode(encode("f16", 128, 64, "f16", "f16", "f32"), "f16"), 16, 16),
    (decode(encode("tf32", 128, 64, "tf32", "tf32", "f32"), "tf32"), 8, 8),
    (decode(encode("f16", 128, 64, "f16", "f16", "f32", sparse=True), "f16", sparse=True), 16, 32),
    (decode(encode("f8f6f4", 128, 64, "e2m1", "e2m1", "f32"), "f8f6f4"), 32, 32),
    (decode_scaled(encode_scaled("mxf4", 64, "e2m1", "e2m1"), "mxf4", 2), 32, 32),
    (decode_scaled(encode_scaled("mxf4", 64, "e2m1", "e2m1", sparse=True), "mxf4", 2, sparse=True),
     32,
     64),
])  # fmt: skip
def test_how_long_a_row_is(of: Any, of_a: int, of_b: int) -> None:
    assert (tensor_mma.row_length(of, "A"), tensor_mma.row_length(of, "B")) == (of_a, of_b)


def exactly(a: float, b: float, c: float, kind: str = "f32", k: int = 4) -> bool:
    left, right = np.full((2, k), a, np.float32), np.full((3, k), b, np.float32)
    found = tensor_mma.exact(left, right, np.full((2, 3), c, np.float32), kind)
    if found is not None:
        assert (found == np.float32(a * b * k + c)).all() and not np.signbit(
            found[found == 0]
        ).any()
    return found is not None


@pytest.mark.parametrize(("a", "b", "c", "kind", "exact"), [
    (2.0**11, 2.0**11, 0, "f32", True), (2.0**11, 2.0**11, 1, "f32", False),
    (2.0**11, 2.0**11, 0.5, "f32", False), (2.0**10, 2.0**11, 2.0**23, "f32", True),
    (2.0**10, 2.0**11, 2.0**23 + 1, "f32", False), (2.0**4, 2.0**5, 0, "f16", True),
    (2.0**4, 2.0**5, 1, "f16", False), (0.5, 0.25, 0.125, "f32", True), (0, -1, -0.0, "f32", True),
    (1.0, 1.0, 2.0**-21, "f32", True), (1.0, 1.0, 2.0**-22, "f32", False),
    (2.0**-75, 2.0**-75, 0, "f32", False), (2.0**-74, 2.0**-75, 0, "f32", True),
    (2.0**-12, 2.0**-12, 0, "f16", True), (2.0**-12, 2.0**-13, 0, "f16", False),
    (np.nan, 1, 0, "f32", False), (1, 1, np.inf, "f32", False),
    (3 * 2.0**-10, 2.0**-9, 1, "f32", True),
])  # fmt: skip
def test_a_product_that_needs_no_rounding(
    a: float, b: float, c: float, kind: str, exact: bool
) -> None:
    with np.errstate(invalid="ignore"):
        assert exactly(a, b, c, kind) is exact


@pytest.mark.parametrize(("numbers", "unit"), [
    ([0, 1, 2], 0), ([4, 8], 0), ([0.5, 4], -1), ([0.75], -2), ([0, 2.0**-149], -149),
    ([3 * 2.0**-20, 1], -20), ([-0.375], -3),
])  # fmt: skip
def test_the_lowest_bit_of_numbers(numbers: list[float], unit: int) -> None:
    assert tensor_mma._unit(np.array(numbers, np.float32)) == unit


# -- metadata --------------------------------------------------------------------------------


def test_9_7_16_10_8_metadata_of_f16_and_tf32() -> None:
    found = RNG.integers(0, 16, (64, 8))
    cells = tensor_metadata.cells(found, True)
    assert cells.shape == (64, 1) and cells.dtype == np.uint32
    assert np.array_equal(tensor_metadata.bits(cells, True), found)
    for row, chunk in itertools.product(range(64), range(8)):
        lane = row // 16 * 16 + row % 8 + 8 * (chunk // 4)  # the right four chunks: 8 lanes further
        nibble = chunk % 4 + 4 * (row % 16 // 8)  # row + 8: the upper half
        assert int(cells[lane, 0]) >> 4 * nibble & 15 == found[row, chunk]


def test_9_7_16_10_8_metadata_of_all_other_kinds() -> None:
    found = RNG.integers(0, 16, (32, 16))
    cells = tensor_metadata.cells(found, False)
    assert cells.shape == (32, 2) and np.array_equal(tensor_metadata.bits(cells, False), found)
    for row, chunk in itertools.product(range(32), range(16)):
        assert int(cells[row, chunk // 8]) >> 4 * (chunk % 8) & 15 == found[row, chunk]


# -- D ---------------------------------------------------------------------------------------


def test_pairs_of_a_cluster() -> None:
    def batch(size: int) -> Any:
        return SimpleNamespace(machine=SimpleNamespace(cluster_size=size))

    assert [pair_of(batch(2), slot) for slot in range(4)] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert [pair_of(batch(4), slot) for slot in (2, 3, 5)] == [(2, 3), (2, 3), (4, 5)]
    assert [pair_of(batch(1), slot) for slot in (0, 1)] == [(), ()]
    assert [pair_of(batch(3), slot) for slot in (0, 1, 2, 4, 5)] == [(0, 1), (0, 1), (), (3, 4), ()]


LANES = {128: np.arange(128), 64: tensor_mma.rows(64, True)}
SHAPES = [((0,), 128, False), ((1,), 64, False), ((0, 1), 256, False), ((2, 3), 128, True),
          ((0, 1), 128, False)]  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("slots", "m", "halved"), SHAPES)
def test_9_7_16_10_5_where_d_lies(
    slots: tuple[int, ...], m: int, halved: bool, masked: bool
) -> None:
    n, column = 16, 8
    each = m // len(slots)
    lanes = np.arange(128) if halved else LANES[each]
    before = RNG.integers(0, 99, (4, 128, 512)).astype(np.uint32)
    cells = before.copy()
    d = Accumulator(cells, slots, lanes, column, m, n, halved)
    assert d.columns == slice(8, 8 + n // (2 if halved else 1))
    result = RNG.integers(100, 999, (m, n)).astype(np.uint32)
    kept = RNG.integers(0, 2, 128 * len(slots)).astype(bool) if masked else None
    wanted = before.copy()
    for row, j in itertools.product(range(m), range(n)):
        slot, own = slots[row // each], row % each
        lane = own + 64 * (j >= n // 2) if halved else int(lanes[own])
        at = column + (j % (n // 2) if halved else j)
        if kept is None or kept[128 * (row // each) + lane]:
            wanted[slot, lane, at] = result[row, j]
    d.write(result, kept)
    assert np.array_equal(cells, wanted)
    if kept is None:
        assert np.array_equal(d.read(), result)
