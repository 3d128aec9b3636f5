# mypy: ignore-errors
"""A block gives its tile to the copy engine and leaves, its shared memory still being read."""

import gluon_bug as common
from gluon_bug import COLUMNS, ROWS, SHARED, SPREAD, store_box
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

LINES = ("store_box(out, [0, 0], tile)",)


@gluon.jit
def kernel(out, BROKEN: gl.constexpr):
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SPREAD))
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, SPREAD))
    tile = gl.allocate_shared_memory(gl.int32, [ROWS, COLUMNS], SHARED)
    tile.store(rows[:, None] * COLUMNS + columns[None, :])
    fence_async_shared()
    store_box(out, [0, 0], tile)
    if not BROKEN:
        tma.store_wait(0)


def run(device, broken):
    wanted = common.numbers(1)
    out = device.array(wanted * 0 - 1)
    kernel[(1,)](device.box(out), broken, num_warps=4)
    return device.back(out), wanted


if __name__ == "__main__":
    common.main(run)
