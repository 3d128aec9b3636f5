# mypy: ignore-errors
"""The main loop ends with a copy of cp.async in flight, and the epilogue stores to its slot."""

import gluon_bug as common
from gluon_bug import COLUMNS, ROWS, SHARED, SPREAD
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

TILES, STAGES = gl.constexpr(4), gl.constexpr(3)
LINES = ("async_copy.async_copy_global_to_shared(", "exchange.store(total)")


@gluon.jit
def kernel(given, out, BROKEN: gl.constexpr):
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, SPREAD))
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, SPREAD))
    at = rows[:, None] * COLUMNS + columns[None, :]
    slots = gl.allocate_shared_memory(gl.int32, [STAGES, ROWS, COLUMNS], SHARED)
    total = gl.zeros((ROWS, COLUMNS), gl.int32, SPREAD)
    for step in gl.static_range(TILES + STAGES - 1):
        if step >= STAGES - 1:
            async_copy.wait_group(STAGES - 2)
            total += slots.index((step - STAGES + 1) % STAGES).load(SPREAD)
        tile = min(step, TILES - 1)
        async_copy.async_copy_global_to_shared(
            slots.index(step % STAGES), given + tile * ROWS * COLUMNS + at
        )
        async_copy.commit_group()
    if not BROKEN:
        async_copy.wait_group(0)
    exchange = slots.index((TILES + STAGES - 2) % STAGES)
    exchange.store(total)
    gl.store(out + at, exchange.load(SPREAD))


def run(device, broken):
    given = common.numbers(TILES.value)
    out = device.array(given[:ROWS.value] * 0 - 1)
    kernel[(1,)](device.array(given), out, broken, num_warps=4)
    return device.back(out), given.reshape(TILES.value, ROWS.value, COLUMNS.value).sum(0)


if __name__ == "__main__":
    common.main(run)
