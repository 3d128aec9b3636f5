"""The halves of a transpose: each makes the whole's accesses to its memory, and checks them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit import files
from phasebit.chapters.threads_and_memory import record as benchmark
from phasebit.chapters.threads_and_memory import transpose_halves as halves
from phasebit.edits import replace_once
from phasebit.launching.launch import compile as compile_ptx
from tests.kernels.emulated import emulate

pytestmark = pytest.mark.nvcc

NAME = "threads_and_memory/halves"


def test_the_halves_are_right_on_the_emulator() -> None:
    done = emulate(files.kernel(NAME))
    assert done.ok and not done.stderr, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3 and all(line.endswith(": OK") for line in lines)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("if (x < rows && y < cols) out[y * rows + x] = held[i];",
         "if (x < rows && y < cols) out[y * rows + x] = held[0];", "device memory alone"),
        ("if (x < cols && y < rows) tile[j][threadIdx.x] = scale",
         "if (x < cols && y < rows) tile[threadIdx.x][j] = scale", "shared memory alone"),
    ],
)  # fmt: skip
def test_a_wrong_half_is_seen(right: str, wrong: str, said: str) -> None:
    text = files.kernel(NAME)
    done = emulate(replace_once(text, right, wrong), right=text)
    assert not done.ok and f"wrong result of {said}" in done.stderr, done.stdout + done.stderr


def test_each_half_does_to_its_memory_what_the_whole_does() -> None:
    module = compile_ptx(files.kernel(NAME), "sm_75")
    rows, cols = benchmark.SHAPE
    matrix = np.arange(rows * cols, dtype=np.float32)

    def counted(name: str, *args: Any) -> dict[str, float]:
        run = module[name].launch((cols // 32, rows // 32), (32, 8), list(args),
                                   device="emulator")  # fmt: skip
        assert run.findings == []
        return {metric: run.counters.get(metric, 0) for metric in benchmark.METRICS}

    device = counted("device_alone<true>", matrix, np.zeros_like(matrix), rows, cols)
    nobody = np.zeros(rows * cols, np.uint32)
    for kernel in halves.WHOLE:
        whole = counted(kernel, matrix, np.zeros_like(matrix), rows, cols)
        shared = counted(f"shared_{kernel}", nobody, rows, cols, np.uint32(0))
        for metric, count in whole.items():
            mine, other = (device, shared) if "global" in metric else (shared, device)
            assert mine[metric] == count and other[metric] == 0, (kernel, metric)
    assert not nobody.any()
