"""The transposes of a large matrix and of one that stays in the L2 cache, with DRAM's counters.

Sectors alone do not predict the naive transpose's time. Here the same machine code moves a matrix
that is larger than the L2 cache, and one of which all writes fit into it; each with rows of a power
of two, and with rows that are one tile longer.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from phasebit import files, measure
from phasebit.instruments import profiler
from phasebit.launching.launch import compile as compile_ptx

NAME = "transposes_counted"
KERNELS = ("copy", "naive", "tiled", "padded")
SHAPES = ((8192, 8192), (8224, 8192), (2048, 2048), (2080, 2048))
"""Rows and columns of the input; the transpose has as many columns as this has rows."""
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
L2_WRITES, L2_READS = "lts__t_sectors_op_write.sum", "lts__t_sectors_op_read.sum"
TIME = "gpu__time_duration.sum"
METRICS = (READ, WRITTEN, L2_READS, L2_WRITES, TIME)
ROUNDS = 5


def launches() -> list[tuple[str, tuple[int, int]]]:
    """Kernel and shape of each launch, in order."""
    return [(kernel, shape) for shape in SHAPES for _ in range(ROUNDS) for kernel in KERNELS]


def launch_all() -> None:
    """Every launch on this machine's GPU; one that is wrong ends the program."""
    module = compile_ptx(files.kernel("threads_and_memory/transpose"), "sm_75")
    random = np.random.default_rng()
    for kernel, (rows, cols) in launches():
        matrix = random.random((rows, cols), np.float32)
        moved = np.full(rows * cols, np.nan, np.float32)
        grid = (-(-cols // 32), -(-rows // 32))
        module[kernel].launch(grid, (32, 8), [matrix.ravel(), moved, rows, cols], device="gpu")
        right = matrix if kernel == "copy" else matrix.T
        if not np.array_equal(moved, right.ravel()):
            sys.exit(f"{kernel} of {rows} × {cols} is wrong")


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`phasebit.toolchain.CudaError` when there is no GPU, no Nsight Compute, or when a
    kernel is wrong.
    """
    facts = measure.facts()
    counted = profiler.count([sys.executable, "-m", __name__], METRICS)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "counters": f"{profiler.version()}, --clock-control none, caches flushed before each "
            f"launch; {ROUNDS} launches of each kernel and shape, by turns; PTX for sm_75 "
            "assembled by the driver",
            "times": f"{TIME}, nanoseconds, of the same launches",
            "inputs": "random f32 numbers; every result was compared with its input",
        },
        "launches": [
            {"kernel": kernel, "shape": list(shape)} | counts
            for (kernel, shape), (_, counts) in zip(launches(), counted, strict=True)
        ],
    }


if __name__ == "__main__":  # what Nsight Compute looks at
    launch_all()
