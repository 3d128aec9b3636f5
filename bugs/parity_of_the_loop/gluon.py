# mypy: ignore-errors
"""Each round uses a barrier of its own, and waits for the parity of the round."""

import gluon_bug as common
from gluon_bug import COLUMNS, ROWS, SHARED, SPREAD, load_box
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier

TILES = gl.constexpr(4)
LINES = ("mbarrier.wait(full.index(i), i % 2)", "tile = slots.index(i).load(SPREAD)")


@gluon.jit
def kernel(given, out, BROKEN: gl.constexpr):
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SPREAD))
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, SPREAD))
    at = rows[:, None] * COLUMNS + columns[None, :]
    slots = gl.allocate_shared_memory(gl.int32, [TILES, ROWS, COLUMNS], SHARED)
    full = gl.allocate_shared_memory(gl.int64, [TILES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(TILES):
        mbarrier.init(full.index(i), count=1)
    for i in range(TILES):
        mbarrier.expect(full.index(i), given.block_type.nbytes)
        load_box(given, [i * ROWS, 0], full.index(i), slots.index(i))
        if BROKEN:
            mbarrier.wait(full.index(i), i % 2)
        else:
            mbarrier.wait(full.index(i), 0)
        tile = slots.index(i).load(SPREAD)
        gl.store(out + i * ROWS * COLUMNS + at, 2 * tile)


def run(device, broken):
    given = common.numbers(TILES.value)
    out = device.array(given * 0 - 1)
    kernel[(1,)](device.box(device.array(given)), out, broken, num_warps=4)
    return device.back(out), 2 * given


if __name__ == "__main__":
    common.main(run)
