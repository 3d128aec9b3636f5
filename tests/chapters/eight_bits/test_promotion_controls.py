"""The kernel with block scales without its promotion: right on whole numbers, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.eight_bits import contenders, product, promotion_controls
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
