"""Pictures and tables of *Low precision, block by block*."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.chapters.low_precision import nvfp4
from phasebit.chapters.low_precision.quantise import (
    ALL,
    ONE_OF_TWO,
    Format,
    activations,
    quantise,
)
from phasebit.emulator import TensorObserver

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.measure import Table

SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
"""How many times as large an outlier is as its neighbours."""


def ordinary(
    size: float, outliers: int = 8, k: int = 1024, of: tuple[Format, ...] = ALL
) -> dict[str, float]:
    """Relative error of the channels that are no outliers, by format."""
    x = activations(64, k, outliers, size=size)
    plain = np.abs(x).mean(axis=0) < 2 if size > 4 else np.ones(k, bool)
    return {
        form.name: float(
            np.linalg.norm((quantise(x, form).values() - x)[:, plain]) / np.linalg.norm(x[:, plain])
        )
        for form in of
    }


def one_of_two(sizes: tuple[float, ...] = (1, 16, 64)) -> Table:
    """From MXFP4 to NVFP4 by smaller blocks first, or by finer scales first."""
    from phasebit.measure import Table

    found = [ordinary(size, of=ONE_OF_TWO) for size in sizes]
    rows = tuple(
        (str(form.block), form.scale, *(f"{each[form.name]:.2f}" for each in found))
        for form in ONE_OF_TWO
    )
    titles = "a scale for", "its type", *(f"outliers {size:g} times as large" for size in sizes)
    return Table(titles, rows, "e2m1; relative error of the ordinary channels")


def outliers() -> Picture:
    """What eight large channels of 1024 do to the others, by format and by how large they are."""
    from phasebit.draw import curves

    found = [ordinary(size) for size in SIZES]
    return curves(
        [str(size) for size in SIZES],
        {form.name: [each[form.name] for each in found] for form in ALL},
        x_label="how many times as large an outlier is", y_label="relative error of the others",
        title="What eight outliers in 1024 channels do to the channels beside them",
    )  # fmt: skip


def rows_of_atom() -> Picture:
    """512 bytes of scales in shared memory: which row's, found by a mark in each row."""
    from phasebit.draw import Cell, chart

    marks = np.repeat(np.arange(128, dtype=np.uint8)[:, None], 16, axis=1)
    words = nvfp4.atoms(marks)[0].reshape(32, 4, 4)[:, :, 0]
    return chart(
        [[Cell(str(int(row)), ("blue", "orange", "green", "cyan")[int(row) // 32])
          for row in line] for line in words.T],
        rows=[f"word {w}" for w in range(4)], columns=range(32),
        row_label="of its 16 bytes", column_label="line of 16 bytes",
        title="Whose scales a word of the atom holds: the row of A or B",
    )  # fmt: skip


def lanes_of_scales() -> Picture:
    """The same 128 rows in tensor memory, as the emulator's tensor core reads them."""
    from phasebit.draw import Cell, chart
    from phasebit.emulator import block_scales

    marks = np.repeat(np.arange(128, dtype=np.uint8)[:, None], 4, axis=1)
    cells = block_scales.words(marks) & 0xFF  # (32 lanes, 4 columns)
    return chart(
        [[Cell(str(int(row)), ("blue", "orange", "green", "cyan")[int(row) // 32])
          for row in line] for line in cells.T],
        rows=[f"column {c}" for c in range(4)], columns=range(32),
        row_label="of tensor memory", column_label="lane, the same in each quarter",
        title="Where tcgen05.cp puts them: a word is four scales of one row",
    )  # fmt: skip


def overlap(tiles: int = 3) -> Picture:
    """Tensor memory while a block of :data:`nvfp4.TWO_SUMS` makes tiles: columns across, events
    downwards, in the order of the emulator's clock, on which products take no time.

    A cell is sixteen columns. Fetched columns are those that warp 0 has; it stands for the other
    three. The text lists the same events.
    """
    from phasebit.draw import Cell, Picture, chart
    from phasebit.emulator import observing

    wide, log = 16, _Columns()
    a, b = nvfp4.plain(128 * tiles * 2, 256, 7), nvfp4.plain(256, 256, 8)
    with observing(log):
        nvfp4.multiply(a, b, nvfp4.source(nvfp4.TWO_SUMS), schedule="eager")
    now: list[Cell | None] = [None] * (512 // wide)
    rows, events, tile = [], [], -1
    for what, columns in log.of_block_0():
        tile += what == "multiplies"
        cell, words = {
            "multiplies": (Cell(str(tile), ("blue", "orange")[tile % 2]), f"tile {tile} begins in"),
            "copies": (Cell("s", "green"), "scales are copied to"), "fetches": (None, "fetched:"),
        }[what]  # fmt: skip
        first, last = columns.start // wide, columns.stop // wide
        now[first:last] = [cell] * (last - first)
        events.append(f"{words} {columns.start} to {columns.stop - 1}")
        rows.append(list(now))
    title = "Two sums of 256 columns, and scales: tensor memory of one block"
    drawn = chart(
        rows, rows=events, columns=range(0, 512, wide), row_label="what happens, columns",
        column_label="16 columns, all lanes, from this one on", title=title,
        legend={"blue": "the first sum", "orange": "the second", "green": "scales of a slice"},
    )  # fmt: skip
    return Picture(drawn.svg, f"{title}.\n" + "\n".join(events))


class _Columns(TensorObserver):
    """Writes down what products, copies of scales and the loads of warp 0 do to columns."""

    def __init__(self) -> None:
        self.log: list[tuple[int, str, range]] = []
        """Of block 0: when, what, columns."""

    def note(self, g: Any, what: str, region: Any) -> None:
        if g.batch.blocks[region.slot] == 0:
            columns = range(region.columns.start, region.columns.stop)
            self.log.append((g.time, what, columns))

    def multiplies(self, g: Any, target: Any, *others: Any) -> None:
        self.note(g, "multiplies", target)

    def copies_columns(self, g: Any, target: Any, reads: Any) -> None:
        self.note(g, "copies", target)

    def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
        for lanes, region in regions:
            if g.batch.warp_of[lanes[0]] % g.batch.warps == 0:
                self.note(g, "fetches", region)

    def of_block_0(self) -> list[tuple[str, range]]:
        """What happened, in order; loads of neighbouring columns are one event."""
        merged: list[tuple[str, range]] = []
        for _, what, columns in sorted(self.log, key=lambda entry: entry[0]):
            before, other = merged[-1] if merged else ("", range(0))
            apart = columns.start > other.stop or columns.stop < other.start
            if before == what and not (what == "fetches" and apart):
                merged.pop()
                columns = range(min(other.start, columns.start), max(other.stop, columns.stop))
            merged.append((what, columns))
        return merged
