"""Plots that belong to the page: heat maps with their values, curves with their names.

A ``Picture`` is an SVG and a sentence. The sentence carries the numbers that matter: it is the
alternative text of the picture and what a test compares. Matplotlib draws; afterwards its fixed
colours become the theme's variables, so that the picture follows the page from light to dark.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any, NamedTuple

from phasebit.palette import COLOURS, FAINT, FONT, MUTED, TEXT, colour

Real = int | float | Fraction

# Matplotlib knows no variables: it draws in these colours, which are exchanged afterwards.
_TEXT, _MUTED, _FAINT = "#010203", "#040506", "#070809"
_EXCHANGE = {_TEXT: "var(--text)", _MUTED: "var(--muted)", _FAINT: "var(--faint)"} | {
    code: colour(name) for name, code in COLOURS.items()
}
_SERIES = (
    ("blue", "-", "o"),
    ("orange", "--", "s"),
    ("green", "-.", "^"),
    ("pink", ":", "D"),
    ("cyan", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("red", (0, (1, 1)), "x"),
)


@dataclass(frozen=True)
class Picture:
    """An ``<svg>`` element and the sentence that says the same."""

    svg: str
    alt: str

    def __str__(self) -> str:
        return self.alt

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg, "text/plain": self.alt}


def heatmap(
    values: Sequence[Sequence[Real]],
    *,
    rows: Sequence[object],
    columns: Sequence[object],
    row_label: str,
    column_label: str,
    title: str,
    show: Callable[[Real], str] = lambda value: f"{float(value):.2f}",
    outline: Collection[tuple[int, int]] = (),
    outline_means: str = "",
) -> Picture:
    """``values[r][c]`` as a grid of cells: the larger, the darker, with the value printed.

    ``outline`` frames cells (row index, column index); ``outline_means`` says why.
    Raises ``ValueError`` when the shape of values is not rows by columns.
    """
    if [len(line) for line in values] != [len(columns)] * len(rows):
        raise ValueError(
            f"values has the shape {len(values)} by {[len(line) for line in values]}: "
            f"give {len(rows)} rows of {len(columns)}"
        )
    low = min(min(line) for line in values)
    high = max(max(line) for line in values)
    figure, axes = _figure(1.6 + 0.5 * len(columns), 1.2 + 0.34 * len(rows))
    for r, line in enumerate(values):
        for c, value in enumerate(line):
            share = float(value - low) / float(high - low) if high > low else 0.5
            axes.add_patch(
                _rectangle(c, r, facecolor=COLOURS["blue"], alpha=0.03 + 0.45 * share, linewidth=0)
            )
            axes.text(
                c, r, show(value), ha="center", va="center", color=_TEXT, fontsize=9,
                fontweight="bold" if (r, c) in outline else "normal",
            )
    for r, c in sorted(outline):
        axes.add_patch(
            _rectangle(c, r, inset=0.05, fill=False, edgecolor=COLOURS["orange"], linewidth=1.8)
        )
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xticks(range(len(columns)), [str(each) for each in columns])
    axes.set_yticks(range(len(rows)), [str(each) for each in rows])
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel(column_label)
    axes.set_ylabel(row_label)
    axes.set_title(title, fontsize=10, color=_TEXT, loc="left")
    note = f" Framed: {outline_means}." if outline_means else ""
    if note:
        axes.annotate(
            note.strip(), (0, 0), (0, -34), xycoords="axes fraction", textcoords="offset points",
            fontsize=9, color=_MUTED, annotation_clip=False,
        )
    grid = "\n".join(
        f"{row_label} {row}: "
        + " ".join(
            show(value) + ("*" if (r, c) in outline else "") for c, value in enumerate(line)
        )
        for r, (row, line) in enumerate(zip(rows, values, strict=True))
    )
    across = f"{column_label} {', '.join(str(each) for each in columns)}"
    starred = f" (* {outline_means})" if outline_means else ""
    return _picture(figure, f"{title}. From left to right, {across}{starred}.\n{grid}")


def curves(
    x: Sequence[Real] | Sequence[str],
    series: Mapping[str, Sequence[Real]],
    *,
    x_label: str,
    y_label: str,
    title: str,
    show: Callable[[Real], str] = lambda value: f"{float(value):.2f}",
    from_zero: bool = True,
    notes: Sequence[tuple[Real, Real, str]] = (),
    evenly: bool = False,
) -> Picture:
    """Several curves over ``x``, at most six, each named where it ends.

    ``notes`` are texts at points (x, y, text). ``evenly`` puts the points equally far apart,
    whatever their x, which may be names then. Raises ``ValueError`` for a series that is not as
    long as x, more than six, or notes where the points stand evenly.
    """
    if evenly and notes:
        raise ValueError("notes have places on an axis of numbers: leave out evenly")
    if len(series) > len(_SERIES):
        raise ValueError(f"series has {len(series)} curves: give at most {len(_SERIES)}")
    for name, values in series.items():
        if len(values) != len(x):
            raise ValueError(f"series {name!r} has {len(values)} values: give {len(x)}, one an x")
    figure, axes = _figure(6.2, 3.2)
    places = [float(index if evenly else place) for index, place in enumerate(x)]
    ends = []
    for (name, values), (hue, dash, marker) in zip(series.items(), _SERIES, strict=False):
        axes.plot(
            places, [float(each) for each in values], color=COLOURS[hue],
            linestyle=dash, linewidth=1.8, marker=marker if len(x) <= 40 else None, markersize=4,
        )
        ends.append((float(values[-1]), name, hue))
    axes.margins(x=0.02)
    if from_zero:
        axes.set_ylim(bottom=0)
    bottom, top = axes.get_ylim()
    axes.set_ylim(bottom, top)
    apart, at = (top - bottom) * 0.075, float("-inf")
    for value, name, hue in sorted(ends):
        at = max(value, at + apart)
        axes.annotate(
            name, (1, at), (6, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", color=COLOURS[hue], fontsize=9.5,
            annotation_clip=False,
        )
    for note_x, note_y, text in notes:
        axes.annotate(
            text, (float(note_x), float(note_y)), (8, -16), textcoords="offset points",
            color=_TEXT, fontsize=9,
            arrowprops={"arrowstyle": "-", "color": _MUTED, "linewidth": 0.8},
        )
    if evenly or (all(isinstance(each, int) for each in x) and len(x) <= 24):
        axes.set_xticks(places, [str(each) for each in x])
    _frame(axes, title, x_label, y_label)
    lines = "\n".join(
        f"{name}: " + " ".join(show(value) for value in values) for name, values in series.items()
    )
    across = f"{x_label} {', '.join(str(each) for each in x)}"
    return _picture(figure, f"{title}. {y_label}, from left to right at {across}.\n{lines}")


def spread(
    times: Mapping[str, Sequence[Real]],
    apart: Mapping[str, Sequence[Real]],
    *,
    x_label: str,
    title: str,
    times_are: str,
    apart_are: str,
) -> Picture:
    """Many measurements of a few things: a row each, a dot each.

    ``apart`` are measurements of another kind of the same things, drawn as crosses on the same
    rows; ``times_are`` and ``apart_are`` name the two kinds. Raises ``ValueError`` for a row
    without measurements.
    """
    from statistics import median, quantiles

    figure, axes = _figure(6.2, 0.7 + 0.65 * len(times))
    lines = []
    for row, (name, values) in enumerate(times.items()):
        if len(values) < 2:
            raise ValueError(f"{name!r} has {len(values)} measurements: give at least two")
        numbers = [float(each) for each in values]
        low, middle, high = quantiles(numbers, n=4)
        # Dots one above the other in order of measurement, so that a drift would show.
        heights = [row + 0.28 - 0.56 * i / (len(numbers) - 1) for i in range(len(numbers))]
        every = -(-len(numbers) // 120)  # enough dots to see the spread, few enough to load
        axes.plot(
            numbers[::every], heights[::every],
            linestyle="none", marker=".", markersize=3, color=COLOURS["blue"],
        )
        axes.annotate(
            f"{middle:.1f}", (middle, row), (0, 15), textcoords="offset points", ha="center",
            color=_TEXT, fontsize=9.5,
        )
        line = f"{name}: {times_are} {middle:.1f} (median), middle half {low:.1f} to {high:.1f}"
        others = [float(each) for each in apart.get(name, ())]
        if others:
            axes.plot(
                others, [row] * len(others), linestyle="none", marker="x", markersize=7,
                markeredgewidth=1.6, color=COLOURS["orange"],
            )
            line += f"; {apart_are} {median(others):.1f} (median)"
        lines.append(line)
    axes.set_xlim(left=0)
    axes.set_ylim(len(times) - 0.6, -0.7)
    axes.set_yticks(range(len(times)), list(times))
    axes.tick_params(axis="y", length=0, labelcolor=_TEXT)
    _frame(axes, title, f"{x_label}   (dots: {times_are}; crosses: {apart_are})")
    return _picture(figure, f"{title}. {x_label}.\n" + "\n".join(lines))


def roofline(
    bandwidth: float,
    rates: Mapping[str, float],
    points: Mapping[str, tuple[float, float]],
    *,
    title: str,
) -> Picture:
    """Roofs and kernels under them, both axes logarithmic.

    ``bandwidth`` in TB/s, ``rates`` in TFLOP/s, ``points`` name -> (FLOP a byte, TFLOP/s).
    Raises ``ValueError`` for a number that is not positive, or without rates.
    """
    numbers = [bandwidth, *rates.values(), *(each for point in points.values() for each in point)]
    if not rates or min(numbers) <= 0:
        raise ValueError("a roofline needs rates, and every number of it must be positive")
    figure, axes = _figure(6.2, 4.4)
    left = min([0.1, *(intensity / 2 for intensity, _ in points.values())])
    right = max(4 * max(rates.values()) / bandwidth, *(4 * x for x, _ in points.values()), 1.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    slope = [left, max(rates.values()) / bandwidth]
    axes.plot(slope, [bandwidth * x for x in slope], color=COLOURS["grey"], linewidth=1.8)
    middle = math.sqrt(slope[0] * slope[1])
    axes.annotate(
        f"memory: {bandwidth:.2f} TB/s", (middle, bandwidth * middle), (-8, 4),
        textcoords="offset points", ha="right", color=_MUTED, fontsize=9.5,
    )
    at = 0.0
    for name, rate in sorted(rates.items(), key=lambda item: item[1]):
        hue, dash, _ = _SERIES[list(rates).index(name) % len(_SERIES)]
        axes.plot([rate / bandwidth, right], [rate, rate], color=COLOURS[hue], linestyle=dash,
                  linewidth=1.8)  # fmt: skip
        at = max(rate, 1.7 * at)  # names one above the other, however close the roofs
        axes.annotate(
            f"{name}: {rate:.0f}", (right, at), (6, 0), textcoords="offset points",
            va="center", color=COLOURS[hue], fontsize=9.5, annotation_clip=False,
        )
    for name, (intensity, reached) in points.items():
        axes.plot([intensity], [reached], marker="o", markersize=6, color=COLOURS["pink"])
        far = intensity > math.sqrt(left * right)  # on the right half, the name stands below
        axes.annotate(
            name, (intensity, reached), (0, -14) if far else (8, -3), color=_TEXT, fontsize=9,
            textcoords="offset points", ha="center" if far else "left",
        )
    axes.set_xlim(left, right)
    _frame(axes, title, "operations for each byte moved, FLOP/B", "TFLOP/s")
    lines = [f"memory: {bandwidth:.2f} TB/s"]
    lines += [f"{name}: {rate:.0f} TFLOP/s, from {rate / bandwidth:.1f} FLOP/B on"
              for name, rate in rates.items()]  # fmt: skip
    for name, (intensity, reached) in points.items():
        lines.append(f"{name}: {intensity:.3g} FLOP/B, {reached:.3g} TFLOP/s")
    return _picture(figure, f"{title}.\n" + "\n".join(lines))


class Cell(NamedTuple):
    """One cell of a chart: its text, a colour of the palette."""

    text: str
    hue: str = "grey"


def chart(
    cells: Sequence[Sequence[Cell | None]],
    *,
    rows: Sequence[object],
    columns: Sequence[object],
    row_label: str,
    column_label: str,
    title: str,
    legend: Mapping[str, str] | None = None,
) -> Picture:
    """``cells[r][c]``: a small text in a coloured cell, or ``None`` for nothing.

    For what happens lane by lane: lanes across and time down, banks across and wavefronts down.
    ``legend`` says what a colour means. Raises ``ValueError`` when the shape of cells is not
    rows by columns.
    """
    if [len(line) for line in cells] != [len(columns)] * len(rows):
        raise ValueError(
            f"cells has the shape {len(cells)} by {[len(line) for line in cells]}: "
            f"give {len(rows)} rows of {len(columns)}"
        )
    texts = [cell.text for line in cells for cell in line if cell]
    down, head = 16.0, 40.0
    left = 6.2 * max(len(str(row)) for row in [*rows, row_label]) + 10
    edges = [left]  # of the columns, each as wide as its widest text
    for c in range(len(columns)):
        widest = max((len(cell.text) for line in cells if (cell := line[c])), default=1)
        edges.append(edges[-1] + max(16.0, 6.2 * widest + 4))
    out = [
        f'<text x="0" y="12" style="fill:{TEXT}">{escape(title.splitlines()[0])}</text>',
        f'<text x="{left - 6:g}" y="{head - 6:g}" text-anchor="end" style="fill:{MUTED}">'
        f"{escape(row_label)}</text>",
    ]
    for c, column in enumerate(columns):
        if len(columns) <= 8 or c % 4 == 0:
            middle = (edges[c] + edges[c + 1]) / 2
            place = f'x="{middle:g}" y="{head - 6:g}" text-anchor="middle"'
            out.append(f'<text {place} style="fill:{MUTED}">{escape(str(column))}</text>')
    for r, (row, line) in enumerate(zip(rows, cells, strict=True)):
        y = head + r * down
        out.append(
            f'<text x="{left - 6:g}" y="{y + 12:g}" text-anchor="end" '
            f'style="fill:{MUTED}">{escape(str(row))}</text>'
        )
        for c, cell in enumerate(line):
            if cell is None:
                continue
            x, across, ink = edges[c], edges[c + 1] - edges[c], colour(cell.hue)
            out.append(
                f'<rect x="{x + 1:g}" y="{y + 1:g}" width="{across - 2:g}" height="{down - 2:g}" '
                f'rx="2" style="fill:{ink};fill-opacity:.22;stroke:{ink};stroke-width:.8"/>'
            )
            if cell.text:
                out.append(
                    f'<text x="{x + across / 2:g}" y="{y + 11.5:g}" text-anchor="middle" '
                    f'style="fill:{TEXT};font-size:10px">{escape(cell.text)}</text>'
                )
    foot = head + len(rows) * down
    out.append(
        f'<text x="{left:g}" y="{foot + 16:g}" style="fill:{MUTED}">{escape(column_label)}</text>'
    )
    width = max(edges[-1], left + 6.4 * len(column_label) + 18, 6.4 * len(title))
    x = left + 6.4 * len(column_label) + 18
    for hue, means in (legend or {}).items():
        if x > left and x + 6.4 * len(means) + 34 > width:  # no room beside what is there
            x, foot = left, foot + 18
        out.append(
            f'<rect x="{x:g}" y="{foot + 6:g}" width="12" height="12" rx="2" '
            f'style="fill:{colour(hue)};fill-opacity:.22;stroke:{colour(hue)}"/>'
            f'<text x="{x + 17:g}" y="{foot + 16:g}" style="fill:{MUTED}">{escape(means)}</text>'
        )
        x += 6.4 * len(means) + 34
        width = max(width, x)
    height = foot + 24
    wide = max(map(len, texts), default=1)
    grid = "\n".join(
        f"{row!s:>{len(row_label)}} |"
        + "".join(f" {(cell.text or '#') if cell else '.':>{wide}}" for cell in line)
        for row, line in zip(rows, cells, strict=True)
    )
    across_words = f"{column_label} from {columns[0]} to {columns[-1]}"
    alt = f"{title}. {row_label} downwards; {across_words}.\n{grid}"
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-chart" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
        f'style="font:11px {FONT};background:transparent">\n'
        f"<title>{escape(alt)}</title>\n" + "\n".join(out) + "\n</svg>",
        alt,
    )


class Node(NamedTuple):
    """A box of a diagram: its text, its centre in pixels, a colour of the palette.

    ``of`` says what it is a state of; the diagram writes that to the left of the boxes.
    """

    text: str
    x: float
    y: float
    hue: str = "grey"
    of: str = ""


class Arrow(NamedTuple):
    """From node to node, with a label; ``bend`` moves its middle to the left, in pixels.

    An arrow from a node to itself is a loop above it (below for a negative bend).
    """

    start: str
    end: str
    label: str = ""
    bend: float = 0.0


def diagram(nodes: Mapping[str, Node], arrows: Sequence[Arrow], *, title: str) -> Picture:
    """Boxes and arrows: a state machine, a graph of what waits for what.

    Raises ``ValueError`` for an arrow that names no node.
    """
    out: list[str] = []
    edge = [0.0, 0.0, 0.0, 0.0]  # left, top, right, bottom of all that is drawn

    def reach(x: float, y: float, width: float = 0.0, height: float = 0.0) -> None:
        edge[0], edge[2] = min(edge[0], x - width / 2), max(edge[2], x + width / 2)
        edge[1], edge[3] = min(edge[1], y - height / 2), max(edge[3], y + height / 2)

    for each in nodes.values():
        wide = _box_width(each)
        reach(each.x, each.y, wide + 4, 34)
        out.append(
            f'<rect x="{each.x - wide / 2:g}" y="{each.y - 14:g}" width="{wide:g}" height="28" '
            f'rx="6" style="fill:{colour(each.hue)};fill-opacity:.16;stroke:{colour(each.hue)};'
            f'stroke-width:1.5"/><text x="{each.x:g}" y="{each.y + 4:g}" text-anchor="middle" '
            f'style="fill:{TEXT}">{escape(each.text)}</text>'
        )
    left = edge[0] - 12
    for name, x, y in {each.of: (each.of, left, each.y) for each in nodes.values()}.values():
        if name:
            reach(x - len(name) * 4, y, len(name) * 8, 24)
            out.append(
                f'<text x="{x:g}" y="{y + 4:g}" text-anchor="end" '
                f'style="fill:{TEXT};font-weight:bold">{escape(name)}</text>'
            )
    for arrow in arrows:
        for name in (arrow.start, arrow.end):
            if name not in nodes:
                raise ValueError(f"{arrow} names no node: give one of {', '.join(nodes)}")
        a, b = nodes[arrow.start], nodes[arrow.end]
        if arrow.start == arrow.end:
            up = -1.0 if arrow.bend >= 0 else 1.0
            first, last = (a.x - 12, a.y + 14 * up), (a.x + 12, a.y + 14 * up)
            top = a.y + 62 * up
            curve = f"M{first[0]:g} {first[1]:g}C{a.x - 34:g} {top:g} {a.x + 34:g} {top:g}"
            before, middle = (a.x + 18, last[1] + 12 * up), (a.x, a.y + 50 * up)
            at = (middle[0], middle[1] + (-6 if up < 0 else 14))
        else:
            length = math.hypot(b.x - a.x, b.y - a.y)
            side = ((b.y - a.y) / length, -(b.x - a.x) / length)
            middle = (
                (a.x + b.x) / 2 + 2 * arrow.bend * side[0],
                (a.y + b.y) / 2 + 2 * arrow.bend * side[1],
            )
            first, last = _leave(a, middle), _leave(b, middle)
            curve = f"M{first[0]:g} {first[1]:g}Q{middle[0]:g} {middle[1]:g}"
            before = middle
            at = (
                first[0] / 4 + middle[0] / 2 + last[0] / 4,
                first[1] / 4 + middle[1] / 2 + last[1] / 4 + (16 if middle[1] > a.y else -7),
            )
        if not arrow.bend and abs(b.y - a.y) > 2 * abs(b.x - a.x):  # steep: beside the line
            at = (at[0] + len(arrow.label) * 3.2 + 8, (first[1] + last[1]) / 2 + 4)
        reach(*at, len(arrow.label) * 6.5 + 6, 24)
        out.append(
            f'<path d="{curve} {last[0]:g} {last[1]:g}" '
            f'style="fill:none;stroke:{TEXT};stroke-width:1.3"/>{_head(before, last)}'
            f'<text x="{at[0]:g}" y="{at[1]:g}" text-anchor="middle" '
            f'style="fill:{TEXT};font-size:11px">{escape(arrow.label)}</text>'
        )
    width, height = edge[2] - edge[0], edge[3] - edge[1]
    names = {name: node.text for name, node in nodes.items()}
    whose = {name: f"{node.of}: " if node.of else "" for name, node in nodes.items()}
    alt = f"{title}.\n" + "\n".join(
        f"{whose[a.start]}{names[a.start]} → {names[a.end]}: {a.label}" for a in arrows
    )
    box = f"{edge[0]:g} {edge[1]:g} {width:g} {height:g}"
    drawing = re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n.group()):.2f}", "\n".join(out))
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-diagram" '
        f'width="{width:g}" height="{height:g}" viewBox="{box}" '
        f'style="min-width:{math.ceil(0.92 * width)}px;font:12px {FONT};background:transparent">\n'
        f"<title>{escape(alt)}</title>\n{drawing}\n</svg>",
        alt,
    )


def _box_width(node: Node) -> float:
    return len(node.text) * 7.0 + 22


def _leave(node: Node, towards: tuple[float, float]) -> tuple[float, float]:
    """Where a line from the node's centre towards a point leaves its box."""
    dx, dy = towards[0] - node.x, towards[1] - node.y
    half = (_box_width(node) / 2 + 2, 16.0)
    share = min(half[0] / abs(dx) if dx else math.inf, half[1] / abs(dy) if dy else math.inf)
    return node.x + dx * share, node.y + dy * share


