"""How fast the emulator runs the book's two kernels, in thread-instructions a second.

    python bench/bench_emulator.py [TARGET …]

Each line is the best of several runs on this machine: ``fast`` rounds f32
multiply-adds twice, ``exact`` gives the bits of hardware, ``checked`` also looks
for races, checks every address and counts sectors and wavefronts.  Numba's CUDA
simulator runs the tiled kernel beside them where Numba is installed, with an
eighth of K, because it is slow.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit import files
from phasebit.emulator.launch import compile

K, REPEATS = 4096, 3
MODES: dict[str, dict[str, Any]] = {
    "fast": {"check": False, "exact": False},
    "exact": {"check": False},
    "checked": {"check": True},
}


def best(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least of several wall-clock times, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def emulator(target: str) -> None:
    """The two kernels at full size: A (32, K), B (K, 32)."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((32, K), np.float32)
    b = rng.standard_normal((K, 32), np.float32)
    c = np.zeros((32, 32), np.float32)
    for name in ("04_tiled", "05_barrier_double_buffer"):
        kernel = compile(files.kernels() / f"{name}.cu", target)["matmul"]
        for mode, options in MODES.items():
            run = kernel.launch(1, 512, [a, b, c], **options)  # translates
            count = run.counters["smsp__thread_inst_executed.sum"]
            seconds = best(lambda k=kernel, o=options: k.launch(1, 512, [a, b, c], **o))
            assert np.allclose(c, a @ b, atol=1e-3)
            rate = count / seconds / 1e6
            print(f"{name:<26} {target:<8} {mode:<8} {seconds:7.3f} s {rate:8.1f} M/s")


def numba_simulator() -> None:
    """The tiled kernel in Numba's CUDA simulator; counts the same thread-instructions."""
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    global cuda  # the simulator puts its own in place of the kernel's global
    try:
        from numba import cuda, float32
    except ImportError:
        print("numba is not installed: its simulator was not measured")
        return

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

    depth = K // 8
    a, b, c = np.ones((32, depth), "f4"), np.ones((depth, 32), "f4"), np.zeros((32, 32), "f4")
    module = compile(files.kernels() / "04_tiled.cu", "sm_90a")
    run = module["matmul"].launch(1, 512, [np.ones((32, K), "f4"), np.ones((K, 32), "f4"), c],
                                  check=False)  # fmt: skip
    count = run.counters["smsp__thread_inst_executed.sum"] * depth / K
    seconds = best(lambda: tiled[1, 512](a, b, c), 1)
    assert (c == depth).all()
    rate = count / seconds / 1e6
    print(f"numba simulator, tiled, K={depth:<5} {seconds:14.3f} s {rate:8.1f} M/s")


if __name__ == "__main__":
    for each in sys.argv[1:] or ["sm_90a"]:
        emulator(each)
    numba_simulator()
