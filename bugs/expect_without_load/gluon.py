# mypy: ignore-errors
"""The load of the next tile has its predicate; the bytes that the barrier expects have not."""

import gluon_bug as common
from gluon_bug import COLUMNS, ROWS, SHARED, SPREAD, load_box
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

TILES = gl.constexpr(3)
LINES = ("mbarrier.expect(full, given.block_type.nbytes, pred=BROKEN or wanted)",)


@gluon.jit
def fetch(given, slot, full, tile, BROKEN: gl.constexpr):
    wanted = tile < TILES
    mbarrier.expect(full, given.block_type.nbytes, pred=BROKEN or wanted)
    load_box(given, [tile * ROWS, 0], full, slot, pred=wanted)


@gluon.jit
def kernel(given, out, BROKEN: gl.constexpr):
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SPREAD))
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, SPREAD))
    at = rows[:, None] * COLUMNS + columns[None, :]
    slots = gl.allocate_shared_memory(gl.int32, [2, ROWS, COLUMNS], SHARED)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    fetch(given, slots.index(0), full.index(0), 0, BROKEN)
    for i in range(TILES):
        ahead = i + 1
        fetch(given, slots.index(ahead % 2), full.index(ahead % 2), ahead, BROKEN)
        mbarrier.wait(full.index(i % 2), i // 2 % 2)
        gl.store(out + i * ROWS * COLUMNS + at, 2 * slots.index(i % 2).load(SPREAD))
        fence_async_shared()  # read, before the next load overwrites it


def run(device, broken):
    given = common.numbers(TILES.value)
    out = device.array(given * 0 - 1)
    kernel[(1,)](device.box(device.array(given)), out, broken, num_warps=4)
    return device.back(out), 2 * given


if __name__ == "__main__":
    common.main(run)
