"""The kernel with block scales without its promotion: right on whole numbers, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit import measure
from phasebit.chapters.eight_bits import contenders, product, promotion_controls, view
from phasebit.chapters.eight_bits.scaled import ROWS, SQUARES

CHANGED = (promotion_controls.NONE, promotion_controls.UNDER_WAY)


def test_what_differs() -> None:
    whole = contenders.source(contenders.B)
    for name in CHANGED:
        text = promotion_controls.text(name)
        assert "promote(sums" in whole and "promote(sums" not in text
    assert promotion_controls.text(promotion_controls.BLOCKS) == whole


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["eager", "late"])
@pytest.mark.parametrize("name", CHANGED)
def test_right_on_whole_numbers_with_scales_of_1(name: str, schedule: str) -> None:
    a, b = product.plain(130, 656, 1, blocks=ROWS), product.plain(136, 656, 2, blocks=SQUARES)
    for each in (a, b):
        each.scales[...] = 1
    run, c = product.multiply(a, b, promotion_controls.text(name), schedule=schedule)
    assert np.array_equal(c, product.right(a, b))
    assert not run.findings, run.findings[0]


def test_what_the_page_says_of_the_price() -> None:
    """Cycles a slice: all of the price goes with the promotion, part of it with the scales."""
    seen = measure.read(promotion_controls.NAME)
    for shape, price, scales in ((8192, 228, 88), (4096, 226, 97)):
        blocks, plain, none, under_way, halves = (
            round(view.slice_cycles(seen, (shape,) * 3, name))
            for name in (promotion_controls.BLOCKS, promotion_controls.PLAIN,
                         promotion_controls.NONE, promotion_controls.UNDER_WAY,
                         promotion_controls.HALVES)
        )  # fmt: skip
        assert (blocks - none, blocks - plain) == (price, scales)
        assert abs(under_way - none) <= 2
        if shape == 8192:
            assert abs(none - halves) <= 2
    first = measure.read("eight_bits")
    blocks, half, one = (
        view.slice_cycles(first, (8192,) * 3, name)
        for name in ("block scales", "half of the sums promoted", "one scale, halves of 128")
    )
    assert abs((blocks - half) / (blocks - one) - 1 / 3) < 0.03
