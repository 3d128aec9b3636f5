"""Checks of *Measuring honestly*."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from phasebit.emulator import EmulatorError
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, ask, judged, real
from phasebit.launching.launch import compile as compile_ptx
from phasebit.rounding import FORMATS, product_bound
from phasebit.toolchain import CompileError

_FORMAT_NAMES = ("f32", "f16", "bf16")


def _close(given: Any, right: float, where: str, unit: str) -> None:
    found = real(given, unit)
    if not math.isclose(found, right, rel_tol=1e-6):
        raise Wrong(f"for {where} it gives {found:.6g} {unit}, expected is {right:.6g}")


@judged
def possible(answer: Callable[[float, float, float, float, float], bool]) -> str:
    """``answer(flop, moved, microseconds, terabytes, teraflops)``: can that time be true?

    ``moved`` bytes must pass a memory of ``terabytes`` TB/s, and ``flop`` operations units of
    ``teraflops`` TFLOP/s; the two may overlap.
    """
    draw = random.Random()

    def cases() -> Iterator[Case]:
        for _ in range(200):
            terabytes, teraflops = draw.uniform(0.2, 8), draw.uniform(5, 2000)
            flop = 10 ** draw.uniform(5, 13)
            moved = flop / 10 ** draw.uniform(-1, 3.5)
            floor = max(moved / terabytes, flop / teraflops) * 1e-6
            for factor in (1e-3, 0.6, 0.97, 1.03, 1.6, 1e3):
                case = (flop, moved, floor * factor, terabytes, teraflops)
                yield case, factor > 1

    def words(flop: float, moved: float, time: float, terabytes: float, teraflops: float) -> str:
        return (
            f"{flop:.3g} operations and {moved:.3g} bytes in {time:.3g} µs, at {terabytes:.3g} "
            f"TB/s and {teraflops:.3g} TFLOP/s"
        )

    def plain(*case: float) -> Any:
        given = answer(*case)
        return bool(given) if isinstance(given, np.bool_) else given

    return agree(plain, cases(), words, "claims")


@judged
def bound(answer: Callable[[int, str, str], float]) -> str:
    """``answer(K, sums, output)``: the largest |error| / Σ|a·b| of a correct kernel.

    Sums of K products in the format ``sums``, in any order, the result rounded to ``output``
    at the end if that has fewer bits.
    """
    draw = random.Random()
    cases = [(4096, "f32", "f32"), (4096, "f32", "bf16"), (100, "f16", "f16"), (1, "f32", "f16")]
    for _ in range(50):
        sums = draw.choice(_FORMAT_NAMES)
        most = 2 ** (FORMATS[sums].bits - 1) - 1
        cases.append((draw.randint(1, min(most, 100_000)), sums, draw.choice(_FORMAT_NAMES)))
    for K, sums, output in cases:
        right = product_bound(K, sums=sums, output=output)
        where = f"{K} products, sums in {sums}, output in {output}"
        _close(ask(answer, K, sums, output), right, where, "times Σ|a·b|")
    return f"{len(cases)} kernels"


COUNT_WRONG = """\
// count[0] += how many of the n elements are not within allowed of exact
extern "C" __global__ void count_wrong(const float* got, const double* exact,
                                       const double* allowed, int n, int* count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    // yours
}
"""
"""The skeleton of the exercise that checks on the GPU."""

_THREADS = 128  # a block of count_wrong


@judged
def count_wrong(answer: str) -> str:
    """CUDA source of :data:`COUNT_WRONG`: a kernel that counts the elements that are not right.

    Launched on the emulator in blocks of 128 threads, as many as n elements need. ``got`` may hold
    anything, and ``count`` what an earlier launch found. No race, and nothing else is written.
    """
    if not isinstance(answer, str):
        raise Wrong("give CUDA source, as a string")
    try:
        kernel = compile_ptx(answer, "sm_75")["count_wrong"]
    except (CompileError, EmulatorError) as error:
        raise Wrong(str(error).splitlines()[0]) from error
    tried = 0
    for what, n, got, exact, allowed, right in _results():
        before = (got.copy(), exact.copy(), allowed.copy())
        count = np.array([tried, -7], np.int32)
        try:
            run = kernel.launch(-(-n // _THREADS), _THREADS, [got, exact, allowed, n, count])
        except EmulatorError as error:
            raise Wrong(f"{what}, {n} elements: {str(error).splitlines()[0]}") from error
        if run.findings:
            raise Wrong(f"{what}, {n} elements: {str(run.findings[0]).splitlines()[0]}")
        found = int(count[0]) - tried
        if found != right:
            raise Wrong(f"{what}, {n} elements: {right} are wrong, and it adds {found} to count")
        same = zip(before, (got, exact, allowed), strict=True)
        if count[1] != -7 or not all(np.array_equal(a, b, equal_nan=True) for a, b in same):
            raise Wrong(f"{what}, {n} elements: it writes something else than count[0]")
        tried += 1
    return f"{tried} results"


def _results() -> Iterator[tuple[str, int, Any, Any, Any, int]]:
    """What a kernel wrote, in words; n, got, exact, allowed, and how many elements are wrong."""
    draw = np.random.default_rng()
    for n in (1, 100, 128, 129, 300):
        exact = draw.normal(size=n)
        allowed = np.abs(draw.normal(size=n)) * 1e-3 + 1e-4
        good = (exact + allowed * draw.uniform(-0.9, 0.9, n)).astype(np.float32)
        yield "all are right", n, good.copy(), exact, allowed, 0
        off = 1.5 * allowed
        kinds: dict[str, Any] = {
            "some are too large": exact + off, "some are too small": exact - off,
            "some are NaN": np.nan, "some are infinite": np.inf, "some are -infinite": -np.inf,
        }  # fmt: skip
        for what, values in kinds.items():
            at = draw.random(n) < 0.3
            at[[0, -1]] = True  # the first and the last
            got = np.where(at, values, good).astype(np.float32)
            yield what, n, got, exact, allowed, int(at.sum())
        yield "all are NaN", n, np.full(n, np.nan, np.float32), exact, allowed, n
        whole = np.round(8 * exact)
        yield "whole numbers, nothing allowed", n, whole.astype(np.float32), whole, 0 * allowed, 0


PROGRAMS = """\
1   cudaEventRecord(a);  kernel<<<grid, block>>>(x, y);  cudaEventRecord(b);
    cudaEventSynchronize(b);  cudaEventElapsedTime(&t, a, b);
    printf("%f TFLOP/s", flop / t / 1e12);

