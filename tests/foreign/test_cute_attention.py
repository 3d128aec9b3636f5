# mypy: ignore-errors
"""CUTLASS's attention in CuTe DSL for Blackwell: right, with findings where O is corrected.

Its source is not here: name a checkout of github.com/NVIDIA/cutlass in CUTLASS_REPOSITORY, and
``pip install nvidia-cutlass-dsl``. Neither needs a GPU.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import phasebit.cute
from phasebit.chapters.attention_again import cutlass_fmha, role_counts
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again.tensor_attention import Shape
from phasebit.instruments import cutlass_examples
from phasebit.instruments.executed import Counts, counting

WHERE = os.environ.get("CUTLASS_REPOSITORY")
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not WHERE, reason="CUTLASS_REPOSITORY names no checkout: NOT asked"),
]

CASES = {
    "full": (Shape(256, 512, 128), 1.0, False),
    "causal, O corrected": (Shape(200, 330, causal=True), 12.0, True),
    "ragged, O corrected": (Shape(130, 200, 128), 12.0, True),
}


@pytest.fixture(scope="module")
def example():
    return cutlass_examples.module(Path(WHERE), cutlass_fmha.FILE)


def findings(example, shape, spread):
    data = kernels.draw(shape, 0, spread)
    with phasebit.cute.emulated("sm_100a", schedules="all") as runs:
        out = cutlass_fmha.attend(example, data, shape.causal)
    assert kernels.off(shape, data, out) <= 1
    return runs.findings


@pytest.mark.parametrize("name", CASES)
def test_right_under_every_schedule(example, name):
    """Where O is corrected, `correction_rescale` loads from tensor memory, multiplies and stores
    without `tcgen05.wait::ld` between; nor has the load of scores that are masked one. The
    findings are of these loads: with the first wait added, those of the second are left."""
    shape, spread, corrected = CASES[name]
    found = [str(each) for each in findings(example, shape, spread)]
    assert bool(found) == corrected
    assert all("tcgen05.ld" in each for each in found), found


def test_its_counts_are_those_recorded(example):
    with (
        counting(role_counts.CUTLASS) as counts,
        phasebit.cute.emulated("sm_100a", schedules="eager", check=False),
    ):
        cutlass_fmha.attend(example, kernels.draw(role_counts.SHAPE))
    recorded = Counts(**role_counts.recorded()["cutlass"])
    for what in "products", "columns", "read", "written", "fetched", "stored", "barriers":
        assert getattr(counts, what) == getattr(recorded, what), what
