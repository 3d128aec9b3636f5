"""Products with block scales, without an instruction around them: signs, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from phasebit.emulator.tensor_core import block_scales, scaled_descriptors
from phasebit.emulator.tensor_core.instruction_descriptors import InstructionDescriptorError

BITS = scaled_descriptors.encode("mxf4", 16, "e2m1", "e2m1")


@pytest.mark.parametrize("old", [True, False])
@pytest.mark.parametrize("a", [True, False])
@pytest.mark.parametrize("b", [True, False])
def test_each_operand_may_be_negated(a: bool, b: bool, old: bool) -> None:
    draw = np.random.default_rng(1)
    left, right = (draw.integers(-6, 7, (rows, 64)).astype(np.float64) for rows in (4, 8))
    cells = draw.integers(-99, 99, (4, 8)).astype(np.float32)
    of = scaled_descriptors.decode(BITS, "mxf4", 2)
    of = dataclasses.replace(of, negate_a=a, negate_b=b)
    found = block_scales.multiply(left, right, cells.view(np.uint32) if old else None, of)
    product = left @ right.T * (-1 if a != b else 1)
    assert (found.view(np.float32) == product + (cells if old else 0)).all()


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 6, 24, 25, 26, 31])
def test_table_of_9_7_16_4_2_a_bit_that_must_be_0(bit: int) -> None:
    with pytest.raises(InstructionDescriptorError, match=r"bits? \d"):
        scaled_descriptors.decode(BITS | 1 << bit, "mxf4", 2)