2   start = clock::now();  kernel<<<grid, block>>>(x, y);  stop = clock::now();
    cudaDeviceSynchronize();
    printf("%f seconds", seconds(stop - start));

3   cudaEventRecord(a);
    cudaMemcpy(x, host, bytes, cudaMemcpyHostToDevice);  kernel<<<grid, block>>>(x, y);
    cudaEventRecord(b);  cudaEventSynchronize(b);  cudaEventElapsedTime(&t, a, b);
    printf("the kernel: %f s", t * 1e-3);

4   // x: 1 MiB, read by the kernel again and again
    warm_up();  cudaEventRecord(a);
    for (int i = 0; i < 100; ++i) kernel<<<grid, block>>>(x, y);
    cudaEventRecord(b);  cudaEventSynchronize(b);  cudaEventElapsedTime(&t, a, b);
    printf("global memory delivers %f GB/s", 100 * 1048576.0 / (t * 1e-3) / 1e9);

5   float worst = 0;
    for (int i = 0; i < n; ++i)
        if (fabsf(got[i] - right[i]) > worst) worst = fabsf(got[i] - right[i]);
    printf(worst <= allowed ? "OK" : "WRONG");

6   int main() {
        allocate_and_copy();  cudaEventRecord(a);
        for (int i = 0; i < 10; ++i) kernel<<<grid, block>>>(x, y);
        cudaEventRecord(b);  cudaEventSynchronize(b);  cudaEventElapsedTime(&t, a, b);
        printf("the kernel: %f s", t * 1e-3 / 10);
    }
