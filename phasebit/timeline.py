"""Who did what when, drawn: for the simulator, for the emulator, for clock stamps of a GPU.

A ``Timeline`` has rows (workers, slots, warps), spans (something that lasts) and marks
(something that happens). It draws itself twice: as SVG, which follows the page's theme, and
as text, which says the same in a terminal and is what a test compares.

>>> print(Timeline(["warp 0"], [Span("warp 0", 0, 4, "produce", "7")], unit="clock"))
clock   0    5
warp 0  7###
# produce
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import NamedTuple

from phasebit.palette import FAINT, FONT, MUTED, TEXT, colour

Number = int | float


class Span(NamedTuple):
    """Something that lasts: in ``row``, from ``start`` to ``end`` (in the timeline's unit)."""

    row: str
    start: Number
    end: Number
    kind: str
    label: str = ""


class Mark(NamedTuple):
    """Something that happens in ``row`` at one moment; its text is listed below the drawing."""

    row: str
    at: Number
    label: str
    kind: str = "mark"


class Style(NamedTuple):
    """How a kind looks: a colour of the palette, a texture, a character for the text drawing."""

    colour: str
    texture: str
    sign: str


STYLES: dict[str, Style] = {
    "produce": Style("blue", "solid", "#"),
    "consume": Style("orange", "hatch", "="),
    "wait": Style("grey", "line", "."),
    "full": Style("blue", "tint", "o"),
    "signal": Style("grey", "cross", "-"),
    "copy": Style("cyan", "solid", "~"),
    "store": Style("green", "hatch", "%"),
    "bad": Style("red", "solid", "!"),
    "hand-off": Style("green", "solid", "+"),
    "parity 0": Style("pink", "tint", "*"),
    "parity 1": Style("cyan", "tint", "&"),
}
"""Kinds with a fixed look. Any other kind is given one of ``SPARE`` in order of appearance."""

SPARE = (
    Style("pink", "solid", "@"),
    Style("green", "tint", "$"),
    Style("orange", "solid", "?"),
    Style("cyan", "hatch", "/"),
    Style("orange", "tint", "^"),
    Style("pink", "hatch", "_"),
)

RING_LEGEND = {
    "produce": "producing, filling", "consume": "consuming, draining",
    "wait": "waiting", "full": "full", "signal": "hand-off",
}  # fmt: skip
"""What the kinds of span say in a drawing of a ring, simulated or measured."""

# Sizes in CSS pixels. A character of 12 pixels is taken to be 7 wide.
_ROW, _GAP, _GROUP_GAP, _CHARACTER, _AXIS = 20, 4, 8, 7.0, 22
_WIDTH = 760
_LEAST = 0.92
"""A page may make a drawing smaller down to this: letters of 12 pixels become 11."""


@dataclass
class Timeline:
    """Rows from top to bottom, time from left to right, in ``unit``.

    ``legend`` says what a kind means where its name alone does not. ``down=True`` lets time run
    downwards, a column for each row and a line for each step: for short runs whose labels are
    whole sentences. Raises ``ValueError`` for a span in a row that is not listed, or one that
    ends before it starts.
    """

    rows: Sequence[str]
    spans: Sequence[Span]
    marks: Sequence[Mark] = ()
    unit: str = "clock"
    title: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)
    down: bool = False

    def __post_init__(self) -> None:
        self.rows = tuple(self.rows)
        self.spans = tuple(Span(*each) for each in self.spans)
        self.marks = tuple(Mark(*each) for each in self.marks)
        known = set(self.rows)
        if len(known) != len(self.rows):
            raise ValueError(f"rows {list(self.rows)} name a row twice: give each its own name")
        for row in [s.row for s in self.spans] + [m.row for m in self.marks]:
            if row not in known:
                raise ValueError(f"row {row!r} of a span or mark is not in {self.rows}: add it")
        for span in self.spans:
            if not (math.isfinite(span.start) and math.isfinite(span.end)):
                raise ValueError(f"{span} has no finite time: give numbers")
            if span.end < span.start:
                raise ValueError(f"{span} ends before it starts: exchange the two times")

    @property
    def start(self) -> Number:
        """The earliest time drawn, never later than 0 unless everything is."""
        times = [s.start for s in self.spans] + [m.at for m in self.marks]
        return min(times, default=0)

    @property
    def end(self) -> Number:
        """The latest time drawn."""
        times = [s.end for s in self.spans] + [m.at + self.down for m in self.marks]
        return max(times, default=0)

    @property
    def styles(self) -> dict[str, Style]:
        """The look of every kind that occurs, in the order of the legend."""
        kinds = list(dict.fromkeys(s.kind for s in self.spans))
        spare = [kind for kind in kinds if kind not in STYLES]
        look = {kind: STYLES.get(kind) or SPARE[spare.index(kind) % len(SPARE)] for kind in kinds}
        return dict(sorted(look.items(), key=lambda kv: (list(STYLES) + spare).index(kv[0])))

    def svg(self) -> str:
        """The drawing as one ``<svg>`` element, the same text for the same timeline."""
        return _down_svg(self) if self.down else _svg(self)

    def __str__(self) -> str:
        return _down_text(self) if self.down else _text(self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"image/svg+xml": self.svg(), "text/plain": str(self)}


