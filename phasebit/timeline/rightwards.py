"""A timeline whose time runs to the right, a bar for each row.

A narrow one has the names of the rows above their bars, so that all of it fits on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

from phasebit.letters import width
from phasebit.palette import FAINT, MUTED, TEXT
from phasebit.timeline.pieces import LINE, PAGE, ROW, Box, Places, boxes, drawing, key, notes
from phasebit.timeline.spans import Number, number, ticks
from phasebit.two_widths import NARROW

if TYPE_CHECKING:
    from phasebit.timeline import Timeline

_GAP, _GROUP_GAP, _APART = 4.0, 8.0, 4.0
_LARGEST = 14.0
"""Pixels of a unit, but where a label needs more."""


def _groups(rows: Sequence[str]) -> list[list[str]]:
    """Neighbouring rows that differ only in their number."""
    return [list(g) for _, g in groupby(rows, key=lambda row: row.rstrip("0123456789 []"))]


def svg(t: Timeline, narrow: bool) -> str:
    """The drawing."""
    most = NARROW if narrow else PAGE
    left = 8.0 if narrow else max([*map(width, (t.unit, *t.rows))], default=0) + 10
    right = 12.0 if narrow else 24.0
    start, length = t.start, max(t.end - t.start, 1e-9)
    scale = _scale(t, length, most - left - right)
    across = left + length * scale + right

    def x(time: Number) -> float:
        return left + (time - start) * scale

    head = 2 * LINE if narrow else LINE
    top: dict[str, float] = {}
    y = head + 7
    for group in _groups(t.rows):
        for row in group:
            y += LINE if narrow else 0
            top[row] = y
            y += ROW + _GAP
        y += _GROUP_GAP
    bottom = y - _GROUP_GAP

    out = []
    marks = ticks(start, t.end, max(2, int(length * scale / 60)))
    grid = "".join(f"M{number(x(m))} {number(head + 3)}V{number(bottom)}" for m in marks)
    out.append(f'<path d="{grid}" style="stroke:{FAINT};stroke-width:1;fill:none"/>')
    out.append(f'<g style="fill:{MUTED}" text-anchor="middle">')
    free = 0.0 if narrow else left - _APART  # the unit stands before it, or above on a phone
    out += [_tick(number(m), x(m), free, across, head - 3) for m in marks]
    anchor, names, below = ("start", 0.0, -4.0) if narrow else ("end", left - 8, 14.0)
    unit = f'<text x="{number(names)}" y="12" text-anchor="{anchor}">{escape(t.unit)}</text>'
    out += [f"{unit}</g>", f'<g style="fill:{TEXT}" text-anchor="{anchor}">']
    out += [
        f'<text x="{number(names)}" y="{number(y + below)}">{escape(row)}</text>'
        for row, y in top.items()
    ]
    out.append("</g>")

    for kind, style in t.styles.items():
        out += boxes(style, [
            Box(x(s.start), top[s.row], max((s.end - s.start) * scale, 0.5), ROW, s.label)
            for s in t.spans if s.kind == kind
        ])  # fmt: skip

    if t.marks:
        out.append(f'<g style="fill:{TEXT};stroke:{TEXT}">')
        for n, mark in enumerate(t.marks, 1):
            at, y0 = number(x(mark.at)), top[mark.row]
            # Before its line where the next mark of the row is too near for a number between.
            near = any(m.row == mark.row and 0 < x(m.at) - x(mark.at) < 5 + width(str(n))
                       for m in t.marks)  # fmt: skip
            aside, anchored = (-3, ";text-anchor:end") if near else (3, "")
            out.append(
                f'<path d="M{at} {number(y0 - 2)}v{number(ROW + 4)}" style="stroke-width:2"/>'
                f'<text x="{number(x(mark.at) + aside)}" y="{number(y0 + 9)}" '
                f'style="stroke:none;font-weight:bold{anchored}">{n}</text>'
            )
        out.append("</g>")

    legend, legend_width, low = key(t.legend, t.styles, bottom + 8, most)
    texts = [f"{n}  {t.unit} {number(mark.at)}, {mark.row}: {mark.label}"
             for n, mark in enumerate(t.marks, 1)]  # fmt: skip
    told, told_width, low = notes(texts, low, most, f"fill:{TEXT}")
    places = Places(
        [(start, left), (start + length, x(start + length))],
        [(top[row], ROW) for row in t.rows], (head + 1, bottom),
    )  # fmt: skip
    across = max(across, legend_width, told_width)
    return drawing(t, places, across, low + 6, [*out, *legend, *told], narrow)


def _tick(text: str, x: float, free: float, across: float, y: float) -> str:
    """The number of a tick, which begins where there is room and does not leave the drawing."""
    half = width(text) / 2
    at = min(max(x, free + half), across - half)
    return f'<text x="{number(at)}" y="{number(y)}">{text}</text>'


def _scale(t: Timeline, length: Number, room: float) -> float:
    """Pixels a unit: enough for the labels when the run is short, all of the room at most."""
    fits = room / length
    wanted = [(width(s.label) + 4) / (s.end - s.start)
              for s in t.spans if s.label and s.end > s.start]  # fmt: skip
    return min(max([_LARGEST, *wanted]), fits)


__all__ = ["svg"]
