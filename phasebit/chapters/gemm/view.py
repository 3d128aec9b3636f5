"""What tables and pictures of *The anatomy of a fast GEMM* show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit import caches, measure
from phasebit.chapters.gemm.cpu_ladder import LOOPS, RUNGS, Block
from phasebit.draw import Cell, Panel, Picture, bars, chart
from phasebit.draw import panels as side_by_side
from phasebit.letters import wrap
from phasebit.palette import FAINT, FONT, MUTED, TEXT, colour


def rates(recorded: dict[str, Any]) -> dict[str, str]:
    """Kernel -> its rate on one core, on the largest product of the record."""
    size = max(map(int, recorded["ladder"]))
    times = recorded["ladder"][str(size)]
    return {
        file: measure.spoken([size] * 3, measure.summary(times[name]).median * 1e6)
        for name, file in RUNGS.items()
    }


def one_step(rows: int, columns: int, depth: int = 8, step: int = 2) -> Picture:
    """A step of the micro-kernel: a column of A's panel, a row of B's, and the tile of C."""
    high, wide, deep = rows / columns, 1.0, depth / columns
    every = [(row, column) for row in range(rows) for column in range(columns)]
    parts = [
        Panel(f"A: {rows} × kc", rows, depth, [(row, step) for row in range(rows)], "orange",
              deep, high),
        Panel(f"B: kc × {columns}", depth, columns, [(step, column) for column in range(columns)],
              "green", wide, deep),
        Panel(f"sums of C: {rows} × {columns}", rows, columns, every, "blue", wide, high),
    ]  # fmt: skip
    return side_by_side(parts, alt=(
        f"A step of the micro-kernel: {rows} elements of A, one below the other, and {columns} of "
        f"B, side by side, are marked; all {rows} × {columns} sums of the tile change."
    ))  # fmt: skip


def in_flight(counts: Sequence[int], latency: int = 4, units: int = 2, cycles: int = 12) -> Picture:
    """Which sum each unit begins to add to, cycle by cycle, when there are so many sums.

    A sum is free ``latency`` cycles after it was added to; of the free ones each unit takes the
    next.
    """
    cells, rows = [], []
    for count in counts:
        free = [0] * count
        began = [[Cell("")] * cycles for _ in range(units)]
        for cycle in range(cycles):
            ready = sorted((since, each) for each, since in enumerate(free) if since <= cycle)
            for unit, (_, each) in zip(began, ready, strict=False):
                unit[cycle] = Cell(str(each), "blue")
                free[each] = cycle + latency
        cells += began
        rows += [f"{count} sums, unit {unit}" for unit in range(units)]
    return chart(
        cells, rows=rows, columns=range(cycles), row_label="", column_label="cycle",
        title=f"Multiply-adds of {latency} cycles: the sum that each unit adds to",
        legend={"blue": "a multiply-add starts", "grey": "every sum is waited for"},
    )  # fmt: skip


def tiles_alone(recorded: dict[str, Any]) -> Picture:
    """The rate of the micro-kernel with each tile, as a share of the peak; which have spilled."""
    shares, hues = {}, {}
    for name, tile in sorted(recorded["tiles"].items(), key=lambda each: _tile(each[0])[::-1]):
        rows, vectors = _tile(name)
        row = f"{rows} × {vectors}, {rows * vectors + vectors + 1} registers"
        shares[row] = tile["flop"] / min(tile["seconds"]) / max(recorded["peak"])
        hues[row] = "orange" if tile["stack"] else "blue"
    return bars(
        shares, hues=hues, x_label="share of the core's peak", show=lambda value: f"{value:.2f}",
        title=f"Tiles, {measure.source(recorded)}; orange: sums on the stack",
    )  # fmt: skip


def _tile(name: str) -> tuple[int, int]:
    """Rows and vectors of a tile of the record."""
    rows, vectors = map(int, name.split())
    return rows, vectors


def first_of_two(made: Mapping[str, NDArray[np.float32]], tile: tuple[int, int]) -> Picture:
    """Which tiles of C the first of two threads makes, for each loop that they divide.

    ``made``: C for each loop, -0.0 before that thread began; whatever it adds takes the sign away.
    """
    rows, columns = tile
    parts = []
    for loop, c in made.items():
        untouched = np.signbit(c) & (c == 0)
        high, wide = -(-len(c) // rows), -(-len(c) // columns)
        marked = [(i, j) for i in range(high) for j in range(wide)
                  if not untouched[i * rows, j * columns]]  # fmt: skip
        parts.append(Panel(f"C, divided by {loop}", high, wide, marked))
    return side_by_side(parts, alt=(
        "Tiles of C that the first of two threads makes: "
        + "; ".join(f"{part.title}: {_extent(part.marked)}" for part in parts) + "."
    ))  # fmt: skip


def _extent(marked: Collection[tuple[int, int]]) -> str:
    """The rows and columns of some tiles, of which each row has the same ones."""
    rows, columns = ({each[axis] for each in marked} for axis in (0, 1))
    return f"{len(rows)} rows of tiles, columns {' '.join(map(str, sorted(columns)))}"


_FIXED = (  # loop, its step, what is fixed from it on: of A, of B, of C, and where it lives
    ("p0", "kc", "strip", "strip", "all", "memory"),
    ("i0", "mc", "block", "strip", "rows", "A: L3"),
    ("j0", "nc", "block", "block", "both", "B: L2"),
    ("i", "MR", "panel", "block", "high", "A: L1 or L2"),
    ("j", "NR", "panel", "panel", "tile", "C: registers; B passes by"),
)


def five_loops(
    m: int, n: int, k: int, block: Block, tile: tuple[int, int], at: Sequence[int]
) -> Picture:
    """What each of the five loops fixes of A (m, k), B (k, n) and C (m, n), outermost first.

    ``at`` are the rounds: p0, i0, j0, and i, j within their block. Sizes are elements, a pixel
    each at most.
    """
    p0, i0, j0, i, j = at
    rows, columns = tile
    depth = slice(p0, min(p0 + block.kc, k))
    below, across = slice(i0, min(i0 + block.mc, m)), slice(j0, min(j0 + block.nc, n))
    few, some = slice(i0 + i, i0 + i + rows), slice(j0 + j, j0 + j + columns)
    whole_m, whole_n = slice(0, m), slice(0, n)
    of_rows = (whole_m, below, below, few, few)
    of_columns = (whole_n, whole_n, across, across, some)
    scale = 76 / max(m, n, k)
    words: list[str] = []
    out: list[str] = []

    def matrix(
        x: float, y: float, name: str, high: slice, wide: slice, full: tuple[int, int]
    ) -> None:
        hue = {"A": "orange", "B": "green", "C": "blue"}[name]
        boxes = ((slice(0, full[0]), slice(0, full[1]), "none", FAINT), (high, wide, hue, ""))
        for down, right, fill, stroke in boxes:
            look = (
                f"fill:none;stroke:{stroke}"
                if stroke
                else (f"fill:{colour(fill)};fill-opacity:.45;stroke:{colour(fill)}")
            )
            out.append(
                f'<rect x="{x + right.start * scale:.1f}" y="{y + down.start * scale:.1f}" '
                f'width="{(right.stop - right.start) * scale:.1f}" '
                f'height="{(down.stop - down.start) * scale:.1f}" style="{look}"/>'
            )
        out.append(f'<text x="{x - 12:g}" y="{y + 12:g}" style="fill:{MUTED}">{name}</text>')
        shape = f"{high.stop - high.start} × {wide.stop - wide.start}"
        if (high, wide) != (slice(0, full[0]), slice(0, full[1])):
            words.append(f"{name} {shape}")

    def drawing(narrow: bool) -> list[str]:
        """The loops, one below the other; in a narrow one its name stands above its matrices."""
        out.clear()
        words.clear()
        for row, (loop, step, *_, lives) in enumerate(_FIXED):
            y = 60.0 + 118 * row if narrow else 34.0 + 88 * row
            x, name, where = (8 * row, y - 26, y - 10) if narrow else (24 * row, y + 14, y + 32)
            words.append(f"\n{loop} by {step}:")
            out.append(
                f'<text x="{x:g}" y="{name:g}" style="fill:{TEXT};font-weight:bold">'
                f'{loop} by {step}</text><text x="{x:g}" y="{where:g}" '
                f'style="fill:{MUTED}">{escape(lives)}</text>'
            )
            begin, apart = (40, 110) if narrow else (270, 110)
            matrix(begin, y, "A", of_rows[row], depth, (m, k))
            matrix(begin + apart, y, "B", depth, of_columns[row], (k, n))
            matrix(begin + 2 * apart, y, "C", of_rows[row], of_columns[row], (m, n))
            words.append(f"({lives})")
        return [*out]

    title = f"What each loop fixes: m = n = {m}, k = {k}, tile {rows} × {columns}"

    def svg(narrow: bool) -> str:
        wide, high = (340, 630) if narrow else (580, 480)
        body = drawing(narrow)
        heading = "".join(
            f'<text x="0" y="{12 + 15 * n}" style="fill:{TEXT}">{escape(line)}</text>\n'
            for n, line in enumerate(wrap(title, wide))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-diagram" '
            f'width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
            f'style="font:12px {FONT};background:transparent">\n<title>{escape(alt())}</title>\n'
            f"{heading}" + "\n".join(body) + "\n</svg>"
        )

    def alt() -> str:
        return f"{title}." + " ".join(words).replace(" \n", "\n")

    return Picture(svg(False), alt(), svg(True))


def tlb_at_work(walks: Mapping[str, Sequence[int]], entries: int) -> Picture:
    """The page of each access of some walks, and whether a TLB of ``entries`` pages missed it."""
    level = caches.tlb("TLB", entries)
    cells = [
        [
            Cell(str(pages[0]), "orange" if missed else "blue")
            for missed, pages in caches.kept(walk, level, 0)
        ]
        for walk in walks.values()
    ]
    return chart(
        cells, rows=list(walks), columns=range(len(cells[0])), row_label="",
        column_label="access (in the cells: its page)",
        title=f"A TLB of {entries} entries; misses "
        + ", ".join(f"{name}: {sum(c.hue == 'orange' for c in line)}"
                    for name, line in zip(walks, cells, strict=True)),
        legend={"orange": "missed", "blue": "found"},
    )  # fmt: skip


def threads_measured(recorded: dict[str, Any]) -> list[str]:
    """A line for each loop that threads divide; none for a record that has no threads."""
    lines = []
    for n, times in recorded.get("threads", {}).items():
        one = measure.summary(times["1 j0"]).median
        for name in times:
            count, loop = name.split()
            if loop in LOOPS and count != "1":
                faster = one / measure.summary(times[name]).median
                lines.append(f"⏱ {n}³, {count} threads divide {loop}: {faster:.2f} times as fast")
    return lines


def panels(packed: NDArray[np.float32], rows: int) -> Picture:
    """Panels of A, (panels, kc, width), as they lie in memory; A has ``rows`` rows."""
    hues = ("blue", "orange", "green", "pink", "cyan", "red")
    _, depth, width = packed.shape
    cells = [
        [
            Cell(f"{value:.0f}", hues[r] if number * width + r < rows else "grey")
            for step in panel
            for r, value in enumerate(step)
        ]
        for number, panel in enumerate(packed)
    ]
    return chart(
        cells, rows=[f"panel {number}" for number in range(len(packed))],
        columns=range(depth * width), row_label="memory",
        column_label="place in the panel, in floats",
        title=f"A of {rows} × {depth}, its elements numbered row by row, in panels of {width} rows",
        legend={**{hues[r]: f"row {r} of a panel" for r in range(width)}, "grey": "filled up"},
    )  # fmt: skip
