"""Checks of *The order of blocks*."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit import measure, toolchain
from phasebit.chapters.block_order import block_order_times, orders
from phasebit.emulator import EmulatorError
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown, whole
from phasebit.launching.launch import compile as compile_cuda


@judged
def ordered(answer: Callable[[int, int, int], Any]) -> str:
    """``answer(rows, cols, width)``: super-columns as a layout, number -> row + rows · column.

    ``width`` divides ``cols``; a super-column is walked row by row.
    """
    draw = random.Random(102)
    for _ in range(30):
        width, bands, rows = draw.randint(1, 6), draw.randint(1, 5), draw.randint(1, 9)
        cols = width * bands
        got = _offsets(ask(answer, rows, cols, width), rows * cols)
        turned = orders.super_rows(cols, rows, width)  # of the transpose
        right = [row + rows * col for col, row in turned]
        if got != right:
            i = next(i for i, (a, b) in enumerate(zip(got, right, strict=True)) if a != b)
            raise Wrong(
                f"for {rows} × {cols} blocks and super-columns of {width} number {i} is "
                f"{right[i]}, not {got[i]}"
            )
    return "30 grids, every block"


def _offsets(given: Any, length: int) -> list[int]:
    """All offsets of a layout, in the order of its numbers."""
    try:
        found = [int(given(i)) for i in range(len(given))]
    except Exception as error:
        raise Wrong(f"{shown(given)} is no layout of {length} numbers: {error}") from error
    if len(found) != length:
        raise Wrong(f"{shown(given)} has {len(found)} numbers: it should have {length}")
    return found


@judged
def serpentine(code: str) -> str:
    """``code``: CUDA C++ with ``Part part(int number, int rows, int cols, int height)``.

    Super-rows of ``height`` rows; the first walks its columns from left to right, the second from
    right to left, and so on by turns; within a column rows go down. The last super-row may be
    lower. It is compiled, and run on the emulator for every block of several grids.
    """
    if not isinstance(code, str):
        raise Wrong("give the CUDA code as a text")
    if not code.replace("...", "").strip() or "return ...;" in code:
        raise NotAnswered
    try:
        module = compile_cuda(_ASK.replace("@", code), "sm_75")
    except toolchain.CudaError as error:
        raise Wrong(f"it does not compile: {str(error).splitlines()[0]}") from error
    draw = random.Random(103)
    grids = [(4, 3, 2), (8, 12, 4), (7, 5, 3), (5, 3, 8), (6, 1, 4), (1, 6, 1), (9, 4, 1)]
    grids += [(draw.randint(1, 12), draw.randint(1, 9), draw.randint(1, 5)) for _ in range(8)]
    for rows, cols, height in grids:
        right = serpentine_rows(rows, cols, height)
        out = np.full((rows * cols, 2), -1, np.int32)
        try:
            run = module["ask"].launch(rows * cols, 1, [out, rows, cols, height])
        except EmulatorError as error:
            raise Wrong(f"it stops: {str(error).splitlines()[0]}") from error
        if run.findings:
            raise Wrong(str(run.findings[0]))
        for number, (want, found) in enumerate(zip(right, out.tolist(), strict=True)):
            if tuple(found) != want:
                raise Wrong(
                    f"of {rows} × {cols} blocks in super-rows of {height}, block {number} "
                    f"computes part {want}, not {tuple(found)}"
                )
    told = {
        name: orders.shared(order, 4096, block_order_times.TILE, resident=132, cache=60 << 20)
        for name, order in (("one way", orders.super_rows(64, 32, 8)),
                            ("by turns", serpentine_rows(64, 32, 8)))
    }  # fmt: skip
    return f"{len(grids)} grids; 8192 × 8192 × 4096 in the model: " + ", ".join(
        f"{each.read / 1e9:.2f} GB {name}" for name, each in told.items()
    )


_ASK = """
struct Part { int row, col; };
@
extern "C" __global__ void ask(int* out, int rows, int cols, int height) {
    const Part found = part(blockIdx.x, rows, cols, height);
    out[2 * blockIdx.x] = found.row;
    out[2 * blockIdx.x + 1] = found.col;
}
"""


def serpentine_rows(rows: int, cols: int, height: int) -> orders.Order:
    """Super-rows whose columns go to the right and to the left by turns."""
    return [
        (row, col)
        for band, first in enumerate(range(0, rows, height))
        for col in (range(cols) if band % 2 == 0 else reversed(range(cols)))
        for row in range(first, min(first + height, rows))
    ]


def _some_order(draw: random.Random, most: int) -> tuple[int, int, orders.Order]:
    """Rows and columns of C in parts, ``most`` of each at most, and an order of the parts."""
    rows, columns = draw.randint(1, most), draw.randint(1, most)
    order = draw.choice([
        orders.rows_first(rows, columns),
        orders.super_rows(rows, columns, draw.randint(1, rows)),
        orders.hilbert(rows, columns),
        orders.shuffled(rows, columns, draw.randrange(1000)),
    ])  # fmt: skip
    return rows, columns, order


@judged
def waves_read(answer: Callable[[orders.Order, int, tuple[int, int], int], int]) -> str:
    """``answer(order, running, tile, k)``: bytes that all waves of an order read.

    A wave is ``running`` blocks of the order, at last fewer. It reads each row of A and each
    column of B that one of its blocks needs, ``tile`` of them a part, ``k`` long, 2 bytes each.
    """
    draw = random.Random()
    for _ in range(30):
        rows, columns, order = _some_order(draw, 12)
        running, k = draw.randint(1, rows * columns + 3), 8 * draw.randint(1, 9)
        tile = draw.choice([(16, 32), (32, 16), (64, 8), (8, 64)])
        got, right = ask(answer, list(order), running, tile, k), _read(order, running, tile, k)
        if not same(got, right):
            raise Wrong(
                f"{rows} × {columns} parts that begin {shown(order[:4])}, {running} at a time, "
                f"tiles of {tile}, k = {k}: {right} bytes, not {shown(got)}"
            )
    record = measure.read("block_order")
    off = []
    cube = record["orders"][0]
    (m, n, k), tile = cube["shape"], block_order_times.TILE
    for name, order in block_order_times.compared(m // tile[0], n // tile[1]).items():
        (row,) = (row for row in cube["rows"] if row["order"] == name)
        told = ask(answer, order, record["multiprocessors"], tile, k)
        if name != "drawn by lot":
            off.append(abs(told / row[block_order_times.DRAM] - 1))
    return (
        f"30 orders; of what an H200 read for {m} × {n} × {k} in {len(off)} orders "
        f"it is off by {max(off):.1%} at most"
    )


def _read(order: orders.Order, running: int, tile: tuple[int, int], k: int) -> int:
    """What :func:`waves_read` asks for."""
    total = 0
    for first in range(0, len(order), running):
        wave = order[first : first + running]
        rows, columns = (len(set(each)) for each in zip(*wave, strict=True))
        total += 2 * k * (rows * tile[0] + columns * tile[1])
    return total


@judged
def misses(answer: Callable[[orders.Order, int, int, int], int]) -> str:
    """``answer(order, running, steps, room)``: pieces that a cache of ``room`` pieces misses.

    Waves of ``running`` blocks, all at the same step; a block asks for a piece of its row, then
    for one of its column. The cache evicts what has been unused for longest.
    """
    draw = random.Random()
    for _ in range(400):  # one in fifteen tells who asks for its column first
        rows, columns, order = _some_order(draw, 8)
        running, steps = draw.randint(1, rows * columns + 3), draw.randint(1, 5)
        room = draw.randint(1, (rows + columns) * steps)
        got, right = (
            ask(answer, list(order), running, steps, room),
            _misses(order, running, steps, room),
        )
        if not same(got, right):
            raise Wrong(
                f"{rows} × {columns} parts that begin {shown(order[:4])}, {running} at a time, "
                f"{steps} steps, room for {room} pieces: {right} misses, not {shown(got)}"
            )
    order = orders.super_rows(64, 32, 16)
    told = (f"{ask(answer, order, 132, 16, room):,}" for room in (16, 32, 256, 512, 1024))
    return (
        "400 orders; 64 × 32 parts in super-rows of 16, 132 at a time, 16 steps: with room for 16, "
        f"32, 256, 512, 1024 pieces {', '.join(told)} misses"
    )


def _misses(order: orders.Order, running: int, steps: int, room: int) -> int:
    """What :func:`misses` asks for."""
    kept: dict[tuple[int, int, int], None] = {}  # last: used last
    missed = 0
    for first in range(0, len(order), running):
        for step in range(steps):
            for block in order[first : first + running]:
                for side in (0, 1):
                    piece = side, block[side], step
                    missed += piece not in kept
                    kept.pop(piece, None)
                    kept[piece] = None
                    if len(kept) > room:
                        del kept[next(iter(kept))]
    return missed


@judged
def height(answer: Callable[[int, tuple[int, int]], int]) -> str:
    """``answer(running, tile)``: the height of super-rows with which a wave reads least.

    Judged where a wave can be a square of elements in whole blocks: that height is best, and one
    that reads at most 2% more is as good.
    """
    draw = random.Random()
    cases = [(4, 4, 1), (2, 8, 1), (16, 2, 1), (16, 8, 8)]  # blocks down, across, and a unit
    cases += [(draw.randint(2, 16), draw.randint(2, 16), draw.choice([1, 8])) for _ in range(16)]
    for down, across, unit in cases:
        running, tile = down * across, (16 * unit * across, 16 * unit * down)
        got = ask(answer, running, tile)
        if not whole(got) or got < 1:
            raise Wrong(f"for {running} blocks of {tile} it gives {got!r}: give a whole number")
        more = reads(int(got), down, across, tile) / reads(down, down, across, tile) - 1
        if more > 0.02:
            raise Wrong(
                f"{running} blocks of {tile[0]} × {tile[1]} at a time: with {down} rows a wave "
                f"reads least, with {got} it reads {more:.0%} more"
            )
    return f"{len(cases)} kinds of waves, beside the best height of each"


def reads(high: int, down: int, across: int, tile: tuple[int, int]) -> float:
    """What each block reads on average, for k = 1, with super-rows of a height.

    ``down`` × ``across`` blocks run at a time, on a C of whole waves that holds a super-row.
    """
    high = min(high, down * across)  # then a wave is one column, as with any greater height
    rows, columns = down * max(2, -(-high // down)), 2 * across
    order = orders.super_rows(rows, columns, high)
    return _read(order, down * across, tile, 1) / len(order)
