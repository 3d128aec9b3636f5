# mypy: ignore-errors
"""CuTe DSL's block-scaled products for Blackwell: scales by TMA, then tcgen05.cp.

CuTe DSL is not among the book's requirements: without it these tests are skipped.  Install it
with ``pip install nvidia-cutlass-dsl``; it needs no GPU.
"""

from __future__ import annotations

import functools

import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cutlass

from tests.foreign.cute_scaled import Scaled, ScaledProduct

pytestmark = pytest.mark.foreign

E2M1, E4M3, E5M2 = cutlass.Float4E2M1FN, cutlass.Float8E4M3FN, cutlass.Float8E5M2
UE8M0 = cutlass.Float8E8M0FNU
SCHEDULES = [("eager", 0), ("late", 0), ("random", 1)]
PAIR = {"pair": True, "cluster": (2, 1)}

CASES = {
    "mxf8": (E4M3, UE8M0, 32, (128, 128, 128), (256, 256, 512), {}),
    "mxf8, of two kinds": (E5M2, UE8M0, 32, (128, 128, 128), (128, 128, 256), {"kind_b": E4M3}),
    "mxf8, 256 columns": (E4M3, UE8M0, 32, (128, 256, 128), (128, 256, 256), {}),
    "mxf4": (E2M1, UE8M0, 32, (128, 128, 256), (256, 128, 512), {}),
    "nvf4": (E2M1, E4M3, 16, (128, 128, 256), (128, 256, 512), {}),
    "cluster 1 x 2": (E4M3, UE8M0, 32, (128, 128, 128), (256, 256, 256), {"cluster": (1, 2)}),
    "cluster 2 x 2": (E2M1, E4M3, 16, (128, 128, 256), (256, 256, 512), {"cluster": (2, 2)}),
    "pair mxf8": (E4M3, UE8M0, 32, (256, 128, 128), (256, 256, 512), PAIR),
    "pair mxf4": (E2M1, UE8M0, 32, (256, 256, 256), (256, 256, 512), PAIR),
    "pair nvf4": (E2M1, E4M3, 16, (256, 128, 256), (512, 128, 512), PAIR),
    "pairs 2 x 2": (E2M1, E4M3, 16, (256, 128, 256), (256, 256, 512), PAIR | {"cluster": (2, 2)}),
}


@functools.cache
def built(name):
    kind, scale, vector, tile, shape, more = CASES[name]
    return ScaledProduct(Scaled(kind, scale, vector, tile, **more), shape)


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_scaled_products(name, how):
    built(name).check(how)
