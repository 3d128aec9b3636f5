"""The loop written anew is right where products are interleaved, as the record times it."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.layouts import layouts_controls as controls
from phasebit.chapters.layouts import layouts_interleaved, packed_tiles
from phasebit.emulator import EmulatorError, Run
from phasebit.launching.launch import compile as compile_cuda

SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"


def ran(name: str, together: int, shape: tuple[int, int, int]) -> Run:
    """One of the timed kernels on interleaved products; all of C must be exact."""
    m, n, k = shape
    way = controls.WAYS[name]
    kernel = f"template __global__ void product<{str(way.packed).lower()}>(Batch, const float*);\n"
    module = compile_cuda(controls.text(name) + kernel, "sm_75")
    draw = np.random.default_rng(together)
    a = draw.integers(-4, 5, (m, k, together)).astype(np.float32)  # neighbours: the products
    b = draw.integers(-4, 5, (together, k, n)).astype(np.float32)
    down, deep = -(-m // 128), -(-k // 16)
    whole = np.zeros((together, down * 128, deep * 16), np.float32)
    whole[:, :m, :k] = a.transpose(2, 0, 1)
    tiles = np.ascontiguousarray(
        whole.reshape(together, down, 128, deep, 16).transpose(0, 1, 3, 4, 2)
    )
    arrays = {"A": a, "B": b, "C": np.full((together, m, n), np.nan, np.float32), "tiles": tiles}
    at = {}
    for label, data in arrays.items():
        at[label] = module.memory.allocate(data.nbytes, label)
        module.memory.bytes(at[label])[:] = data.view(np.uint8).ravel()
    strides = (k * together, together, 1)
    problem = np.array(
        (*(at[x].address for x in "ABC"), m, n, k, together, *strides), packed_tiles._FIELDS
    )[()]
    (symbol,) = (each for each in module.kernels if f"productILb{int(way.packed)}" in each)
    blocks = (-(-n // 128), down, together)
    run = module[symbol].launch(blocks, 256, [problem, at["tiles"].address])
    got = module.memory.bytes(at["C"]).view(np.float32).reshape(together, m, n)
    np.testing.assert_array_equal(got, a.transpose(2, 0, 1) @ b)
    assert not run.findings
    return run


@pytest.mark.nvcc
@pytest.mark.parametrize("together", [1, 2, 8])
def test_both_loops_are_right_and_ask_for_the_same_sectors(together: int) -> None:
    first, anew = (
        ran(layouts_interleaved._TEXTS[name], together, (128, 128, 16)).counters
        for name in (layouts_interleaved.FIRST, layouts_interleaved.ANEW)
    )
    of_each = 128 * 16 * 4 // 32
    assert anew[SECTORS] == first[SECTORS] == together * of_each * (together + 1)  # A, and B
    assert anew[controls.LOADS] == first[controls.LOADS]
    assert anew[controls.CONFLICTS] == first[controls.CONFLICTS]


@pytest.mark.nvcc
@pytest.mark.parametrize(("together", "shape"), [(3, (130, 70, 20)), (2, (5, 130, 17))])
@pytest.mark.parametrize("name", [layouts_interleaved.FIRST, layouts_interleaved.ANEW])
def test_ragged_products_are_right(name: str, together: int, shape: tuple[int, int, int]) -> None:
    ran(layouts_interleaved._TEXTS[name], together, shape)


@pytest.mark.nvcc
def test_tiles_of_interleaved_products_are_right() -> None:
    ran(layouts_interleaved._TEXTS[layouts_interleaved.PACKED], 4, (128, 128, 32))


@pytest.mark.nvcc
def test_without_its_limits_a_ragged_product_reads_beyond_a() -> None:
    with pytest.raises(EmulatorError, match="after the end of A"):
        ran("no limits", 3, (130, 70, 20))
