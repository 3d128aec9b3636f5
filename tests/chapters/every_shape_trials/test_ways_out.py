"""What the pictures of C on its way out say is what the runs on the emulator show."""

from __future__ import annotations

import pytest

from phasebit.chapters.every_shape import ways_out
from phasebit.chapters.every_shape.ways_out import Tile


def test_a_part_leaves_beside_products_or_it_does_not() -> None:
    first, second = Tile(0, 0, 100, 120, 130), Tile(0, 125, 200, 220, 230)
    assert ways_out.beside([first, second]) == [True]
    assert ways_out.beside([first, second._replace(begins=130)]) == [False]
    assert ways_out.beside([first, second._replace(group=1)]) == []


@pytest.mark.nvcc
def test_c_leaves_under_products_unless_it_leaves_at_once() -> None:
    under = {plan: ways_out.beside(ways_out.tiles(plan, count)) for plan, count in
             ((ways_out.AT_ONCE, 2), (ways_out.LATER, 2), (ways_out.TURNS, 4))}  # fmt: skip
    assert not any(under[ways_out.AT_ONCE]) and len(under[ways_out.AT_ONCE]) == 2
    assert all(under[ways_out.LATER]) and len(under[ways_out.LATER]) == 2
    assert all(under[ways_out.TURNS]) and len(under[ways_out.TURNS]) == 2


@pytest.mark.nvcc
def test_two_blocks_make_halves_of_k() -> None:
    said = str(ways_out.joined("K by 2"))
    assert "block 0: steps 0 to 2, then the join\nblock 1: steps 3 to 5, then the join" in said
