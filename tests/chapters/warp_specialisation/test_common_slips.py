"""Each slip fits the healthy kernel and ends as the page says."""

from __future__ import annotations

import numpy as np
import pytest

import phasebit as pb
from phasebit.chapters.warp_specialisation import clinic
from phasebit.chapters.warp_specialisation import common_slips as slips

ENDS = {
    "half of each tile is multiplied": ("wrong", ""),
    "rows of B are taken to be K apart": ("ended early", "fault"),
    "K / 16 rounds over tiles 32 deep": ("ended early", "fault"),
    "two groups load the same tile": ("right", ""),
    "two groups add halves of k into C": ("wrong", "race"),
    "bf16 is stored into an f32 C": ("wrong", ""),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("slip", slips.SLIPS)
def test_a_slip_ends_as_the_page_says(slip: str) -> None:
    seen = clinic.examine(slips.source(slip))
    verdict, kinds = ENDS[slip]
    assert seen.verdict.startswith(verdict) and seen.kinds == kinds


@pytest.mark.nvcc
def test_two_groups_that_load_the_same_tile_load_twice_the_sectors() -> None:
    loaded = []
    for text in (clinic.source("00_healthy"), slips.source("two groups load the same tile")):
        known, (grid, block) = clinic.launch_of(text)
        kernel = pb.compile(text.replace('#include "harness.cuh"', ""))["matmul"]
        a, b = np.ones((32, known["K"]), np.float32), np.ones((known["K"], 32), np.float32)
        run = kernel.launch(grid, block, [a, b, np.zeros((32, 32), np.float32)])
        loaded.append(run.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"])
    assert loaded[1] == 2 * loaded[0]