# SVG.


def number(x: Number) -> str:
    """A number in as few characters as a hundredth allows: 12, 3.5, -0.25."""
    return f"{x:.2f}".rstrip("0").rstrip(".").replace("-0", "0" if abs(x) < 0.005 else "-0")


def ticks(start: Number, end: Number, most: int) -> list[Number]:
    """At most ``most`` round numbers (1, 2, 5 times a power of ten) from start to end."""
    length = max(end - start, 1e-9)
    power = 10.0 ** math.floor(math.log10(length / max(most, 1)))
    distance = next(m * power for m in (1, 2, 5, 10, 20) if length / (m * power) <= most)
    if isinstance(start, int) and isinstance(end, int):
        distance = max(1, round(distance))
    first = math.ceil(start / distance - 1e-9)
    last = math.floor(end / distance + 1e-9)
    return [round(k * distance, 10) for k in range(first, last + 1)]


def _groups(rows: Sequence[str]) -> list[list[str]]:
    """Neighbouring rows that differ only in their number."""
    return [list(g) for _, g in groupby(rows, key=lambda row: row.rstrip("0123456789 []"))]


def _open(title: str, width: float, height: float) -> str:
    w, h = number(math.ceil(width)), number(math.ceil(height))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-timeline" '
        f'width="{w}" height="{h}" viewBox="0 0 {w} {h}" '
        f'style="min-width:{number(math.ceil(width * _LEAST))}px;font:12px {FONT};'
        f'background:transparent">\n<title>{escape(title)}</title>\n'
    )


def _svg(t: Timeline) -> str:
    left = max((len(row) for row in t.rows), default=0) * _CHARACTER + 10
    start, length = t.start, max(t.end - t.start, 1e-9)
    scale = _scale(t, length)
    width = left + length * scale + 24

    def x(time: Number) -> float:
        return left + (time - start) * scale

    top: dict[str, float] = {}
    y = float(_AXIS)
    for group in _groups(t.rows):
        for row in group:
            top[row] = y
            y += _ROW + _GAP
        y += _GROUP_GAP
    bottom = y - _GROUP_GAP

    out = []
    marks = ticks(start, t.end, max(2, int(length * scale / 60)))
    grid = "".join(f"M{number(x(m))} {_AXIS - 4}V{number(bottom)}" for m in marks)
    out.append(f'<path d="{grid}" style="stroke:{FAINT};stroke-width:1;fill:none"/>')
    out.append(f'<g style="fill:{MUTED};font-size:11px" text-anchor="middle">')
    out += [f'<text x="{number(x(m))}" y="12">{number(m)}</text>' for m in marks]
    out.append(f'<text x="{number(left - 8)}" y="12" text-anchor="end">{escape(t.unit)}</text></g>')
    out.append(f'<g style="fill:{TEXT}" text-anchor="end">')
    out += [
        f'<text x="{number(left - 8)}" y="{number(y + 14)}">{escape(row)}</text>'
        for row, y in top.items()
    ]
    out.append("</g>")

    for kind, style in t.styles.items():
        boxes = [
            (x(s.start), top[s.row], max((s.end - s.start) * scale, 0.5), float(_ROW), s.label)
            for s in t.spans
            if s.kind == kind
        ]
        out += _boxes(style, boxes)

    if t.marks:
        out.append(f'<g style="fill:{TEXT};stroke:{TEXT}">')
        for n, mark in enumerate(t.marks, 1):
            at, y0 = number(x(mark.at)), top[mark.row]
            out.append(
                f'<path d="M{at} {number(y0 - 2)}v{_ROW + 4}" style="stroke-width:2"/>'
                f'<text x="{number(x(mark.at) + 3)}" y="{number(y0 + 8)}" '
                f'style="stroke:none;font-size:10px;font-weight:bold">{n}</text>'
            )
        out.append("</g>")

    key, width, bottom = _key(t, t.styles, width, bottom + 8)
    out += key
    for n, mark in enumerate(t.marks, 1):
        note = f"{n}  {t.unit} {number(mark.at)}, {mark.row}: {mark.label}"
        bottom += 18
        out.append(f'<text x="0" y="{number(bottom)}" style="fill:{TEXT}">{escape(note)}</text>')
        width = max(width, len(note) * _CHARACTER)
    return _open(_alt(t), width, bottom + 8) + "\n".join(out) + "\n</svg>"


