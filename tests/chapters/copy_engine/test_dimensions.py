"""Boxes of one to five dimensions, and im2col, as NumPy has them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from phasebit.chapters.copy_engine import dimensions

pytestmark = pytest.mark.nvcc


@pytest.mark.parametrize("rank", range(1, 6))
def test_a_box_is_a_window_with_zeros_around(rank: int) -> None:
    draw = random.Random(rank)
    for _ in range(3):
        shape = (*(draw.randint(2, 6) for _ in range(rank - 1)), 4 * draw.randint(1, 5))
        tensor = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
        box = (4 * draw.randint(1, 3), *(draw.randint(1, 4) for _ in range(rank - 1)))
        corner = (4 * draw.randint(-1, 3), *(draw.randint(-2, 5) for _ in range(rank - 1)))
        got, run = dimensions.fetch(tensor, box, corner)
        assert np.array_equal(got, dimensions.window(tensor, box, corner)), (shape, box, corner)
        assert not run.findings


@pytest.mark.parametrize("offset", [(0, 0), (1, 1), (2, 0)])
def test_the_pixels_of_a_filter(offset: tuple[int, int]) -> None:
    rows, columns, count = 4, 5, 12
    got = dimensions.pixels(rows, columns, count, (0, 2), offset)
    positions = [(r, c) for r in range(-1, rows - 1) for c in range(-1, columns - 1)]
    first = positions.index((0, 2))
    for found, (r, c) in zip(got, positions[first : first + count], strict=False):
        row, column = r + offset[0], c + offset[1]
        inside = 0 <= row < rows and 0 <= column < columns
        assert found == ((row, column) if inside else None)


def test_the_picture_has_a_line_for_each_place() -> None:
    words = str(dimensions.im2col_picture(6, 7, 16, (0, 2)))
    assert "from row 0 and column 2 on" in words and "lower right |" in words
