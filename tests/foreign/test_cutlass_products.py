# mypy: ignore-errors
"""CUTLASS's dense and block-scaled products in CuTe DSL for Blackwell: exact, nothing found.

Their source is not here: name a checkout of github.com/NVIDIA/cutlass in CUTLASS_REPOSITORY, and
``pip install nvidia-cutlass-dsl``. Neither needs a GPU.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

from tests.foreign import cutlass_grouped, cutlass_products

WHERE = os.environ.get("CUTLASS_REPOSITORY")
pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not WHERE, reason="CUTLASS_REPOSITORY names no checkout: NOT asked"),
]

ONE = {"pair": False, "tile": (128, 128), "cluster": (1, 1)}
PAIR = {"pair": True, "tile": (256, 128), "cluster": (2, 1)}
STAYS, LEAVES = "PersistentDenseGemmKernel", "DenseGemmKernel"

DENSE = {
    "one tile": ("dense_gemm", LEAVES, (256, 256, 192), ONE),
    "one tile, a pair": ("dense_gemm", LEAVES, (256, 256, 192), PAIR),
    "persistent": ("dense_gemm_persistent", STAYS, (384, 256, 192), ONE | {"clusters": 2}),
    "persistent, a pair, ragged":
        ("dense_gemm_persistent", STAYS, (520, 256, 200),
         PAIR | {"tile": (256, 256), "clusters": 1}),
    "dynamic": ("dense_gemm_persistent_dynamic", STAYS, (384, 256, 192), ONE),
    "prefetch": ("dense_gemm_persistent_prefetch", STAYS, (512, 256, 192), PAIR | {"clusters": 1}),
    "software pipeline": ("dense_gemm_software_pipeline", LEAVES, (256, 256, 192), PAIR),
}  # fmt: skip
NVF4 = {"of": "e2m1", "scale": "e4m3", "vector": 16}
MXF8 = {"of": "e4m3", "scale": "ue8m0", "vector": 32}
SCALED = {
    "nvf4": ((256, 256, 512), NVF4 | {"tile": (128, 128), "cluster": (1, 1), "clusters": 2}),
    "nvf4, a pair of 256 x 256":
        ((512, 256, 512), NVF4 | {"tile": (256, 256), "cluster": (2, 1), "clusters": 1}),
    "mxf8, a pair":
        ((256, 256, 256), MXF8 | {"tile": (256, 128), "cluster": (2, 1), "clusters": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSE)
def test_dense_products(name):
    file, kind, shape, how = DENSE[name]
    example = cutlass_grouped.module(Path(WHERE), f"{cutlass_products.DENSE}{file}.py")
    exact, findings = cutlass_products.dense(example, kind, shape, **how)
    assert exact and not findings, [str(each) for each in findings[:2]]


@pytest.mark.parametrize("name", SCALED)
def test_products_with_block_scales(name):
    shape, how = SCALED[name]
    example = cutlass_grouped.module(Path(WHERE), cutlass_products.SCALED)
    exact, findings = cutlass_products.scaled(example, shape, **how)
    assert exact and not findings, [str(each) for each in findings[:2]]
