# mypy: ignore-errors
"""A scheduler puts the next tile into a mailbox before its reader has taken the one before."""

import gluon_bug as common
import numpy as np
from gluon_bug import THREADS
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

TILES = gl.constexpr(5)
LINES = ("tile = mailbox.load(spread)", "mailbox.store(gl.full((THREADS,), 10 * i, gl.int32, one))")


@gluon.jit
def read(out, mailbox, ready, taken, BROKEN: gl.constexpr):
    spread: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    lanes = gl.arange(0, THREADS, layout=spread)
    for i in range(TILES):
        mbarrier.wait(ready, i % 2)
        tile = mailbox.load(spread)
        mbarrier.arrive(taken, count=1)
        gl.store(out + i * THREADS + lanes, tile)


@gluon.jit
def schedule(out, mailbox, ready, taken, BROKEN: gl.constexpr):
    one: gl.constexpr = gl.BlockedLayout([4], [32], [1], [0])
    for i in range(TILES):
        if not BROKEN:
            mbarrier.wait(taken, (i + 1) % 2)
        mailbox.store(gl.full((THREADS,), 10 * i, gl.int32, one))
        mbarrier.arrive(ready, count=1)


@gluon.jit
def kernel(out, BROKEN: gl.constexpr):
    plain: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    mailbox = gl.allocate_shared_memory(gl.int32, [THREADS], plain)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    taken = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    mbarrier.init(taken, count=1)
    given = (out, mailbox, ready, taken, BROKEN)
    gl.warp_specialize([(read, given), (schedule, given)], [1], [24])


def run(device, broken):
    wanted = np.repeat(10 * np.arange(TILES.value, dtype=np.int32), THREADS.value)
    out = device.array(wanted * 0 - 1)
    kernel[(1,)](out, broken, num_warps=4)
    return device.back(out), wanted


if __name__ == "__main__":
    common.main(run)
