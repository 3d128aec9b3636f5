# mypy: ignore-errors
"""Tile after tile, each with steps of its own: the parity is counted anew, the barrier goes on."""

import gluon_bug as common
from gluon_bug import COLUMNS, ROWS, SHARED, SPREAD, load_box
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier

TILES, STEPS = gl.constexpr(2), gl.constexpr(3)
LINES = ("mbarrier.wait(full, k % 2)", "total += slot.load(SPREAD)")


@gluon.jit
def kernel(given, out, BROKEN: gl.constexpr):
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SPREAD))
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, SPREAD))
    at = rows[:, None] * COLUMNS + columns[None, :]
    slot = gl.allocate_shared_memory(gl.int32, [ROWS, COLUMNS], SHARED)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    for tile in range(TILES):
        total = gl.zeros((ROWS, COLUMNS), gl.int32, SPREAD)
        for k in range(STEPS):
            step = tile * STEPS + k
            mbarrier.expect(full, given.block_type.nbytes)
            load_box(given, [step * ROWS, 0], full, slot)
            if BROKEN:
                mbarrier.wait(full, k % 2)
            else:
                mbarrier.wait(full, step % 2)
            total += slot.load(SPREAD)
            fence_async_shared()  # read, before the next load overwrites it
        gl.store(out + tile * ROWS * COLUMNS + at, total)


def run(device, broken):
    given = common.numbers(TILES.value * STEPS.value)
    out = device.array(given[: TILES.value * ROWS.value] * 0 - 1)
    kernel[(1,)](device.box(device.array(given)), out, broken, num_warps=4)
    wanted = given.reshape(TILES.value, STEPS.value, ROWS.value, COLUMNS.value).sum(1)
    return device.back(out), wanted.reshape(-1, COLUMNS.value)


if __name__ == "__main__":
    common.main(run)
