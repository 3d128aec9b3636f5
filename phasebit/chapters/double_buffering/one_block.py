"""What keeps one block from its floor, counted; and what the tensor cores' product is worth.

Two parts of the record ``clock_stamps`` of *Double buffering with barriers*.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np

import phasebit as pb
from phasebit import files, toolchain
from phasebit.edits import replace_each, replace_once
from phasebit.instruments import profiler
from phasebit.launching.devices import Device

TRIES: dict[str, tuple[str, str, str]] = {
    "e": ("e_warp_workers", "", ""),
    "g": ("g_own_ring", "", ""),
    "g, every row the same way": ("g_own_ring", "j = i % 2 ? 7 - n : n;", "j = n;"),
    "g, at most 128 registers": (
        "g_own_ring",
        "__launch_bounds__(THREADS, 1)",
        "__launch_bounds__(THREADS, 2)",
    ),
    "h": ("h_tensor_cores", "", ""),
}
"""What is counted: a kernel's file, something that it says, and what a copy of it says instead."""

COUNTERS = {
    "cycles": "sm__cycles_active.max",
    "issued": "smsp__inst_executed.sum",
    "delivering": "l1tex__lsu_writeback_active.sum",
    "held_back": "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active.ratio",
    "pipe_taken": "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
}
"""What the record calls a counter -> its name in Nsight Compute.

Cycles of the multiprocessor; instructions of warps; cycles in which shared memory delivers to
registers; and, for each instruction that is issued, the warps that the dispatcher holds back, and
the warps whose pipe is taken.
"""

PROTOCOL = {
    "counted": "Nsight Compute, the kernel's second launch in a process, caches flushed, the GPU's "
    "own clock; the time is the median of warm launches without it",
    "errors": "the largest over all of C and five draws of normal random numbers, over Σ|a·b|, in "
    "units of 2⁻²⁴; the second number is that of f32 sums, one term at a time",
    "errors_positive": "the same for numbers from 0.5 to 1, whose errors do not cancel",
}
"""How the two parts are measured."""

ONE_PRODUCT = "h_tensor_cores, one product"
"""The kernel without the two products that involve a lower part."""

ROUNDED = "h_tensor_cores, rounded parts"
"""The kernel whose parts are rounded to tf32 by an instruction, not cut off."""

_CUT = (
    (
        "__device__ float high(float x) "
        "{ return __uint_as_float(__float_as_uint(x) & 0xffffe000); }\n",
        "__device__ float high(float x) {\n"
        "    unsigned bits;\n"
        '    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));\n'
        "    return __uint_as_float(bits);\n"
        "}\n",
    ),
    ("{ return x - high(x); }", "{ return high(x - high(x)); }"),
)
_DRAWS = 5
_SHARED_BYTES = 200_000  # more than any of these kernels asks for


def kernel_text(name: str) -> str:
    """The source of one of the chapter's kernels, by its file name without ``.cu``."""
    return files.kernel(f"double_buffering/{name}")


def tries() -> dict[str, str]:
    """Name -> source of everything that is counted.

    Raises ``ValueError`` when a file does not say once what a copy of it is to say otherwise.
    """
    found = {}
    for name, (kernel, old, new) in TRIES.items():
        text = kernel_text(kernel)
        found[name] = replace_once(text, old, new, f"{kernel}.cu") if old else text
    return found


def one_product(source: str) -> str:
    """``h_tensor_cores`` with upper parts only: what tensor cores do when nobody splits.

    Raises ``ValueError`` when a line is not there once.
    """
    lower = ("mma(c[h][i], b_low, a_high);", "mma(c[h][i], b_high, a_low);")
    return replace_each(source, [(line, "") for line in lower], "h_tensor_cores.cu")


def rounded(source: str) -> str:
    """``h_tensor_cores`` with both parts of a number rounded to the nearest tf32 number.

    Raises ``ValueError`` when a line is not there once.
    """
    return replace_each(source, _CUT, "h_tensor_cores.cu")


def counted(times: Callable[[Path], list[float]]) -> list[dict[str, float | str]]:
    """Count each of :data:`TRIES`; ``times`` runs a program and gives its warm times in µs."""
    rows = []
    for name, source in tries().items():
        program = toolchain.build(source).program
        one_launch: list[str | Path] = ["-k", "matmul", "-s", "1", "-c", "1", program]
        ((_, found),) = profiler.count(one_launch, list(COUNTERS.values()))
        row: dict[str, float | str] = {what: found[metric] for what, metric in COUNTERS.items()}
        rows.append({"what": name, **row, "warm_us": statistics.median(times(program))})
    return rows


def error(
    source: str, depth: int, seed: int, device: Device, positive: bool = False
) -> tuple[float, float]:
    """The largest error of a kernel's C (32, 32) for K = ``depth``, over Σ|a·b| of its element, in
    units of 2⁻²⁴; and that of sums in f32, one term at a time. The numbers are normal ones, or
    ``positive``: from 0.5 to 1."""
    draw = np.random.default_rng(seed)

    def numbers(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        drawn = draw.uniform(0.5, 1, shape) if positive else draw.standard_normal(shape)
        return drawn.astype(np.float32)

    a, b = numbers(32, depth), numbers(depth, 32)
    c = np.full((32, 32), np.nan, np.float32)
    text = source.replace('#include "harness.cuh"', "").replace("K = 4096", f"K = {depth}")
    warps = re.search(r"constexpr int WARPS = (\d+);", text)
    if warps is None:
        raise ValueError("give a kernel whose file defines constexpr int WARPS")
    pb.compile(text)["matmul"].launch(
        grid=1, block=32 * int(warps[1]), args=[a, b, c], shared=_SHARED_BYTES, device=device
    )
    plain = np.zeros((32, 32), np.float32)
    for k in range(depth):
        plain += a[:, k, None] * b[k]
    exact = a.astype(float) @ b.astype(float)
    unit = np.abs(a).astype(float) @ np.abs(b).astype(float) * 2.0**-24

    def largest(found: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
        return float((np.abs(found - exact) / unit).max())

    return largest(c), largest(plain)


def errors(positive: bool = False) -> dict[str, list[float]]:
    """Kernel -> the largest error on this machine's GPU, and that of f32 sums, as :func:`error`."""
    tensor = files.kernel("double_buffering/h_tensor_cores")
    sources = {
        "g_own_ring": files.kernel("double_buffering/g_own_ring"),
        "h_tensor_cores": tensor,
        ROUNDED: rounded(tensor),
        ONE_PRODUCT: one_product(tensor),
    }
    found = {}
    for name, source in sources.items():
        pairs = [error(source, 4096, seed, "gpu", positive) for seed in range(_DRAWS)]
        found[name] = [max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)]
    return found
