"""Each way to bring a tile of A is right, and changes what its name says and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit import edits
from phasebit.chapters.layouts import layouts_controls as controls
from phasebit.chapters.layouts.packed_tiles import _FIELDS
from phasebit.emulator import Run
from phasebit.launching.launch import compile as compile_cuda

SHAPE = (128, 128, 32)


def ran(name: str, shape: tuple[int, int, int] = SHAPE) -> Run:
    """One block of a contender; its C must be exact."""
    m, n, k = shape
    packed = controls.WAYS[name].packed
    kernel = f"template __global__ void product<{str(packed).lower()}>(Batch, const float*);\n"
    module = compile_cuda(controls.text(name) + kernel, "sm_75")
    draw = np.random.default_rng()
    a, b = (draw.integers(-4, 5, size).astype(np.float32) for size in ((m, k), (k, n)))
    whole = np.full((128, -(-k // 16) * 16), 0, np.float32)
    whole[:m, :k] = a
    tiles = np.ascontiguousarray(whole.reshape(128, -1, 16).transpose(1, 2, 0))
    arrays = {"A": a, "B": b, "C": np.full((m, n), np.nan, np.float32), "tiles": tiles}
    at = {}
    for label, data in arrays.items():
        at[label] = module.memory.allocate(data.nbytes, label)
        module.memory.bytes(at[label])[:] = data.view(np.uint8).ravel()
    problem = np.array((*(at[x].address for x in "ABC"), m, n, k, 1, k, 1, 0), _FIELDS)[()]
    (symbol,) = (each for each in module.kernels if f"productILb{int(packed)}" in each)
    run = module[symbol].launch((1, 1, 1), 256, [problem, at["tiles"].address])
    got = module.memory.bytes(at["C"]).view(np.float32).reshape(m, n)
    np.testing.assert_array_equal(got, a @ b)
    assert not run.findings
    return run


@pytest.mark.nvcc
@pytest.mark.parametrize("name", controls.WAYS)
def test_right_with_the_loads_and_conflicts_that_its_way_says(name: str) -> None:
    way, counters = controls.WAYS[name], ran(name).counters
    warps, tiles = 8, SHAPE[2] // 16
    of_b = warps * tiles * 8
    assert counters[controls.LOADS] - of_b == warps * tiles * (2 if way.wide else 8)
    assert (counters[controls.CONFLICTS] > 0) == way.conflicts
    assert counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 2 * 128 * SHAPE[2] // 8


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [name for name, way in controls.WAYS.items() if way.asks])
def test_who_asks_is_right_beyond_the_end(name: str) -> None:
    ran(name, (101, 70, 20))


def test_only_the_tile_of_a_is_brought_otherwise() -> None:
    for name, way in controls.WAYS.items():
        chapters = controls.text(controls.PACKED if way.packed else controls.IN_PLACE)
        changed = edits.difference(chapters, controls.text(name))
        assert (changed == "") == (name in (controls.IN_PLACE, controls.PACKED))
        for untouched in ("b[i / BN]", "__syncthreads", "sum[i][j]"):
            assert untouched not in changed


@pytest.mark.nvcc
def test_of_a_build_the_product_is_found() -> None:
    built = controls.build(controls.SAME)
    assert controls._product(controls.SAME, built).spills is False
