"""Sectors of the products of *Layouts*: both ways right, and as many as the formula says."""

from __future__ import annotations

from statistics import median

import pytest

from phasebit import measure
from phasebit.chapters.layouts import packed_operands, packed_tiles


@pytest.mark.nvcc
@pytest.mark.parametrize(("apart", "columns"), [(1, 1), (2, 1), (2, 2), (4, 1)])
def test_counts_are_the_formula(apart: int, columns: int) -> None:
    strides = (16 * apart, apart, 1) if apart > 1 else (16 + 64, 1, 0)
    moved = packed_tiles.count((128, 128 * columns, 16), strides, batch=apart)
    dense = apart * 128 * 16 * 4 // 32
    assert moved.right
    assert moved.strided == columns * apart * dense
    assert moved.copy == 2 * dense and moved.packed == columns * dense
    assert moved.with_copy == (columns + 2) * dense


@pytest.mark.nvcc
def test_ragged_products_are_right() -> None:
    assert packed_tiles.count((130, 5, 17), (17 * 3, 3, 1), batch=3).right
    assert packed_tiles.count((5, 130, 19), (1, 7, 200), batch=2).right


def test_two_elements_in_one_place() -> None:
    with pytest.raises(ValueError, match="one place"):
        packed_tiles.count((4, 4, 4), (1, 1, 0))


@pytest.mark.nvcc
def test_tiles_take_a_quarter_of_the_loads() -> None:
    moved = packed_tiles.count((128, 128, 16), (32, 2, 1), batch=2)
    assert moved.strided_loads == 4 * moved.packed_loads
    assert moved.strided_conflicts > 0 == moved.packed_conflicts


def test_an_h200_counts_the_sectors_of_the_formula() -> None:
    """*Layouts*: the count is right, and eight times the sectors hardly cost the first loop."""
    record = measure.read("layouts")
    for counted in record["interleaved_counted"]:
        s, (m, n, k) = counted["interleaved"], counted["shape"]
        of_b = s * (m // 128) * k * n * 4 / 32
        for way, times_dense in (("strided", n // 128 * min(s, 8)), ("packed", n // 128)):
            of_a = counted[way][packed_operands.ASKED] - of_b
            assert of_a / (s * m * k * 4 / 32) == pytest.approx(times_dense, rel=0.02)

    def in_place(together: int) -> float:
        (entry,) = (
            each
            for each in record["interleaved"]
            if each["interleaved"] == together and each["shape"][1] == 1024
        )
        return median(entry["times"][packed_operands.STRIDED]["times_us"])

    assert in_place(8) < 1.05 * in_place(1)
