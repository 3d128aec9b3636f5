"""How fast the emulator runs the book's two kernels, in thread-instructions a second.

    python bench/bench_emulator.py [TARGET …]
    python bench/bench_emulator.py --against CHECKOUT [TARGET …]

The second form compares this checkout of phasebit with another one, by turns in one run: it says
what a change of the emulator costs.

Two CUDA emulators for Python run the tiled kernel beside it, where they are installed
(``pip install numba vgre``): Numba's CUDA simulator and vgre.

Each time is the least of several, of the processor's time in this process and all its threads:
other work on the machine disturbs it less than it would the clock on the wall. It is taken the
same way for all, after one launch that compiles. Everyone is credited with the thread-instructions
of the PTX that nvcc makes of the kernel, so a ratio of rates is one of times.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import phasebit
from phasebit import files

K, REPEATS = 4096, 5
KERNELS = ("double_buffering/tiled", "double_buffering/barrier_double_buffer")
MODES: dict[str, dict[str, Any]] = {
    "fast": {"check": False, "exact": False},
    "exact": {"check": False},
    "checked": {"check": True},  # and exact: the default
}
BLOCKS = 8
"""Blocks of a larger launch; NumPy works on them at once, so it has less to call."""

LESS = 8
"""Numba's simulator gets this fraction of K, because it is slow."""


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least of several times that the processor spent, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def matrices(depth: int) -> tuple[Any, Any, Any]:
    """A (32, depth), B (depth, 32) and C (32, 32) of zeros."""
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, depth), "f4"), rng.standard_normal((depth, 32), "f4")
    return a, b, np.zeros((32, 32), "f4")


def report(what: str, target: str, mode: str, seconds: float, instructions: float) -> float:
    rate = instructions / seconds
    print(f"{what:<28} {target:<8} {mode:<8} {seconds:7.3f} s {rate / 1e6:8.1f} M/s", flush=True)
    return rate


def emulator(name: str, target: str, blocks: int = 1) -> tuple[int, dict[str, float]]:
    """One kernel in all modes: its instructions, and the rate of each mode.

    Several blocks all compute the same C: a race, so only the modes without checks run them.
    """
    kernel = phasebit.compile(files.kernels() / f"{name}.cu", target)["matmul"]
    a, b, c = matrices(K)
    rates = {}
    for mode, options in MODES.items():
        if blocks > 1 and mode == "checked":
            continue
        run = kernel.launch(blocks, 512, [a, b, c], **options)  # translates
        count = run.counters["smsp__thread_inst_executed.sum"]
        seconds = best(lambda o=options: kernel.launch(blocks, 512, [a, b, c], **o))
        assert np.allclose(c, a @ b, atol=1e-3)
        what = name if blocks == 1 else f"{name}, {blocks} blocks"
        rates[mode] = report(what, target, mode, seconds, count)
    return count, rates


