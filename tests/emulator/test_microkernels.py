"""Counters equal Nsight Compute's, kernel by kernel (``records/counters_h200.json``).

Nothing here needs a GPU: ``python -m tests.emulator.record`` wrote the record on one.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from phasebit import files
from phasebit.emulator.checker.traffic import bank_passes, merged
from tests.emulator import cases, replay

RECORD = json.loads((files.records() / "counters_h200.json").read_text(encoding="utf-8"))
GPU: dict[str, dict[str, int]] = RECORD["kernels"]

COMPARED = [
    *(f"smsp__sass_inst_executed_op_{op}.sum"
      for op in ("global_ld", "global_st", "global_atom", "global_red", "shared_ld", "shared_st",
                 "shared_atom", "ldsm", "ldgsts")),
    *(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
      for what in ("requests", "sectors") for op in ("ld", "st", "atom", "red")),
    *(f"l1tex__data_{what}_mem_shared_op_{op}.sum"
      for what in ("pipe_lsu_wavefronts", "bank_conflicts_pipe_lsu")
      for op in ("ld", "st", "atom")),
]  # fmt: skip
"""Metrics that the emulator and the profiler both count.

Not compared: ``smsp__inst_executed.sum`` and ``smsp__thread_inst_executed.sum`` (the emulator
counts PTX instructions, the GPU those of its own machine code), and the
``smsp__inst_executed_op_shared_*`` without ``sass`` (they count instructions that no thread
executes, which the assembler adds).
"""

UNLIKE = {
    "atomics/shared_red_same": "the assembler reduces over the warp first: one lane adds",
    "atomics/global_red_same": "the assembler reduces over the warp first: one lane adds",
    "joined/words_from_a_place_read_at_run_time": "the assembler cannot know the alignment",
}
"""Kernels whose counters differ, and why."""

CASES = {case.name: case for case in cases.counted()}


def differences(name: str) -> dict[str, tuple[int, int]]:
    """Metric -> (the emulator's value, the GPU's), where they differ."""
    counters = replay.launch(CASES[name]).counters
    here = {metric: counters.get(metric, 0) for metric in COMPARED}
    return {
        metric: (here[metric], GPU[name][metric])
        for metric in COMPARED
        if metric in GPU[name] and here[metric] != GPU[name][metric]
    }


def test_every_kernel_is_recorded() -> None:
    assert set(CASES) == set(GPU)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("book/")])
def test_microkernel(name: str) -> None:
    found = differences(name)
    assert bool(found) == (name in UNLIKE), f"{name}: {found}"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", [f"book/{kernel}" for kernel in cases.BOOK])
def test_book_kernel(name: str) -> None:
    """Exact, but for what 16 warps at once add: now and then one has to give way to another.

    The profiler counts that as a conflict and its wavefront; how often it happens changes from
    run to run.  ``smsp__sass_…`` counts from addresses alone, and equals the emulator's number.
    """
    counters, gpu = replay.launch(CASES[name]).counters, GPU[name]
    for metric in COMPARED:
        here = counters.get(metric, 0)
        if "bank_conflicts" in metric:
            assert here == 0 and gpu[metric] <= 0.15 * 8192
        elif "wavefronts" in metric:
            assert here <= gpu[metric] <= here + 0.15 * 8192
        elif metric in gpu:
            assert here == gpu[metric], metric
    loads = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    assert counters[loads] == gpu[f"smsp__sass_{loads.replace('l1tex__', 'l1tex_')}"]
    assert counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 32_768
    assert counters[loads] == (131_072 if name == "book/double_buffering/tiled" else 98_304)


# Each rule matters: without it some recorded kernel comes out wrong.

LANE = np.arange(32)


def test_pairs_of_lanes_that_ask_for_the_same_merge_two_parts() -> None:
    assert bank_passes(8 * (LANE // 2), 8) == (1, 0)
    assert bank_passes(8 * (LANE % 16), 8) == (2, 0)  # the same, but not in pairs
    assert bank_passes(8 * (LANE // 2), 8, load=False) == (2, 0)  # stores do not merge
    assert bank_passes(16 * (LANE % 2 * 8), 16) == (4, 2)


def test_absent_lanes_cost_nothing() -> None:
    half = np.where(LANE < 16, 16 * LANE, -1)
    assert bank_passes(half, 16) == (2, 0)


def test_joining_stops_where_the_alignment_is_unknown() -> None:
    words = [(4 * k, 4) for k in range(4)]
    assert merged(words, 0, 16) == [(0, 16)]
    assert merged(words, 0, 8) == [(0, 8), (8, 8)]
    assert merged(words, 0, 4) == words
    assert merged([(0, 1), (1, 1)], 0, 16) == [(0, 1), (1, 1)]
