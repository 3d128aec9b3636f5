"""Checks of *Your own kernels*: answers are launched, and a test is tried on wrong kernels."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from phasebit import process
from phasebit.build_cache import Scratch
from phasebit.chapters.your_own_kernels.view import environment
from phasebit.emulator import EmulatorError
from phasebit.exercises.judge import Wrong, judged, shown, whole
from phasebit.launching.launch import Module, compile
from phasebit.toolchain import CudaError

HALF_MENDED = """
__global__ void reverse(int* x)
{
    __shared__ int s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
"""

SUMS = """
__global__ void sums(const int* x, int* y, int n)
{
    __shared__ int s[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0;
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
"""

WRONG_SUMS = {
    "has no barrier": ("__syncthreads();", ""),
    "reads past the end": ("i < n ? x[i] : 0", "x[i]"),
    "leaves the last block's elements out where they are few": ("i < n", "i < n / 128 * 128"),
    "takes one element for all of a block": ("? x[i]", "? x[i - threadIdx.x]"),
    "adds every block's sum to the first": ("y[blockIdx.x] =", "y[0] +="),
}
"""What is wrong with a kernel -> the change that makes it so."""

_SECONDS = 300.0


@cache
def _half_mended() -> Module:
    return compile(HALF_MENDED)


def _shows(threads: int) -> bool:
    """Whether anything is found in the kernel with one warp's barrier, in a block so large."""
    x = np.arange(256, dtype=np.int32)
    return bool(_half_mended()["reverse"].launch(1, threads, [x]).findings)


@judged
def smallest_block(threads: Any) -> str:
    """The fewest threads in a block for which something is found."""
    if not whole(threads) or not 1 <= threads <= 256:
        raise Wrong(f"{shown(threads)} is no number of threads: s has room for 1 to 256")
    if not _shows(int(threads)):
        raise Wrong(f"with {threads} nothing is found")
    if threads > 1 and _shows(int(threads) - 1):
        raise Wrong(f"with {threads} it is found, and with one thread fewer as well")
    return "launched, and once more with one thread fewer"


@judged
def rotate(source: Any) -> str:
    """CUDA source of ``rotate(int* x, int times)``: blocks of up to 256, two barriers a turn."""
    if not isinstance(source, str):
        raise Wrong(f"{shown(source)} is no CUDA source")
    try:
        kernel = compile(source + "\n")["rotate"]
    except (CudaError, EmulatorError) as error:
        raise Wrong(str(error)) from error
    launches = [(1, 3), (32, 2), (33, 1), (100, 5), (256, 4)]
    for threads, times in launches:
        x = np.random.default_rng(threads).integers(0, 1000, threads).astype(np.int32)
        expected = np.roll(x, -times)
        where = f"{threads} threads, {times} turns"
        try:
            run = kernel.launch(1, threads, [x, times])
        except EmulatorError as error:
            raise Wrong(f"{where}: {error}") from error
        if run.findings:
            raise Wrong(f"{where}: {run.findings[0]}")
        if not (x == expected).all():
            raise Wrong(f"{where}: the numbers are not turned")
        # Of two counters the one is there for barriers of a block, the other for none.
        barriers = run.counters.get("barrier.syncs", 0) / threads
        if barriers > 2 * times:
            raise Wrong(f"{where}: {barriers:g} barriers, and {2 * times} are enough")
    return f"{len(launches)} launches"


@judged
def catches(text: Any) -> str:
    """The text of a test file for ``sums.cu``: passes for a right kernel, fails for wrong ones."""
    if not isinstance(text, str):
        raise Wrong(f"{shown(text)} is no text of a test file")
    outcomes = _tried(text)
    if not outcomes["right"]:
        raise Wrong("pytest finds no test in it")
    if failed := [name for name, failure in outcomes["right"] if failure]:
        raise Wrong(f"{failed[0]} fails for a kernel that is right")
    for what, results in outcomes.items():
        if what != "right" and not any(failure for _, failure in results):
            raise Wrong(f"it passes a kernel that {what}")
    return f"passes the right kernel, fails {len(WRONG_SUMS)} wrong ones"


def _tried(text: str) -> dict[str, list[tuple[str, bool]]]:
    """For each kernel the tests of the file, by name, and whether each failed."""
    changes = {"right": ("", ""), **WRONG_SUMS}
    with Scratch() as scratch:
        for number, (old, new) in enumerate(changes.values()):
            folder = Path(scratch, f"kernel_{number}")
            folder.mkdir()
            (folder / "sums.cu").write_text(SUMS.replace(old, new), encoding="utf-8")
            (folder / "test_sums.py").write_text(text, encoding="utf-8")
        report = Path(scratch, "report.xml")
        done = process.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
             "-p", "phasebit.pytest_plugin", "--import-mode=importlib", f"--rootdir={scratch}",
             f"--junitxml={report}", scratch],
            timeout=_SECONDS, cwd=scratch, env=environment(),
        )  # fmt: skip
        if not report.exists():
            raise Wrong(f"pytest does not come to its end: {done.stdout.strip()[-300:]}")
        found: dict[str, list[tuple[str, bool]]] = {what: [] for what in changes}
        for case in ElementTree.parse(report).iter("testcase"):
            where = case.attrib["classname"] or case.attrib["name"]  # of a file that is no Python
            number = int(where.partition(".")[0].removeprefix("kernel_"))
            failed = any(case.find(word) is not None for word in ("failure", "error"))
            found[[*changes][number]].append((case.attrib["name"], failed))
    return found
