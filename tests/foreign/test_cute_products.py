# mypy: ignore-errors
"""CUTLASS's products in CuTe DSL for Blackwell: right, and their counts are those recorded.

Their source is not here: name a checkout of github.com/NVIDIA/cutlass in CUTLASS_REPOSITORY, and
``pip install nvidia-cutlass-dsl``. Neither needs a GPU.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

from phasebit.chapters.chain import beside_cutlass
from phasebit.chapters.low_precision import scaled_cutlass

WHERE = os.environ.get("CUTLASS_REPOSITORY")
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not WHERE, reason="CUTLASS_REPOSITORY names no checkout: NOT asked"),
]


@pytest.mark.parametrize("out", ["f32", "bf16"])
@pytest.mark.parametrize("name", beside_cutlass.COMPARED)
def test_its_counts_are_those_recorded(name, out):
    _, file, pair = beside_cutlass.COMPARED[name]
    counts = asdict(beside_cutlass.cutlass(Path(WHERE), file, pair, out))
    assert counts == beside_cutlass.recorded()["counts"][out][name]["cutlass"]


@pytest.mark.parametrize("name", scaled_cutlass.COMPARED)
def test_the_counts_of_scaled_products_are_those_recorded(name):
    counts = asdict(scaled_cutlass.cutlass(Path(WHERE), scaled_cutlass.COMPARED[name][1]))
    assert counts == scaled_cutlass.recorded()["counts"][name]["cutlass"]
