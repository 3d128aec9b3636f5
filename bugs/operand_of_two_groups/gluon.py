# mypy: ignore-errors
"""Two groups of warps read a slice; who fills it again has heard from one of them."""

import gluon_bug as common
import numpy as np
from gluon_bug import THREADS
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

SLICES = gl.constexpr(3)
LINES = ("total += part.load(spread)", "part.store(gl.load(given + s * THREADS + lanes))")


@gluon.jit
def multiply(out, part, full, empty):
    spread: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    lanes = gl.arange(0, THREADS, layout=spread)
    total = gl.zeros((THREADS,), gl.int32, spread)
    for s in range(SLICES):
        mbarrier.wait(full, s % 2)
        total += part.load(spread)
        mbarrier.arrive(empty, count=1)
    gl.store(out + lanes, total)


@gluon.jit
def first(given, out, part, full, empty, other, BROKEN: gl.constexpr):
    multiply(out, part, full, empty)


@gluon.jit
def second(given, out, part, full, empty, other, BROKEN: gl.constexpr):
    multiply(out + THREADS, part, full, other)


@gluon.jit
def fetch(given, out, part, full, empty, other, BROKEN: gl.constexpr):
    one: gl.constexpr = gl.BlockedLayout([4], [32], [1], [0])
    lanes = gl.arange(0, THREADS, layout=one)
    for s in range(SLICES):
        mbarrier.wait(empty, (s + 1) % 2)
        if not BROKEN:
            mbarrier.wait(other, (s + 1) % 2)
        part.store(gl.load(given + s * THREADS + lanes))
        mbarrier.arrive(full, count=1)


@gluon.jit
def kernel(given, out, BROKEN: gl.constexpr):
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    part = gl.allocate_shared_memory(gl.int32, [THREADS], plain)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    other = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(empty, count=1)
    mbarrier.init(other, count=1)
    all_of_it = (given, out, part, full, empty, other, BROKEN)
    gl.warp_specialize(
        [(first, all_of_it), (second, all_of_it), (fetch, all_of_it)], [4, 1], [64, 24]
    )


def run(device, broken):
    given = np.arange(SLICES.value * THREADS.value, dtype=np.int32).reshape(-1, THREADS.value)
    out = device.array(np.full(2 * THREADS.value, -1, np.int32))
    kernel[(1,)](device.array(given), out, broken, num_warps=4)
    return device.back(out), np.tile(given.sum(0), 2)


if __name__ == "__main__":
    common.main(run)