def _head(before: tuple[float, float], tip: tuple[float, float]) -> str:
    """The head of an arrow that arrives at ``tip`` from the direction of ``before``."""
    angle = math.atan2(tip[1] - before[1], tip[0] - before[0])
    corners = [
        (tip[0] - 9 * math.cos(angle + turn), tip[1] - 9 * math.sin(angle + turn))
        for turn in (0.4, -0.4)
    ]
    points = " ".join(f"{x:g},{y:g}" for x, y in [tip, *corners])
    return f'<polygon points="{points}" style="fill:{TEXT}"/>'


def _figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure of this many inches and its axes, with no state kept anywhere."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    axes.xaxis.label.set_color(_TEXT)
    axes.yaxis.label.set_color(_TEXT)
    axes.tick_params(colors=_MUTED, labelsize=9)
    return figure, axes


def _rectangle(column: float, row: float, inset: float = 0.02, **look: Any) -> Any:
    from matplotlib.patches import Rectangle

    side = 1 - 2 * inset
    return Rectangle((column - 0.5 + inset, row - 0.5 + inset), side, side, **look)


def _picture(figure: Any, alt: str) -> Picture:
    import matplotlib

    text = io.StringIO()
    salt = hashlib.sha256(alt.encode()).hexdigest()[:12]
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    return Picture(_themed(text.getvalue(), alt), alt)