def numba_simulator() -> tuple[float, int]:
    """The tiled kernel in Numba's CUDA simulator: seconds, and the K it had."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    global cuda  # the simulator puts its own in place of the kernel's global
    from numba import cuda, float32

    @cuda.jit
    def tiled(a: Any, b: Any, c: Any) -> None:
        at = cuda.shared.array((32, 32), float32)
        bt = cuda.shared.array((32, 32), float32)
        x, y = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
        first = second = float32(0)
        for k0 in range(0, a.shape[1], 32):
            at[y, x], at[y + 16, x] = a[y, k0 + x], a[y + 16, k0 + x]
            bt[y, x], bt[y + 16, x] = b[k0 + y, x], b[k0 + y + 16, x]
            cuda.syncthreads()
            for k in range(32):
                first += at[y, k] * bt[k, x]
                second += at[y + 16, k] * bt[k, x]
            cuda.syncthreads()
        c[y, x], c[y + 16, x] = first, second

    a, b, c = matrices(K // LESS)
    seconds = best(lambda: tiled[1, 512](a, b, c), 3)
    assert np.allclose(c, a @ b, atol=1e-3)
    return seconds, K // LESS


VGRE_SOURCE = """
extern "C" __global__ void tiled(float* A, float* B, float* C, int K) {
    __shared__ float a[1024];
    __shared__ float b[1024];
    int x = threadIdx.x % 32;
    int y = threadIdx.x / 32;
    float first = 0.0f;
    float second = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        a[y * 32 + x] = A[y * K + k0 + x];
        a[(y + 16) * 32 + x] = A[(y + 16) * K + k0 + x];
        b[y * 32 + x] = B[(k0 + y) * 32 + x];
        b[(y + 16) * 32 + x] = B[(k0 + y + 16) * 32 + x];
        __syncthreads();
        for (int k = 0; k < 32; k++) {
            first += a[y * 32 + k] * b[k * 32 + x];
            second += a[(y + 16) * 32 + k] * b[k * 32 + x];
        }
        __syncthreads();
    }
    C[y * 32 + x] = first;
    C[(y + 16) * 32 + x] = second;
}
"""


def vgre() -> tuple[float, int]:
    """The tiled kernel in vgre, in the part of CUDA that it compiles: seconds, and its K."""
    from vgre import Kernel, Runtime
    from vgre.kernel import Dim3

    a, b, c = matrices(K)
    with contextlib.redirect_stdout(io.StringIO()):  # it introduces itself
        runtime = Runtime()
        runtime.init()
        kernel = Kernel("tiled", VGRE_SOURCE)

        def launch() -> None:
            runtime.launch(kernel, Dim3(1), Dim3(512), [a, b, c, K])
            runtime.synchronize()

        launch()  # compiles
        seconds = best(launch, 3)
    assert np.allclose(c, a @ b, atol=1e-3)
    return seconds, K


TURNS = 15
"""Launches of each kernel, mode and checkout that are compared."""


class Side:
    """A process that runs one kernel with the phasebit of one checkout, a launch a question."""

    def __init__(self, checkout: Path, ptx: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--side"], cwd=checkout, text=True,
            env=os.environ | {"PYTHONPATH": str(checkout)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.ask({"ptx": ptx})

    def ask(self, question: dict[str, Any]) -> float:
        """What it answers: the seconds that a launch took."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def end(self) -> None:
        self.process.communicate()


def side() -> None:
    """Answer the questions of :class:`Side`."""
    a, b, c = matrices(K)
    kernel = None
    for line in sys.stdin:
        question = json.loads(line)
        if "ptx" in question:
            kernel = phasebit.Module(question["ptx"])["matmul"]
            print(0.0, flush=True)
            continue
        assert kernel is not None
        work = functools.partial(kernel.launch, 1, 512, [a, b, c], **MODES[question["mode"]])
        print(best(work, 1), flush=True)


def against(checkout: Path, targets: list[str]) -> None:
    """This checkout's speed as a multiple of another one's."""
    here = Path(phasebit.__file__).parents[1]
    print(f"Seconds of processor time, the least of {TURNS} launches each, by turns.")
    print(f"old: {checkout}; new: {here}")
    for target in targets:
        for name in KERNELS:
            ptx = phasebit.compile(files.kernels() / f"{name}.cu", target).ptx
            sides = [Side(checkout, ptx), Side(here, ptx)]
            for mode in MODES:
                times: list[list[float]] = [[], []]
                for turn in range(TURNS + 1):  # the first one translates
                    for which in (0, 1) if turn % 2 else (1, 0):
                        seconds = sides[which].ask({"mode": mode})
                        times[which] += [seconds] if turn else []
                old, new = map(min, times)
                print(f"{name:<28} {target:<8} {mode:<8} old {old:7.3f} s  new {new:7.3f} s  "
                      f"speed {old / new:5.3f}", flush=True)  # fmt: skip
            for each in sides:
                each.end()


def main(targets: list[str]) -> None:
    print(f"C (32, 32) = A · B with K = {K}, 512 threads, one block; checked is the default mode.")
    print(f"Thread-instructions a second of processor time, the best of {REPEATS} launches.")
    print("The rivals run one block; Numba's simulator takes blocks one after another.")
    print()
    for target in targets:
        count, rates = emulator(KERNELS[0], target)
        _, wide = emulator(KERNELS[0], target, BLOCKS)
        rates |= {f"{mode} with {BLOCKS} blocks": rate for mode, rate in wide.items()}
        for name in KERNELS[1:]:
            emulator(name, target)
    print()
    for name, run in (("numba", numba_simulator), ("vgre", vgre)):
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            print(f"{name} is not installed: not measured in this run")
            continue
        seconds, depth = run()
        rate = report(f"{name} {version}, K = {depth}", "", "", seconds, count * depth / K)
        for mode, ours in rates.items():
            print(f"    the emulator on {KERNELS[0]}, {mode:<20} {ours / rate:6.0f}× as fast")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--side"]:
            side()
        case ["--against", checkout, *rest]:
            against(Path(checkout).resolve(), rest or ["sm_90a"])
        case targets:
            main(targets or ["sm_90a"])
