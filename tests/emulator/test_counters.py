"""Memory counters against Nsight Compute on an H200, and the instructions they count.

``traffic_h200.json`` holds what ``ncu`` said of every launch of
``cuda/traffic.cu`` (four kinds of access, five widths, 22 patterns of addresses)
and of the book's two kernels.  Recorded with CUDA 13.0 and

    nvcc -std=c++17 -O3 -arch=sm_90 traffic.cu
    ncu --clock-control none --csv --page raw --metrics …
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit import files
from phasebit.emulator import Run
from phasebit.emulator.checker.traffic import bank_passes, merged
from phasebit.launching.launch import Module, compile
from tests.emulator import cases

HERE = Path(__file__).parent
RECORD: dict[str, Any] = json.loads((HERE / "traffic_h200.json").read_text())
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_"
LANE = np.arange(32)
PATTERNS = [
    LANE, 2 * LANE, 3 * LANE, 4 * LANE, 8 * LANE, 16 * LANE, 32 * LANE, 33 * LANE, 0 * LANE + 5,
    LANE // 2, LANE // 4, LANE // 8, LANE // 16, LANE % 2, 31 - LANE, (7 * LANE + 3) % 32,
    LANE + 1, LANE % 8 * 32 + LANE // 8, LANE % 2 * 32,
    np.where(LANE < 16, 2 * LANE, 2 * LANE - 31), LANE % 4 * 8, (13 * LANE * LANE + LANE) % 997,
]  # fmt: skip


def recorded(kernel: str, pattern: int) -> dict[str, int]:
    """What ncu counted for the launch of a kernel with a pattern."""
    found: dict[str, int] = RECORD["traffic"][kernel][pattern]
    return found


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_wavefronts_and_conflicts_of_every_pattern(size: int) -> None:
    for number, pattern in enumerate(PATTERNS):
        for op, load in (("ld", True), ("st", False)):
            kernel = f"shared_{'load' if load else 'store'}_{size}"
            want = recorded(kernel, number)
            got = bank_passes(pattern * size, size, load)
            assert got == (want[f"{WAVEFRONTS}{op}.sum"], want[f"{CONFLICTS}{op}.sum"]), (
                kernel,
                number,
            )


def test_neighbouring_loads_are_joined() -> None:
    assert merged([(0, 4), (4, 4), (8, 8), (20, 4), (24, 4)]) == [(0, 16), (20, 4), (24, 4)]


@pytest.fixture(scope="module")
def traffic() -> Module:
    return compile(HERE / "cuda" / "traffic.cu", "sm_90a")


def run_pattern(module: Module, kernel: str, pattern: np.ndarray[Any, Any], size: int) -> Run:
    index = pattern.astype(np.int32)
    out = np.zeros(1056 * size, np.uint8)
    args: list[Any] = [index, out]
    if kernel.startswith("global_load"):
        args.insert(1, np.zeros(1056 * size, np.uint8))
    return module[kernel].launch(1, 32, args)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("access", ["global_load", "global_store", "shared_load"])
class TestWholeKernels:
    pytestmark = pytest.mark.nvcc

    def test_counters_of_the_emulator(self, traffic: Module, access: str, size: int) -> None:
        kernel = f"{access}_{size}"
        names = [
            "l1tex__t_requests_pipe_lsu_mem_global_op_",
            "l1tex__t_sectors_pipe_lsu_mem_global_op_",
        ]
        if access == "shared_load":
            names += [WAVEFRONTS, CONFLICTS]
        for number, pattern in enumerate(PATTERNS):
            got = run_pattern(traffic, kernel, pattern, size).counters
            want = recorded(kernel, number)
            for name in names:
                for op in ("ld", "st"):
                    if access == "shared_load" and op == "st" and "shared" in name:
                        continue  # the fill loop is unrolled differently by ptxas
                    metric = f"{name}{op}.sum"
                    assert got.get(metric, 0) == want[metric], (kernel, number, metric)


@pytest.mark.parametrize("kernel", cases.BOOK)
class TestTheBooksKernels:
    pytestmark = pytest.mark.nvcc

    def test_counters_equal_those_of_the_h200(self, kernel: str) -> None:
        module = compile(files.kernels() / f"{kernel}.cu", "sm_90a")
        rng = np.random.default_rng(1)
        a = rng.integers(-4, 5, (32, 4096)).astype(np.float32)
        b = rng.integers(-4, 5, (4096, 32)).astype(np.float32)
        c = np.zeros((32, 32), np.float32)
        run = module["matmul"].launch(1, 512, [a, b, c])
        assert np.array_equal(c, a @ b) and not run.findings
        want = RECORD[kernel]
        exact = [m for m in want if "global" in m or "inst_executed_op_shared" in m]
        for metric in exact:
            assert run.counters[metric.replace("smsp__inst", "smsp__sass_inst")] == want[metric]
        # hardware adds a few wavefronts when warps compete for the pipe (a different number in
        # each run): ours may be less by 1 % of loads and by 15 % of stores, never more
        for op, slack in (("ld", 0.01), ("st", 0.15)):
            metric = f"{WAVEFRONTS}{op}.sum"
            assert want[metric] * (1 - slack) <= run.counters[metric] <= want[metric], metric
