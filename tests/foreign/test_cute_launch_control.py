# mypy: ignore-errors
"""Cluster launch control as CuTe DSL's scheduler uses it, in the emulator.

CuTe DSL is not among the book's requirements: without it these tests are skipped.  Install it
with ``pip install nvidia-cutlass-dsl``; it needs no GPU.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cutlass
from cutlass.cute.runtime import make_fake_compact_tensor

from tests.foreign.cute_launch_control import WORKERS, Taking
from tests.foreign.cute_tools import compiled, launch

pytestmark = pytest.mark.foreign

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]
CASES = {
    "blocks": ((5, 4), (1, 1), 1), "along": ((4, 6), (1, 1), 2),
    "clusters 2 x 1": ((6, 4), (2, 1), 1), "clusters 2 x 2": ((4, 4), (2, 2), 1),
}  # fmt: skip


@functools.cache
def built(name):
    tiles, cluster, swizzle = CASES[name]
    taking = Taking(cluster, swizzle)
    tensor = make_fake_compact_tensor(
        cutlass.Float32, (*tiles, WORKERS), stride_order=(2, 1, 0), assumed_align=16
    )
    return taking, compiled(taking, [tensor, tensor], "sm_100a")


@pytest.mark.parametrize("how", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_each_tile_is_done_once(name, how):
    taking, kernel = built(name)
    assert "clusterlaunchcontrol.try_cancel" in kernel.ptx
    a = np.random.default_rng().random((*CASES[name][0], WORKERS), np.float32)
    out = np.zeros_like(a)
    cluster = (*taking.cluster, 1) if taking.cluster != (1, 1) else None
    grid = [int(n) for n in taking.grid]
    launch(kernel, grid, taking.threads, [a, out], how, shared=1024, cluster=cluster)
    assert np.array_equal(a, out)