def _scale(t: Timeline, length: Number) -> float:
    """Pixels a unit: enough for the labels when the run is short, the page's width at most."""
    fits = _WIDTH / length
    wanted = [
        (len(s.label) * _CHARACTER + 4) / (s.end - s.start)
        for s in t.spans
        if s.label and s.end > s.start
    ]
    return min(max([14.0, *wanted]), fits) if wanted else min(14.0, fits)


def _boxes(style: Style, boxes: list[tuple[float, float, float, float, str]]) -> list[str]:
    """Rectangles of one kind: (x, y, width, height, label), all in two or three elements."""
    hue = colour(style.colour)
    if style.texture == "line":
        lines = "".join(
            f"M{number(x + 1)} {number(y + h / 2)}h{number(max(w - 2, 0.5))}"
            for x, y, w, h, _ in boxes
        )
        look = f"stroke:{hue};stroke-width:2;stroke-dasharray:2 3;fill:none"
        return [f'<path d="{lines}" style="{look}"/>']
    inset = 1.0 if style.texture == "solid" else 0.5
    edges = "".join(
        f"M{number(x + inset)} {number(y + inset)}h{number(max(w - 2 * inset, 0.5))}"
        f"v{number(h - 2 * inset)}h{number(-max(w - 2 * inset, 0.5))}z"
        for x, y, w, h, _ in boxes
    )
    if style.texture == "solid":
        out = [f'<path d="{edges}" style="fill:{hue}"/>']
        ink = "var(--pb-on-solid, #fff)"
    else:
        solid = {"tint": ".18", "hatch": ".22", "cross": "0"}[style.texture]
        dash = ";stroke-dasharray:2 2" if style.texture == "cross" else ""
        out = [f'<path d="{edges}" style="fill:{hue};fill-opacity:{solid};stroke:{hue}{dash}"/>']
        ink = TEXT
    if style.texture in ("hatch", "cross"):
        strokes = "".join(
            stroke for x, y, w, h, label in boxes for stroke in _strokes(x, y, w, h, label)
        )
        out.append(f'<path d="{strokes}" style="stroke:{hue};stroke-width:1.2;fill:none"/>')
    labels = [
        f'<text x="{number(x + w / 2)}" y="{number(y + h / 2 + 4)}">{escape(label)}</text>'
        for x, y, w, h, label in boxes
        if label and len(label) * _CHARACTER <= w
    ]
    if labels:
        out += [f'<g style="fill:{ink};font-size:11px" text-anchor="middle">', *labels, "</g>"]
    return out


def _strokes(x: float, y: float, w: float, h: float, label: str) -> list[str]:
    """Diagonals across a box, 6 pixels apart, leaving room for the label in its middle."""
    clear = len(label) * _CHARACTER + 2 if label and len(label) * _CHARACTER <= w else 0.0
    left, right = x + w / 2 - clear / 2, x + w / 2 + clear / 2
    strokes = []
    for k in range(1, int((w + h) / 6) + 1):
        # From (x + 6k, y) down to the left, cut to the box.
        x0, x1 = min(x + 6 * k, x + w), max(x + 6 * k - h, x)
        y0, y1 = y + (x + 6 * k - x0), y + (x + 6 * k - x1)
        if x0 - x1 > 0.5 and (x0 <= left or x1 >= right or not clear):
            strokes.append(f"M{number(x0)} {number(y0)}L{number(x1)} {number(y1)}")
    return strokes


