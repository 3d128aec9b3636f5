"""Where the blocks of an early launch are, and what their places cost: from the record."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import measure
from phasebit.chapters.every_shape import view
from phasebit.chapters.every_shape.early_controls import EARLY, LATE, NOT_EARLY, PLACED
from phasebit.chapters.every_shape.shapes import Shape

if TYPE_CHECKING:
    from phasebit.draw import Picture

LONG = Shape(64, 10240, 8192)
"""Where an early launch costs most."""
_UNSEEN = -1
"""The part of multiprocessors that no cluster showed."""
_LEGEND = {
    "blue": "a block", "orange": "longer than any block not early", "grey": "no block",
}  # fmt: skip
"""What the colours of cells mean; a picture names those that it has."""


class Block(NamedTuple):
    """A block of one launch."""

    unit: int
    part: int
    """Of the GPU."""
    us: float
    """From when the first block of the launch went on to the end of this one."""


def blocks(record: Mapping[str, Any], shape: Shape, way: str) -> list[Block]:
    """Those of the launch that the record holds whole."""
    launch = view.row_of({"shapes": record["stamps"]}, shape)["launch"][way]
    return [Block(unit, part, ends / 1e3) for unit, part, _, _, ends, _ in launch]


def parts(record: Mapping[str, Any]) -> dict[int, list[int]]:
    """Part of the GPU -> its multiprocessors, as far as a launch of the record had them."""
    found: dict[int, set[int]] = {}
    for row in record["stamps"]:
        for launch in row["launch"].values():
            for unit, part, *_ in launch:
                found.setdefault(part, set()).add(unit)
    return {part: sorted(found[part]) for part in sorted(found, key=lambda part: (part < 0, part))}


def picture(record: Mapping[str, Any], way: str, shape: Shape = LONG) -> Picture:
    """A row for each part of the GPU, a cell for each multiprocessor: when its block ended."""
    from phasebit.draw import Cell, chart

    mine = blocks(record, shape, way)
    if len({block.unit for block in mine}) < len(mine):
        raise ValueError("a multiprocessor had two blocks: a cell cannot show both")
    ended = {block.unit: block.us for block in mine}
    all_ = parts(record)
    widest = max(map(len, all_.values()))
    longest = max(block.us for block in blocks(record, shape, NOT_EARLY))
    rows: list[list[Cell | None]] = []
    for units in all_.values():
        cells: list[Cell | None] = [None] * widest
        for at, unit in enumerate(units):
            us = ended.get(unit)
            cells[at] = (Cell("·", "grey") if us is None
                         else Cell(f"{us:.0f}", "orange" if us > longest else "blue"))  # fmt: skip
        rows.append(cells)
    names = ["unseen" if part == _UNSEEN else str(number) for number, part in enumerate(all_)]
    return chart(
        rows, rows=names, columns=range(widest), row_label="part",
        column_label="multiprocessor of the part",
        title=f"{shape}, {way}: µs until the block of a multiprocessor ended; "
        f"{measure.source(dict(record))}",
        legend={hue: said for hue, said in _LEGEND.items()
                if any(cell and cell.hue == hue for row in rows for cell in row)},
    )  # fmt: skip


def times(record: Mapping[str, Any], shape: Shape) -> dict[str, float]:
    """Contender -> µs from the end of a launch to the end of the next."""
    row = view.row_of({"shapes": record["stamps"]}, shape)
    return {name: float(median(each)) for name, each in row["us"].items()}


def of_parts(record: Mapping[str, Any], shape: Shape, way: str) -> dict[int, list[float]]:
    """Part of the GPU -> when its blocks ended; without those that no cluster showed."""
    found: dict[int, list[float]] = {part: [] for part in parts(record) if part != _UNSEEN}
    for block in blocks(record, shape, way):
        if block.part != _UNSEEN:
            found[block.part].append(block.us)
    return found


def drawn(record: Mapping[str, Any], *shapes: Shape) -> Picture:
    """How a launch comes, in whose places: its time against a launch that is not early."""
    from phasebit.draw import dots

    each = {str(shape): times(record, shape) for shape in shapes}
    return dots(
        {way: {shape: us[way] / us[NOT_EARLY] for shape, us in each.items() if way in us}
         for way in (EARLY, LATE, *PLACED)},
        x_label="time from the end of a launch to the end of the next / not early", line=1,
        title=f"Kernels with stamps, tiles of 64 × 128; {measure.source(dict(record))}",
    )  # fmt: skip
