"""Block scales: where each lies in tensor and in shared memory, which bytes are none."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import say
from phasebit.emulator.tensor_core import block_scales as scales

WHERE = say("somewhere")
RNG = np.random.default_rng(3)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (32, 1), (33, 2), (128, 4), (256, 8)])
def test_the_columns_that_scales_take(rows: int, columns: int) -> None:
    assert scales.columns(rows) == columns


@pytest.mark.parametrize("per_row", [1, 2, 4])
@pytest.mark.parametrize("rows", [8, 32, 40, 128])
def test_a_scale_of_row_r_is_in_lane_r_mod_32(rows: int, per_row: int) -> None:
    given = RNG.integers(0, 256, (rows, per_row)).astype(np.uint8)
    cells = scales.words(given)
    assert cells.shape == (32, scales.columns(rows)) and cells.dtype == np.uint32
    for row in range(rows):
        word = int(cells[row % 32, row // 32])
        assert [word >> 8 * i & 255 for i in range(4)] == [
            *given[row].tolist(),
            *[0] * (4 - per_row),
        ]
    assert cells.ravel().astype(bool).sum() <= rows
    for first in range(5 - per_row):
        shifted = np.zeros((rows, 4), np.uint8)
        shifted[:, first : first + per_row] = given
        for quarters in (1, 2, 4):
            whole = np.tile(scales.words(shifted), (quarters, 1))
            assert np.array_equal(scales.read(whole, rows, first, per_row, "A", WHERE), given)


def test_the_atoms_in_shared_memory() -> None:
    given = RNG.integers(0, 256, (256, 4)).astype(np.uint8)
    found = scales.atoms(given)
    assert found.shape == (2, 512)
    for row in range(256):
        at = row % 32 * 16 + row % 128 // 32 * 4
        assert np.array_equal(found[row // 128, at : at + 4], given[row])


@pytest.mark.parametrize(("quarter", "row"), [(1, 0), (2, 37), (3, 63)])
def test_quarters_that_differ_are_named_by_row_and_column(quarter: int, row: int) -> None:
    given = RNG.integers(0, 256, (64, 4)).astype(np.uint8)
    cells = np.tile(scales.words(given), (4, 1))
    cells[32 * quarter + row % 32, row // 32] ^= 0x100
    assert np.array_equal(scales.read(cells, 64, 0, 1, "B", WHERE), given[:, :1])
    with pytest.raises(Fault) as raised:
        scales.read(cells, 64, 1, 2, "B", WHERE)
    assert str(raised.value) == (
        "the scales of B are not the same in all quarters of the lanes, first for row "
        f"{row}, column {row // 32} after the address: somewhere; each quarter of the tensor core "
        "reads its own: copy them with tcgen05.cp.32x128b.warpx4"
    )
    assert np.array_equal(scales.read(cells, row, 0, 4, "B", WHERE), given[:row])  # rows before


def test_the_numbers_that_scales_stand_for() -> None:
    given = np.array([[0, 127], [128, 254]], np.uint8)
    assert scales.values(given, "ue8m0", "A", WHERE).tolist() == [
        [2.0**-127, 1.0], [2.0, 2.0**127]
    ]  # fmt: skip
    small = scales.values(np.array([[0x38, 0x7E, 0]], np.uint8), "ue4m3", "A", WHERE)
    assert small.tolist() == [[1.0, 448.0, 0.0]] and small.dtype == np.float64
    wrong = np.array([[0x38, 0x38], [0x38, 0x80], [0xFF, 1]], np.uint8)
    with pytest.raises(Fault) as raised:
        scales.values(wrong, "ue4m3", "A", WHERE)
    assert str(raised.value) == (
        "scale 1 of row 1 of A is 0x80: somewhere; a ue4m3 has no sign, and bit 7 must be 0; is it "
        "a ue8m0?"
    )


def test_elements_times_the_scales_of_their_blocks() -> None:
    matrix = np.arange(16, dtype=np.float32).reshape(2, 8)
    found = scales.scaled(matrix, np.array([[1.0, 0.5], [2.0, np.nan]]))
    assert found.dtype == np.float64 and found[0].tolist() == [0, 1, 2, 3, 2, 2.5, 3, 3.5]
    assert found[1, :4].tolist() == [16, 18, 20, 22] and np.isnan(found[1, 4:]).all()
    assert scales.ADDRESS == 0x3FFFFFFF


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize(("negate_a", "negate_b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_a_product_with_scales(negate_a: int, negate_b: int, old: bool) -> None:
    from phasebit.emulator.tensor_core.scaled_descriptors import decode, encode

    a, b = RNG.integers(-4, 5, (128, 32)).astype(float), RNG.integers(-4, 5, (8, 32)).astype(float)
    bits = encode("mxf8f6f4", 8, "e4m3", "e4m3", negate_a=bool(negate_a), negate_b=bool(negate_b))
    d = RNG.integers(-9, 9, (128, 8)).astype(np.float32)
    got = scales.multiply(a, b, d.view(np.uint32) if old else None, decode(bits, "mxf8f6f4", 1))
    wanted = (-1) ** (negate_a + negate_b) * (a @ b.T) + (d if old else 0)
    assert np.array_equal(got.view(np.float32), wanted.astype(np.float32))
