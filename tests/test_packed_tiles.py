"""Sectors of chapter 10's products: both ways right, and as many as the formula says."""

from __future__ import annotations

import pytest

from phasebit import packed_tiles


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