def _key(
    t: Timeline, styles: Mapping[str, Style], width: float, y: float
) -> tuple[list[str], float, float]:
    """The legend below the drawing, wrapped to its width: elements, new width, new bottom."""
    out, x = [], 0.0
    for kind, style in styles.items():
        text = t.legend.get(kind, kind)
        needs = 28 + len(text) * _CHARACTER + 16
        if x and x + needs > max(width, 340):
            x, y = 0.0, y + _ROW
        out += _boxes(style, [(x, y, 22.0, 14.0, "")])
        out.append(
            f'<text x="{number(x + 28)}" y="{number(y + 11)}" style="fill:{TEXT}">'
            f"{escape(text)}</text>"
        )
        x += needs
        width = max(width, x)
    return out, width, y + (_ROW if styles else 0)


def _alt(t: Timeline) -> str:
    length = f"{t.unit} {number(t.start)} to {number(t.end)}"
    return f"{t.title or 'Timeline'} ({len(t.rows)} rows, {length})"


# Text.


def _whole(t: Timeline) -> bool:
    times = [time for s in t.spans for time in (s.start, s.end)] + [m.at for m in t.marks]
    return all(float(time).is_integer() for time in times)


def _text(t: Timeline, width: int = 90, most: int = 720) -> str:
    """One character a unit, in blocks of at most ``width``; beyond ``most`` units, scaled."""
    start, end = math.floor(t.start), math.ceil(t.end)
    length = end - start
    exact = _whole(t) and length <= most
    unit = 1.0 if exact else max(t.end - t.start, 1e-9) / width
    columns = length if exact else width
    blocks = max(1, math.ceil(columns / width))
    width = 5 * max(1, math.ceil(columns / blocks / 5))  # blocks of the same width
    styles = t.styles
    lines = {row: [" "] * columns for row in t.rows}
    for span in sorted(t.spans, key=lambda s: styles[s.kind].texture != "line"):
        a = round((span.start - (start if exact else t.start)) / unit)
        b = round((span.end - (start if exact else t.start)) / unit)
        if b == a and not exact:
            b = min(a + 1, columns)
        drawn = list(styles[span.kind].sign * (b - a))
        if len(span.label) <= len(drawn) and len(span.label) < max(len(drawn), 2):
            drawn[: len(span.label)] = span.label
        lines[span.row][a:b] = drawn
    margin = max([len(t.unit), *(len(row) for row in t.rows)]) + 2
    out = [t.title] if t.title else []
    for block in range(0, max(columns, 1), width):
        block_end = min(block + width, columns)
        if block:
            out.append("")
        out.append((t.unit.ljust(margin) + _ruler(t, start, block, block_end, unit)).rstrip())
        out += [
            (row.ljust(margin) + "".join(line[block:block_end])).rstrip()
            for row, line in lines.items()
        ]
    out += [f"{t.unit} {number(m.at)}, {m.row}: {m.label}" for m in t.marks]
    if styles:
        out.append("  ".join(f"{s.sign} {t.legend.get(kind, kind)}" for kind, s in styles.items()))
    if not exact:
        counts = ", ".join(
            f"{t.legend.get(kind, kind)} {sum(s.kind == kind for s in t.spans)}" for kind in styles
        )
        out.append(f"(one column = {number(unit)} {t.unit}; spans: {counts})")
    return "\n".join(out)


def _ruler(t: Timeline, start: int, block: int, block_end: int, unit: float) -> str:
    line = [" "] * (block_end - block + 8)
    if unit == 1.0:
        for column in range(block, block_end + 1):
            if (start + column) % 5 == 0:
                text = str(start + column)
                line[column - block : column - block + len(text)] = text
    else:
        for column in range(0, block_end + 1, 20):
            text = number(t.start + column * unit)
            line[column : column + len(text)] = text
    return "".join(line)


# Time downwards: a column for each row, a line for each step.


