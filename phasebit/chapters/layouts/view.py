"""Pictures and checks of layouts, CuTe's functions from coordinates to offsets.

The algebra is the library ``tensor-layouts``: ``Layout(shape, stride)``, ``Swizzle(bits, base,
shift)`` and what makes new layouts of old ones. Here such an object is drawn, compared with what
CUDA code computes, and asked how many wavefronts an access of it costs.

Source: Cecka, "CuTe Layout Representation and Algebra", 2026.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tensor_layouts import Layout, cosize, size

from phasebit import patterns
from phasebit.draw import Cell, Picture, chart
from phasebit.emulator import ABSENT, Access
from phasebit.launching.launch import compile as compile_cuda
from phasebit.palette import HUES

Coordinates = tuple[int, int]
Hue = Callable[[int, int], str]
"""Row and column -> a colour of the palette."""


def table(layout: Any) -> list[list[int]]:
    """All offsets of a layout with two modes, nested or not: a list for each row.

    >>> table(Layout((2, 3), (3, 1)))
    [[0, 1, 2], [3, 4, 5]]

    Raises ``ValueError`` for a layout with another number of modes.
    """
    rows, columns = _extent(layout)
    return [[int(layout(row, column)) for column in range(columns)] for row in range(rows)]


def grid(
    layout: Any, title: str, hue: Hue = lambda row, column: "grey", *,
    legend: Mapping[str, str] | None = None, labels: tuple[str, str] = ("row", "column"),
) -> Picture:  # fmt: skip
    """The coordinates, rows downwards, with the offset of each in its cell.

    ``labels``: what a row and what a column of the picture is.
    """
    rows, columns = _extent(layout)
    cells: list[list[Cell | None]] = [
        [Cell(str(layout(row, column)), hue(row, column)) for column in range(columns)]
        for row in range(rows)
    ]
    return chart(
        cells, rows=range(rows), columns=range(columns), row_label=labels[0],
        column_label=f"{labels[1]} (in the cells: the offset)", title=title, legend=legend,
    )  # fmt: skip


def memory(
    layout: Any, width: int, title: str, hue: Hue = lambda row, column: "grey", *,
    legend: Mapping[str, str] | None = None, cells_are: str = "row,column",
) -> Picture:  # fmt: skip
    """The offsets, ``width`` to a line, with the coordinates that lie there in their cells.

    A cell that no coordinate has is empty. Raises ``ValueError`` when two have the same offset.
    """
    rows, columns = _extent(layout)
    lines = -(-int(cosize(layout)) // width)
    cells: list[list[Cell | None]] = [[None] * width for _ in range(lines)]
    for row in range(rows):
        for column in range(columns):
            line, place = divmod(int(layout(row, column)), width)
            if cells[line][place] is not None:
                raise ValueError(
                    f"({row}, {column}) has the offset of another coordinate: draw it with grid"
                )
            cells[line][place] = Cell(f"{row},{column}", hue(row, column))
    return chart(
        cells, rows=[line * width for line in range(lines)], columns=range(width),
        row_label="from offset", column_label=f"place in the line (in the cells: {cells_are})",
        title=title, legend=legend,
    )  # fmt: skip


def owners(layout: Any, shape: tuple[int, int]) -> list[list[list[tuple[int, int]]]]:
    """Who holds what, of a thread–value layout: for each row and column (thread, value) pairs.

    ``layout``: (thread, value) to ``row + rows · column`` of a tile of ``shape``.
    Raises ``ValueError`` where it leaves the tile.
    """
    rows, columns = shape
    threads, values = _extent(layout)
    held: list[list[list[tuple[int, int]]]] = [[[] for _ in range(columns)] for _ in range(rows)]
    for thread in range(threads):
        for value in range(values):
            column, row = divmod(int(layout(thread, value)), rows)
            if column >= columns:
                raise ValueError(
                    f"value {value} of thread {thread} is in column {column} of {columns}"
                )
            held[row][column].append((thread, value))
    return held


def threads(
    layout: Any, shape: tuple[int, int], title: str, *, coloured: Collection[int] | None = None,
) -> Picture:  # fmt: skip
    """A tile with the thread that holds each element in its cell.

    ``coloured`` threads have a colour each, as far as there are colours, the others none; without
    it all threads are coloured in turn. An element that several hold shows the first.
    """
    hues = {thread: HUES[i % len(HUES)] for i, thread in enumerate(coloured or ())}
    cells: list[list[Cell | None]] = []
    for line in owners(layout, shape):
        row: list[Cell | None] = []
        for held in line:
            if not held:
                row.append(None)
                continue
            thread = held[0][0]
            hue = HUES[thread % len(HUES)] if coloured is None else hues.get(thread, "grey")
            row.append(Cell(str(thread), hue))
        cells.append(row)
    return chart(
        cells, rows=range(shape[0]), columns=range(shape[1]), row_label="row",
        column_label="column (in the cells: the thread)", title=title,
    )  # fmt: skip


def access(addresses: Iterable[int], bytes_each: int, op: str = "load") -> Access:
    """An access of shared memory by the first lanes of a warp: a byte address for each.

    ``bytes_each``: 1, 2, 4, 8 or 16; ``op``: "load" or "store". Raises ``ValueError`` for others,
    and for more than 32 lanes.
    """
    given = list(addresses)
    if len(given) > 32:
        raise ValueError(f"a warp has 32 lanes, and there are {len(given)} addresses")
    if bytes_each not in (1, 2, 4, 8, 16):
        raise ValueError(f"a lane asks for 1, 2, 4, 8 or 16 bytes, not {bytes_each}")
    if op not in ("load", "store"):
        raise ValueError(f"op is {op!r}: give 'load' or 'store'")
    lanes = np.full(32, ABSENT, np.int64)
    lanes[: len(given)] = given
    return Access("shared", op, bytes_each, 0, 0, lanes, "shared memory", None)


def wavefronts(addresses: Iterable[int], bytes_each: int, op: str = "load") -> int:
    """Wavefronts of such an access, counted as the counters do.

    >>> wavefronts(range(0, 128, 4), 4), wavefronts(range(0, 4096, 128), 4)
    (1, 32)
    """
    return len(patterns.wavefronts(access(addresses, bytes_each, op)))


def computed(expression: str, shape: tuple[int, int], code: str) -> list[list[int]]:
    """What CUDA code computes: ``expression`` of ``row`` and ``col``, for every coordinate.

    ``code`` defines what the expression names: CUDA C++, often an ``#include`` of a header of
    ``kernels/``. It is compiled and run, on a GPU if there is one, else on the emulator. Raises
    :class:`phasebit.toolchain.CompileError`.
    """
    rows, columns = shape
    module = compile_cuda(
        f"{code}\n"
        'extern "C" __global__ void ask(int* out, int cols) {\n'
        "    const int row = blockIdx.x;\n"
        "    for (int col = threadIdx.x; col < cols; col += blockDim.x)\n"
        f"        out[row * cols + col] = {expression};\n}}\n",
        "sm_75",
    )
    out = np.full((rows, columns), -1, np.int32)
    module["ask"].launch(rows, min(columns, 256), [out, columns], device="auto")
    answer: list[list[int]] = out.tolist()
    return answer


def compare(layout: Any, code: Sequence[Sequence[int]]) -> str:
    """One line: whether a layout says of every coordinate what the code says.

    >>> compare(Layout((2, 3), (3, 1)), [[0, 1, 2], [3, 4, 6]])
    'differs at (1, 2): the layout says 5, the code 6'
    """
    said = table(layout)
    if [len(line) for line in said] != [len(line) for line in code]:
        return f"has {len(said)} rows of {len(said[0])}, the code {len(code)} of {len(code[0])}"
    for row, (ours, theirs) in enumerate(zip(said, code, strict=True)):
        for column, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if mine != other:
                return f"differs at ({row}, {column}): the layout says {mine}, the code {other}"
    return f"equal for all {len(said) * len(said[0]):,} coordinates"


def beside_code(layout: Any, expression: str, code: str) -> None:
    """Print whether a layout says what CUDA code computes, as :func:`computed` and
    :func:`compare` do, and the layout."""
    said = table(layout)
    found = computed(expression, (len(said), len(said[0])), code)
    print(f"{expression:<26} {compare(layout, found)}: {layout}")


def agreement(layout: Any, held_by: Any) -> str:
    """How many elements are held by the thread that a thread–value layout names.

    ``held_by``: the thread of each element of a tile, an array.
    """
    rows, columns = held_by.shape
    said = owners(layout, (rows, columns))
    agree = sum(
        [thread for thread, _ in said[row][col]] == [held_by[row, col]]
        for row in range(rows)
        for col in range(columns)
    )
    return f"{agree:,} of {rows * columns:,} elements"


def by_warp(layout: Any, shape: tuple[int, int], rows: int, title: str) -> Picture:
    """The first ``rows`` of a thread–value layout whose threads hold 4 × 4 neighbours.

    A cell is 4 × 4 elements with the lane in it; its colour is the warp.
    """
    said = owners(layout, shape)
    first = [[said[row][col][0][0] for col in range(0, shape[1], 4)] for row in range(0, rows, 4)]
    warps = sorted({thread // 32 for line in first for thread in line})
    hues = dict(zip(warps, HUES, strict=False))
    return chart(
        [[Cell(str(thread % 32), hues[thread // 32]) for thread in line] for line in first],
        rows=range(0, rows, 4), columns=range(0, shape[1], 4), row_label="row",
        column_label="column (a cell is 4 × 4 elements; in it the lane)", title=title,
        legend={hue: f"warp {warp}" for warp, hue in hues.items()},
    )  # fmt: skip


def worst_row_and_column(layout: Any) -> str:
    """Wavefronts of the worst row and the worst column of a tile of 32 × 32 floats."""
    rows = table(layout)
    columns = zip(*rows, strict=True)
    row, column = (
        max(wavefronts([4 * place for place in line], 4) for line in lines)
        for lines in (rows, columns)
    )
    return f"worst row: {row}   worst column: {column}"


def columns_and_lines(
    rule: Callable[[int, int, int], int], row_bytes: int, rows: int = 64
) -> tuple[int, int]:
    """Wavefronts of the worst column of eight rows, and of the worst line of 128 bytes.

    ``rule(row, chunk, chunks)``: where in its row of so many chunks, of 16 bytes, a chunk lies.
    """
    chunks = row_bytes // 16
    at = [
        [row * row_bytes + 16 * rule(row, chunk, chunks) for chunk in range(chunks)]
        for row in range(rows)
    ]
    flat = [place for line in at for place in line]
    lines = max(wavefronts(flat[i : i + 8], 16) for i in range(0, len(flat), 8))
    return _worst_column(at, 1), lines


def column_of_chunks(layout: Any) -> int:
    """Wavefronts of a chunk of 16 bytes in eight rows, where it takes the most.

    ``layout``: (row, chunk) to a byte offset. Eight rows begin at a multiple of eight.
    """
    return _worst_column(table(layout), 8)


def wrong_modes() -> Picture:
    """Wavefronts of a column of chunks: rows of three lengths, each with each of three modes."""
    from tensor_layouts import Swizzle, compose

    from phasebit import draw

    def tile(row_bytes: int, bits: int) -> Any:  # 64 rows: (row, chunk) to bytes
        return compose(Swizzle(bits, 4, 3), Layout((64, row_bytes // 16), (row_bytes, 16)))

    rows, bits = (32, 64, 128), (1, 2, 3)
    return draw.heatmap(
        [[column_of_chunks(tile(row, each)) for each in bits] for row in rows],
        rows=rows, columns=bits, row_label="bytes of a row",
        column_label="bits of Swizzle(bits, 4, 3)", show=str,
        title="Wavefronts of a column of chunks",
        outline=[(0, 0), (1, 1), (2, 2)], outline_means="the mode of this length",
    )  # fmt: skip


def _worst_column(at: Sequence[Sequence[int]], step: int) -> int:
    """The same of byte offsets, a list for each row; from every ``step``-th row on."""
    return max(
        wavefronts([line[chunk] for line in at[first : first + 8]], 16)
        for first in range(0, len(at) - 7, step)
        for chunk in range(len(at[0]))
    )


def _extent(layout: Any) -> tuple[int, int]:
    """Rows and columns; a mode that is nested counts as one."""
    shape = layout.shape
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise ValueError(f"{layout} has not two modes: group them, or add one of size 1")
    return int(size(shape[0])), int(size(shape[1]))


__all__ = [
    "Layout",
    "access",
    "beside_code",
    "column_of_chunks",
    "compare",
    "computed",
    "grid",
    "memory",
    "owners",
    "table",
    "threads",
    "wavefronts",
]