def _themed(svg: str, alt: str) -> str:
    """Matplotlib's SVG, fit to stand inside a page: variables, a title, nothing that leaks out."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # A style sheet inside an inlined picture would apply to the whole page.
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r"; font-family: [^;\"]*", "", svg)
    # Two decimals are enough for a place; what a reader reads stays as it is.
    svg = re.sub(r"<[^>]*>", lambda tag: _rounded(tag.group()), svg)
    svg = re.sub(
        "|".join(_EXCHANGE), lambda found: _EXCHANGE[found.group().lower()], svg, flags=re.I
    )
    # The opening tag, then the alternative text as its first child.
    head, body = svg.split(">", 1)
    head = head.replace("<svg", '<svg role="img" class="phasebit-plot"', 1)
    theme = f"--text:{TEXT};--muted:{MUTED};--faint:{FAINT}"
    head += f' style="{theme};font-family:{FONT};stroke-linejoin:round;background:transparent"'
    lines = [line for line in body.splitlines() if line.strip()]
    return f"{head}>\n<title>{escape(alt)}</title>\n" + "\n".join(lines)


def _rounded(tag: str) -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found.group()):.2f}", tag)


def bars(
    values: Mapping[str, float],
    *,
    x_label: str,
    title: str,
    hues: Mapping[str, str] | None = None,
    show: Callable[[float], str] = lambda value: f"{value:.0f}",
) -> Picture:
    """A bar for each value, in their order, with the value beside it.

    ``hues`` gives some of them another colour of the palette than blue. Raises ``ValueError``
    for a value below zero.
    """
    if min(values.values()) < 0:
        raise ValueError("a bar below zero: give values from zero on")
    figure, axes = _figure(6.2, 0.9 + 0.34 * len(values))
    for row, (name, value) in enumerate(values.items()):
        hue = COLOURS[(hues or {}).get(name, "blue")]
        axes.barh(row, value, height=0.62, color=hue, alpha=0.75)
        axes.annotate(
            show(value), (value, row), (4, 0), textcoords="offset points", va="center",
            color=_TEXT, fontsize=9.5,
        )  # fmt: skip
    axes.set_xlim(0, 1.1 * max(values.values()))
    axes.set_ylim(len(values) - 0.5, -0.5)
    axes.set_yticks(range(len(values)), list(values))
    axes.tick_params(axis="y", length=0, labelcolor=_TEXT)
    _frame(axes, title, x_label)
    lines = "\n".join(f"{name}: {show(value)}" for name, value in values.items())
    return _picture(figure, f"{title}. {x_label}.\n{lines}")


def scatter(
    points: Mapping[str, tuple[float, float]],
    *,
    x_label: str,
    y_label: str,
    title: str,
    name: Collection[str] = (),
) -> Picture:
    """A dot for each thing at (x, y), both axes logarithmic, with the line on which x is y.

    ``name`` are those whose names are written beside their dots; the sentence has all. Raises
    ``ValueError`` for a number that is not positive, and without points.
    """
    numbers = [each for point in points.values() for each in point]
    if not numbers or min(numbers) <= 0:
        raise ValueError("a scatter needs points, and every number of it must be positive")
    figure, axes = _figure(5.2, 4.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = 0.85 * min(numbers), 1.2 * max(numbers)
    axes.plot([low, high], [low, high], color=_MUTED, linewidth=1, linestyle="--")
    for each, (x, y) in points.items():
        axes.plot([x], [y], marker="o", markersize=5, color=COLOURS["blue"], alpha=0.75)
        if each in name:
            right = x < math.sqrt(low * high)
            axes.annotate(
                each, (x, y), (7 if right else -7, -3), textcoords="offset points", color=_TEXT,
                fontsize=9, ha="left" if right else "right",
            )  # fmt: skip
    axes.set_xlim(low, high)
    axes.set_ylim(low, high)
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_minor_locator(_no_ticks())
    _frame(axes, title, x_label, y_label)
    lines = [f"{each}: {x:.3g}, {y:.3g}" for each, (x, y) in points.items()]
    return _picture(figure, f"{title}. {x_label}, {y_label}.\n" + "\n".join(lines))


def _frame(axes: Any, title: str, x_label: str, y_label: str = "") -> None:
    """Title, labels, grid and sides; without a ``y_label`` rows stand there, which need neither."""
    axes.grid(axis="both" if y_label else "x", color=_FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for where, side in axes.spines.items():
        side.set_visible(where == "bottom" or (where == "left" and bool(y_label)))
        side.set_color(_MUTED)
    axes.set_xlabel(x_label)
    if y_label:
        axes.set_ylabel(y_label)
    axes.set_title(title, fontsize=10, color=_TEXT, loc="left")


def _no_ticks() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()
