"""Three products of tf32 parts are as good as f32, and the check of that sees what is left out."""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.double_buffering import one_block
from phasebit.edits import replace_once

pytestmark = pytest.mark.nvcc

DEPTH = 256
TENSOR = files.kernel("double_buffering/h_tensor_cores")
LOW = ("mma(c[h][i], b_low, a_high);", "mma(c[h][i], b_high, a_low);")


def measured(source: str) -> float:
    """The error in units of 2⁻²⁴ · Σ|a·b|, on the emulator."""
    return one_block.error(source, DEPTH, seed=3, device="emulator")[0]


def test_three_products_are_as_good_as_f32() -> None:
    found, plain = one_block.error(TENSOR, DEPTH, seed=3, device="emulator")
    assert found < 4 and plain < 4  # worst case of a f32 sum: 256


@pytest.mark.parametrize("line", LOW)
def test_a_product_left_out_is_seen(line: str) -> None:
    assert measured(replace_once(TENSOR, line, "")) > 40


def test_upper_parts_alone_are_not_f32() -> None:
    assert measured(one_block.one_product(TENSOR)) > 40


def test_cut_parts_err_on_one_side() -> None:
    """Normal numbers hide it: products of both signs cancel what was cut off."""
    cut, plain = one_block.error(TENSOR, DEPTH, 3, "emulator", positive=True)
    rounded, _ = one_block.error(one_block.rounded(TENSOR), DEPTH, 3, "emulator", positive=True)
    assert rounded < 0.6 * cut and plain > rounded


def test_a_changed_file_is_noticed() -> None:
    with pytest.raises(ValueError, match="must hold"):
        one_block.one_product("")
    with pytest.raises(ValueError, match="must hold"):
        one_block.rounded("")
    with pytest.raises(ValueError, match="WARPS"):
        one_block.error("", DEPTH, seed=3, device="emulator")
    assert set(one_block.tries()) == set(one_block.TRIES)