"""
"""Six pieces of measuring programs, one mistake in each."""

MISTAKES = """\
A  the clock is stopped before the kernel has run
B  a launch is counted that also loads the kernel onto the GPU
C  a time in another unit is used as seconds
D  something else is timed as well
E  the data is not in the memory named
F  a NaN passes
"""

_RIGHT = "CADEFB"


@judged
def mistakes(answer: str) -> str:
    """A letter of :data:`MISTAKES` for each of :data:`PROGRAMS`, in their order: ``"ABCDEF"``."""
    if not isinstance(answer, str) or sorted(answer.upper()) != sorted(_RIGHT):
        raise Wrong("give a text of six letters, each from A to F once")
    right = sum(given == letter for given, letter in zip(answer.upper(), _RIGHT, strict=True))
    if right < len(_RIGHT):
        raise Wrong(f"{right} of {len(_RIGHT)} programs have their mistake")
    return "6 programs"


class ToyGpu:
    """A GPU that keeps the book's promises about time, and whose clock you can read.

    ``launch()``      puts the kernel into the queue; returns at once
    ``flush()``       puts a kernel into the queue that fills the caches with other data
    ``event()``       puts an event into the queue, and returns it
    ``wait()``        waits until the queue is empty
    ``elapsed(a, b)`` microseconds between two events; both must have happened
    ``clock()``       the host's clock, in microseconds

    Each call costs the host time. The first launch also loads the kernel; a launch that finds
    its data in the caches is faster; now and then something else disturbs one.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._draw = random.Random(seed)
        self._call = self._draw.uniform(1.5, 4)
        self._memory = self._draw.uniform(8, 60)  # a launch with its data not in the caches
        self._cached = self._memory * self._draw.uniform(0.4, 0.8)
        self._load = self._draw.uniform(2000, 9000)
        self._flushing = self._draw.uniform(70, 120)
        self._disturbed = self._draw.uniform(0.02, 0.08)
        self._host = self._draw.uniform(0, 1e6)
        self._free = self._host  # when the queue will be empty
        self._loaded = self._data_cached = False
        self._events: dict[int, float] = {}

    def _queue(self, duration: float) -> None:
        self._host += self._call
        self._free = max(self._free, self._host) + duration

    def launch(self) -> None:
        time = self._cached if self._data_cached else self._memory
        time *= self._draw.uniform(0.998, 1.002)
        if self._draw.random() < self._disturbed:
            time += self._draw.uniform(100, 2000)
        if not self._loaded:
            time += self._load
        self._loaded = self._data_cached = True
        self._queue(time)

    def flush(self) -> None:
        self._data_cached = False
        self._queue(self._flushing)

    def event(self) -> int:
        self._queue(0)
        self._events[len(self._events)] = self._free
        return len(self._events) - 1

    def wait(self) -> None:
        self._host = max(self._host + self._call, self._free)

    def elapsed(self, a: int, b: int) -> float:
        if a not in self._events or b not in self._events:
            raise ValueError("elapsed takes two events, as event() returns them")
        if max(self._events[a], self._events[b]) > self._host:
            raise RuntimeError("the event has not happened yet: wait() first")
        return self._events[b] - self._events[a]

    def clock(self) -> float:
        self._host += 0.05
        return self._host


_GPUS = 200


@judged
def honest(answer: Callable[[ToyGpu], Any]) -> str:
    """``answer(gpu)``: microseconds of a launch whose data is not in the caches.

    Tried on toy GPUs of its own drawing, so many that one launch on each is disturbed on some;
    each time must be right within one percent.
    """
    draw = random.Random()
    for tried in range(_GPUS):
        gpu = ToyGpu(draw.randrange(2**32))
        given = real(ask(answer, gpu, words="a GPU"), "microseconds")
        if not abs(given - gpu._memory) <= 0.01 * gpu._memory:
            raise Wrong(
                f"on GPU {tried + 1} a launch takes {gpu._memory:.2f} µs, and it says {given:.2f}"
            )
    return f"{_GPUS} GPUs"
