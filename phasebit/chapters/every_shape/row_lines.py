"""Rows of a slot in lines of the L2 cache: who begins inside a line needs two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasebit.chapters.every_shape.plans import DEPTH
from phasebit.chapters.every_shape.waves import LINE

if TYPE_CHECKING:
    from phasebit.draw import Picture

_UNIT = 16
"""Bytes of a cell: rows begin at multiples of 16 bytes, as the copy engine wants."""


def inside(k: int, row: int) -> int:
    """How many bytes behind the beginning of a line row ``row`` begins: K bf16 numbers a row.

    >>> [inside(1000, row) for row in range(8)], inside(1024, 3)
    ([0, 80, 32, 112, 64, 16, 96, 48], 0)
    """
    return 2 * k * row % LINE


def drawn(k: int, rows: int = 8) -> Picture:
    """What a slot takes of the beginnings of some rows, and the lines that hold these bytes."""
    from phasebit.draw import Cell, chart

    width = 2 * DEPTH // _UNIT
    table: list[list[Cell | None]] = []
    for row in range(rows):
        first = inside(k, row) // _UNIT
        lines = 1 + (first > 0)
        taken = [Cell(f"{1 + at * _UNIT // LINE}", "blue") if first <= at < first + width
                 else Cell("·") for at in range(lines * LINE // _UNIT)]  # fmt: skip
        table.append([*taken, *[None] * (2 * LINE // _UNIT - len(taken))])
    return chart(
        table, rows=range(rows), columns=range(0, 2 * LINE, _UNIT),
        row_label="row", column_label="byte",
        title=f"K = {k}: the first {2 * DEPTH} bytes of each row, and the lines that hold them",
        legend={"blue": "goes into the slot", "grey": "the rest of a line"},
    )  # fmt: skip


__all__ = ["drawn", "inside"]
