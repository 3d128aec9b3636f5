"""Pictures and tables of *Low precision, block by block*."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.chapters.low_precision import mixed, nvfp4
from phasebit.chapters.low_precision.quantise import (
    ALL,
    ONE_OF_TWO,
    Format,
    activations,
    quantise,
)
from phasebit.emulator import MbarrierObserver, TensorObserver

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


def kinds(schedule: str = "late") -> Table:
    """The three kinds with block scales, each by its kernel: how it takes scales."""
    from phasebit.emulator import scaled_descriptors
    from phasebit.measure import Table

    rows = []
    for name, kind, size in (
        (nvfp4.ALONE, "mxf4nvf4", 4), (nvfp4.POWERS, "mxf4", 2), (mixed.NAME, "mxf8f6f4", 1)
    ):  # fmt: skip
        if name == mixed.NAME:
            a, b = mixed.plain(150, 256, "e4m3", 1), mixed.plain(130, 256, "e2m1", 2)
            run, c = mixed.multiply(a, b, schedule=schedule)
        else:
            a, b = (nvfp4.plain(n, 288, n, nvfp4.format_of(name)) for n in (150, 130))
            run, c = nvfp4.multiply(a, b, nvfp4.source(name), schedule=schedule)
        exact = np.array_equal(c, a.values() @ b.values().T) and not run.findings
        ids = scaled_descriptors.IDS[size]
        rows.append((
            f"{name}.cu", f"{kind}, {size}X", f"{a.format.block}, {a.format.scale}", str(len(ids)),
            ", ".join(map(str, ids)), f"{128 * 256 // a.format.block >> 10}",
            "exact" if exact else "wrong",
        ))  # fmt: skip
    return Table(
        ("kernel", "kind", "a scale for", "instructions an atom serves", "their ids",
         "KiB of scales", "result"), tuple(rows),
        f"KiB for 128 rows and 256 along k; ragged shapes, {schedule} copies and products",
    )  # fmt: skip


def outliers() -> Picture:
    """What eight large channels of 1024 do to the others, by format and by how large they are."""
    from phasebit.draw import curves

    found = [ordinary(size) for size in SIZES]
    return curves(
        [str(size) for size in SIZES],
        {form.name: [each[form.name] for each in found] for form in ALL},
        x_label="how many times as large an outlier is", y_label="relative error of the others",
        title="What eight outliers in 1024 channels do to the channels beside them", evenly=True,
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


def copied_atom() -> Any:
    """Whose scales each lane has in four columns, int (128, 4): one ``tcgen05.cp``, run.

    An atom whose words are the rows of which they hold the scales, and ``copied.cu`` of *Tensor
    memory*.
    """
    from phasebit import edits, files
    from phasebit.launching.launch import compile

    text = files.kernel("tensor_memory/copied")
    text = edits.replace_once(text, "make_uint4(x, x, x, x)",
                              "make_uint4(x, x + 32, x + 64, x + 96)")  # fmt: skip
    text = edits.replace_once(text, '#define SHAPE "128x128b"', '#define SHAPE "32x128b.warpx4"')
    out = np.full((128, 8), -2, np.int32)
    compile(text, "sm_100a")["copied"].launch(1, 128, [out])
    return out[:, :4]


def lanes_of_scales() -> Picture:
    """The same 128 rows in all lanes of tensor memory: :func:`copied_atom`, by quarters.

    Raises ``RuntimeError`` where the rows of a quarter do not follow each other.
    """
    from phasebit.draw import Cell, chart

    got = copied_atom()
    cells = []
    for first in range(0, 128, 32):
        quarter = got[first : first + 32]
        if (np.diff(quarter, axis=0) != 1).any():
            raise RuntimeError("rows of a quarter are not one after the other: read copied.cu")
        cells.append([
            Cell(f"rows {a}–{b}", ("blue", "orange", "green", "cyan")[a // 32])
            for a, b in zip(quarter[0].tolist(), quarter[-1].tolist(), strict=True)
        ])  # fmt: skip
    return chart(
        cells, rows=[f"{first}–{first + 31}" for first in range(0, 128, 32)],
        columns=[f"column {c}" for c in range(4)],
        row_label="lanes", column_label="of tensor memory",
        title="Where tcgen05.cp puts them: whose scales each lane has",
    )  # fmt: skip


def scales_of_a_pair() -> Picture:
    """Whose scales the columns of each block hold for a slice: :data:`nvfp4.PAIR`, run once.

    The columns are those that the products name; of B's, the first atom is of rows 0 to 127.
    """
    from phasebit.draw import Cell, chart
    from phasebit.emulator import observing

    read: dict[int, list[tuple[str, range]]] = {0: [], 1: []}

    class Watcher(TensorObserver):
        def multiplies(self, g: Any, target: Any, *others: Any) -> None:
            for name, region in zip("AB", others[3], strict=True):
                columns = range(region.columns.start, region.columns.stop)
                read[int(g.batch.blocks[target.slot])].append((name, columns))

    a, b = nvfp4.plain(256, 256, 5), nvfp4.plain(256, 256, 6)
    with observing(Watcher()):
        nvfp4.multiply(a, b, nvfp4.source(nvfp4.PAIR), schedule="eager")
    first, last = (edge(edge(columns) for _, columns in read[0]) for edge in (min, max))
    cells: list[list[Cell | None]] = []
    said = []
    for block, named in read.items():
        line: list[Cell | None] = [None] * ((last + 1 - first) // 4)
        for number, (name, columns) in enumerate(named):
            for half, start in enumerate(columns[::4]):
                rows = block if name == "A" else half
                hue = ("blue", "orange", "green", "cyan")[2 * (name == "B") + rows]
                line[(start - first) // 4] = Cell(f"{name} {number // 2}", hue)
                said.append(f"block {block}, columns {start} to {start + 3}: {name}, "
                            f"rows {128 * rows} to {128 * rows + 127}, instruction {number // 2}")
        cells.append(line)
    title = "A pair's scales of a slice in tensor memory: the matrix, the instruction"
    drawn = chart(
        cells, rows=["block 0", "block 1"], columns=range(first, last + 1, 4),
        row_label="of the pair", column_label="four columns from this one on", title=title,
        legend={"blue": "A, rows 0 to 127", "orange": "A, rows 128 to 255",
                "green": "B, rows 0 to 127", "cyan": "B, rows 128 to 255"},
    )  # fmt: skip
    return replace(drawn, alt="\n".join([f"{title}.", *sorted(said)]))


def overlap(tiles: int = 3) -> Picture:
    """Tensor memory while a block of :data:`nvfp4.TWO_SUMS` makes tiles: columns across, events
    downwards, in the order of the emulator's clock, on which products take no time. A tile may
    begin when the thread that multiplies has passed the wait for its columns.

    A cell is sixteen columns. Fetched columns are those that warp 0 has; it stands for the other
    three. The text lists the same events.
    """
    from phasebit.draw import Cell, chart
    from phasebit.emulator import observing

    wide, log = 16, _Columns()
    a, b = nvfp4.plain(128 * tiles * 2, 256, 7), nvfp4.plain(256, 256, 8)
    with observing(log):
        nvfp4.multiply(a, b, nvfp4.source(nvfp4.TWO_SUMS), schedule="eager")
    now: list[Cell | None] = [None] * (512 // wide)
    rows, events, tile = [], [], -1
    for what, columns in log.of_block_0():
        tile += what == "may begin"
        cell, words = {
            "may begin": (Cell(str(tile), ("blue", "orange")[tile % 2]),
                          f"tile {tile} may begin in"),
            "copies": (Cell("s", "green"), "scales are copied to"), "fetches": (None, "fetched:"),
        }[what]  # fmt: skip
        first, last = columns.start // wide, columns.stop // wide
        now[first:last] = [cell] * (last - first)
        events.append(f"{words} {columns.start} to {columns.stop - 1}")
        rows.append(list(now))
    title = "Two sums of 256 columns, and scales: tensor memory of one block"
    drawn = chart(
        rows, rows=events, columns=range(0, 512, wide), row_label="what happens, columns",
        column_label="the first of 16 columns", title=title,
        legend={"blue": "the first sum", "orange": "the second", "green": "scales of a slice"},
    )  # fmt: skip
    return replace(drawn, alt=f"{title}.\n" + "\n".join(events))


class _Columns(MbarrierObserver, TensorObserver):
    """Writes down what products, copies of scales and the loads of warp 0 do to columns.

    A tile's columns are those of its products, from the wait on that its thread has passed before.
    """

    def __init__(self) -> None:
        self.log: list[tuple[int, str, range]] = []
        """Of block 0: when, what, columns."""
        self.begun: list[int] = []
        """When the thread that multiplies passed a wait for columns, which four warps tell."""
        self.tiles = 0

    def passes(self, g: Any, site: Any) -> None:
        if g.batch.blocks[site.slot] == 0 and site.barrier.expected == 4:
            self.begun.append(max(g.time, site.opened))

    def note(self, g: Any, what: str, region: Any) -> None:
        if g.batch.blocks[region.slot] == 0:
            columns = range(region.columns.start, region.columns.stop)
            self.log.append((g.time, what, columns))

    def multiplies(self, g: Any, target: Any, *others: Any) -> None:
        if g.batch.blocks[target.slot] == 0 and self.tiles < len(self.begun):
            columns = range(target.columns.start, target.columns.stop)
            self.log.append((self.begun[self.tiles], "may begin", columns))
            self.tiles += 1

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
