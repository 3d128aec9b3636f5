# mypy: ignore-errors
"""CUTLASS's grouped products in CuTe DSL for Blackwell: right under every schedule, no finding.

Their source is not here: name a checkout of github.com/NVIDIA/cutlass in CUTLASS_REPOSITORY, and
``pip install nvidia-cutlass-dsl``. Neither needs a GPU.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

from tests.foreign import cutlass_grouped

WHERE = os.environ.get("CUTLASS_REPOSITORY")
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not WHERE, reason="CUTLASS_REPOSITORY names no checkout: NOT asked"),
]

PLAIN = {
    "maps in shared memory": {},
    "maps in global memory": {"maps": "GMEM"},
    "a pair": {"tile": (256, 64), "cluster": (2, 1), "pair": True},
    "a cluster of two": {"cluster": (1, 2)},
}
FOUR_BITS = {"of": "e2m1", "scale": "e4m3", "vector": 16}
SCALED = {
    "mxf8": {},
    "nvf4": FOUR_BITS,
    "nvf4, 256 columns": FOUR_BITS | {"tile": (128, 256)},
    "mxf4, a cluster of two": {"of": "e2m1", "cluster": (1, 2)},
    "mxf8, a pair": {"tile": (256, 128), "cluster": (2, 1)},
}


@pytest.mark.parametrize("name", PLAIN)
def test_groups_of_different_extents(name):
    example = cutlass_grouped.module(Path(WHERE), cutlass_grouped.PLAIN)
    sizes = [(128, 128, 64, 1), (200, 72, 136, 1), (16, 256, 72, 1)]
    exact, findings = cutlass_grouped.plain(example, sizes, **PLAIN[name])
    assert all(exact) and not findings, (exact, [str(each) for each in findings])


@pytest.mark.parametrize("name", SCALED)
def test_groups_with_block_scales(name):
    example = cutlass_grouped.module(Path(WHERE), cutlass_grouped.SCALED)
    sizes = [(128, 128, 256, 1), (200, 72, 384, 1), (32, 256, 128, 1)]
    exact, findings = cutlass_grouped.scaled(example, sizes, **SCALED[name])
    assert all(exact) and not findings, (exact, [str(each) for each in findings])
