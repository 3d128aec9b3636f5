"""Tiles and their order: of a grouped product, which block makes which; of one product, bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from phasebit.chapters.epilogues_and_groups.epilogues import ROWS

if TYPE_CHECKING:
    from phasebit.draw import Picture

COLUMNS = 256
"""Of a tile of the grouped product."""


class Tile(NamedTuple):
    """A tile of a group; ``row`` and ``col`` are its first, in the group's part of C."""

    group: int
    row: int
    col: int


def walk(sizes: Sequence[int], n: int) -> Iterator[Tile]:
    """All tiles in the order of their numbers; a group without rows has none."""
    for group, size in enumerate(sizes):
        for row in range(0, size, ROWS):
            for col in range(0, n, COLUMNS):
                yield Tile(group, row, col)


def bands(rows: int, columns: int, high: int) -> Iterator[tuple[int, int]]:
    """Tiles of one product, (row, column), in bands of ``high`` rows of tiles.

    >>> list(bands(3, 2, 2))
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    """
    for first in range(0, rows, high):
        for column in range(columns):
            for row in range(first, min(rows, first + high)):
                yield row, column


def touched(tiles: Iterator[tuple[int, int]], blocks: int) -> int:
    """Rows and columns of tiles, one strip of A or B each, that the first ``blocks`` tiles read."""
    seen = [tile for tile, _ in zip(tiles, range(blocks), strict=False)]
    return len({row for row, _ in seen}) + len({column for _, column in seen})


def rewrites(sizes: Sequence[int], n: int, blocks: int) -> list[int]:
    """How often each block rewrites its maps: once for each group of which it has tiles."""
    every = list(walk(sizes, n))
    return [len({tile.group for tile in every[block::blocks]}) for block in range(blocks)]


def picture(sizes: Sequence[int], n: int, blocks: int) -> Picture:
    """Rows of tiles, group by group, each tile with its block."""
    from phasebit.draw import Cell, chart

    hues = "blue", "orange", "green", "cyan", "grey"
    number = {tile: i for i, tile in enumerate(walk(sizes, n))}
    rows: list[str] = []
    cells: list[list[Cell | None]] = []
    for group, size in enumerate(sizes):
        if not size:
            rows.append(f"group {group}: no row")
            cells.append([None for _ in range(0, n, COLUMNS)])
        for row in range(0, size, ROWS):
            last = min(size, row + ROWS) - 1
            rows.append(f"group {group}: {row} to {last}")
            line: list[Cell | None] = []
            for col in range(0, n, COLUMNS):
                block = number[Tile(group, row, col)] % blocks
                line.append(Cell(str(block), hues[block]))
            cells.append(line)
    return chart(
        cells, rows=rows, columns=range(-(-n // COLUMNS)), row_label="rows of C",
        column_label="column of tiles (cells: the block that makes it)",
        title=f"The tiles of {len(sizes)} groups on {blocks} blocks",
    )  # fmt: skip