def _cells(t: Timeline) -> dict[tuple[int, str], tuple[str, str]]:
    """(step, row) -> (kind, text)."""
    cells = {}
    for span in t.spans:
        for step in range(int(span.start), max(int(span.end), int(span.start) + 1)):
            first = step == int(span.start)
            cells[step, span.row] = (span.kind, span.label if first else "")
    return cells


def _down_text(t: Timeline) -> str:
    cells, styles = _cells(t), t.styles
    steps = range(int(t.start), max(math.ceil(t.end), int(t.start)))
    table = [[t.unit, *t.rows]]
    for step in steps:
        line = [str(step)]
        for row in t.rows:
            kind, text = cells.get((step, row), ("", ""))
            line.append(f"{styles[kind].sign} {text}".rstrip() if kind else "")
        table.append(line)
    widths = [max(len(line[k]) for line in table) for k in range(len(table[0]))]
    out = [t.title] if t.title else []
    out += [
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in table
    ]
    out += [f"{t.unit} {number(m.at)}, {m.row}: {m.label}" for m in t.marks]
    if styles:
        out.append("  ".join(f"{s.sign} {t.legend.get(kind, kind)}" for kind, s in styles.items()))
    return "\n".join(out)


def _gaps(taken: Sequence[bool], line: int) -> list[tuple[int, int]]:
    """Top and bottom of the stretches of a column that no box covers, in pixels."""
    gaps: list[tuple[int, int]] = []
    for k, box in enumerate(taken):
        top, end = _AXIS + k * line + (_ROW if box else 0), _AXIS + (k + 1) * line
        if gaps and gaps[-1][1] == top:
            gaps[-1] = gaps[-1][0], end
        else:
            gaps.append((top, end))
    return gaps


def _down_svg(t: Timeline) -> str:
    cells = _cells(t)
    styles = {  # a sentence reads better on a plain ground
        kind: style if style.texture == "solid" else style._replace(texture="tint")
        for kind, style in t.styles.items()
    }
    steps = range(int(t.start), max(math.ceil(t.end), int(t.start)))
    left = max(len(t.unit), len(str(steps.stop))) * _CHARACTER + 10
    column: dict[str, tuple[float, float]] = {}
    x = left
    for row in t.rows:
        texts = [row, *(text for (_, r), (_, text) in cells.items() if r == row)]
        wide = max(len(text) for text in texts) * _CHARACTER + 14
        column[row] = x, wide
        x += wide + 10
    width, line = x, _ROW + 6
    out = [f'<g style="fill:{MUTED};font-size:11px" text-anchor="end">']
    out.append(f'<text x="{number(left - 8)}" y="14">{escape(t.unit)}</text>')
    out += [
        f'<text x="{number(left - 8)}" y="{number(_AXIS + k * line + 15)}">{step}</text>'
        for k, step in enumerate(steps)
    ]
    out.append(f'</g>\n<g style="fill:{TEXT}" text-anchor="middle">')
    out += [
        f'<text x="{number(x + w / 2)}" y="14" style="font-weight:bold">{escape(row)}</text>'
        for row, (x, w) in column.items()
    ]
    out.append("</g>")
    bottom = _AXIS + len(steps) * line
    rails = "".join(  # in the gaps only: a box that lets the page through has no line in it
        f"M{number(x + w / 2)} {top}V{end}"
        for row, (x, w) in column.items()
        for top, end in _gaps([(k, row) in cells for k in steps], line)
    )
    out.append(f'<path d="{rails}" style="stroke:{FAINT};fill:none"/>')
    for kind, style in styles.items():
        out += _boxes(
            style,
            [
                (column[row][0], float(_AXIS + (step - steps.start) * line), column[row][1],
                 float(_ROW), text)
                for (step, row), (k, text) in cells.items()
                if k == kind
            ],
        )
    y = float(bottom + 8)
    for mark in t.marks:
        note = f"{t.unit} {number(mark.at)}, {mark.row}: {mark.label}"
        out.append(
            f'<text x="0" y="{number(y + 12)}" style="fill:{colour("red")};font-weight:bold">'
            f"{escape(note)}</text>"
        )
        width = max(width, len(note) * (_CHARACTER + 0.5))
        y += 18
    key, width, y = _key(t, styles, width, y)
    return _open(_alt(t), width, y + 4) + "\n".join(out + key) + "\n</svg>"
