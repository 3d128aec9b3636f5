"""A timeline whose time runs downwards, a column for each row and a line for each step.

For short runs whose labels are whole sentences. A narrow one has thin columns, and beside them what
was done in each step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from phasebit.letters import columns, width, wrap
from phasebit.palette import FAINT, MUTED, TEXT, colour
from phasebit.timeline.pieces import LINE, PAGE, ROW, Box, Places, boxes, drawing, key, notes
from phasebit.timeline.spans import Style, number
from phasebit.two_widths import NARROW

if TYPE_CHECKING:
    from phasebit.timeline import Timeline

_GAP, _INSIDE, _BETWEEN = 6.0, 14.0, 10.0
_THIN = 15.0


def cells(t: Timeline) -> dict[tuple[int, str], tuple[str, str]]:
    """(step, row) -> (kind, text)."""
    found = {}
    for span in t.spans:
        for step in range(int(span.start), max(int(span.end), int(span.start) + 1)):
            first = step == int(span.start)
            found[step, span.row] = (span.kind, span.label if first else "")
    return found


def steps(t: Timeline) -> range:
    """The steps that are drawn."""
    return range(int(t.start), max(math.ceil(t.end), int(t.start)))


def svg(t: Timeline, narrow: bool) -> str:
    """The drawing."""
    return _thin(t) if narrow else _wide(t)


def _columns(t: Timeline, room: float) -> dict[str, float]:
    """How wide each column must be; the widest are cut where all would not fit."""
    texts: dict[str, list[str]] = {row: [row] for row in t.rows}
    for (_, row), (_, text) in cells(t).items():
        texts[row].append(text)
    wide = columns([*texts.values()], room - _BETWEEN * len(texts), _INSIDE)
    return dict(zip(texts, wide, strict=True))


def _wide(t: Timeline) -> str:
    styles, drawn = _looks(t), cells(t)
    left = max(map(width, (t.unit, str(steps(t).stop)))) + 10
    x, column = left, {}
    for row, wide in _columns(t, PAGE - left).items():
        column[row] = x, wide
        x += wide + _BETWEEN
    lines = {place: wrap(text, column[place[1]][1] - _INSIDE) for place, (_, text) in drawn.items()}
    tops = [22.0]
    for step in steps(t):
        most = max((len(lines[step, row]) for row in t.rows if (step, row) in lines), default=1)
        tops.append(tops[-1] + ROW + (most - 1) * LINE + _GAP)
    out = [_numbers(t, tops, left)]
    out.append(f'<g style="fill:{TEXT}" text-anchor="middle">')
    out += [
        f'<text x="{number(at + wide / 2)}" y="14" style="font-weight:bold">{escape(row)}</text>'
        for row, (at, wide) in column.items()
    ]
    out.append("</g>")
    rails = "".join(  # in the gaps only: a box that lets the page through has no line in it
        f"M{number(at + wide / 2)} {number(top)}V{number(end)}"
        for row, (at, wide) in column.items()
        for top, end in _gaps(tops, [(step, row) in drawn for step in steps(t)])
    )
    out.append(f'<path d="{rails}" style="stroke:{FAINT};fill:none"/>')
    for kind, style in styles.items():
        out += boxes(style, [
            Box(column[row][0], tops[step - steps(t).start], column[row][1],
                tops[step - steps(t).start + 1] - tops[step - steps(t).start] - _GAP,
                "\n".join(lines[step, row]))
            for (step, row), (k, _) in drawn.items() if k == kind
        ])  # fmt: skip
    places = [column[row] for row in t.rows]
    return _closed(t, tops, places, x, PAGE, out, narrow=False)


def _thin(t: Timeline) -> str:
    styles, drawn = _looks(t), cells(t)
    left = max(map(width, (t.unit, str(steps(t).stop)))) + 6
    at = {row: left + k * _THIN for k, row in enumerate(t.rows)}
    words = left + len(t.rows) * _THIN + 6
    head = max(map(width, t.rows), default=0) + 6
    lines = {step: [line for text in _done(t, step) for line in wrap(text, NARROW - words)]
             for step in steps(t)}  # fmt: skip
    tops = [head]
    for step in steps(t):
        tops.append(tops[-1] + max(len(lines[step]), 1) * LINE + 4)
    out = [_numbers(t, tops, left, head - 4)]
    out.append(f'<g style="fill:{TEXT}">')
    for row, x in at.items():
        turned = f"rotate(-90 {number(x + 11)} {number(head - 4)})"
        out.append(f'<text x="{number(x + 11)}" y="{number(head - 4)}" transform="{turned}">'
                   f"{escape(row)}</text>")  # fmt: skip
    for step, top in zip(steps(t), tops, strict=False):
        out += [f'<text x="{number(words)}" y="{number(top + k * LINE + 12)}">{escape(line)}</text>'
                for k, line in enumerate(lines[step])]  # fmt: skip
    out.append("</g>")
    for kind, style in styles.items():
        out += boxes(style, [
            Box(at[row] + 1, top, _THIN - 2, low - top - 2)
            for step, (top, low) in zip(steps(t), pairwise(tops), strict=True) for row in t.rows
            if drawn.get((step, row), ("",))[0] == kind
        ])  # fmt: skip
    places = [(x, _THIN) for x in at.values()]
    return _closed(t, tops, places, NARROW, NARROW, out, narrow=True)


def _done(t: Timeline, step: int) -> Iterator[str]:
    """What is done in a step, in words: not who waits, nor what slots and barriers hold."""
    for span in t.spans:
        now = int(span.start) == step and span.label
        if now and span.row not in t.quiet and span.kind != "wait":
            yield f"{span.row}: {span.label}"


def _looks(t: Timeline) -> dict[str, Style]:
    """A sentence reads better on a plain ground."""
    return {
        kind: style if style.texture == "solid" else style._replace(texture="tint")
        for kind, style in t.styles.items()
    }


def _numbers(t: Timeline, tops: Sequence[float], left: float, head: float = 14.0) -> str:
    """The numbers of the steps, and what they count."""
    texts = "".join(
        f'<text x="{number(left - 8)}" y="{number(top + 14)}">{step}</text>'
        for step, top in zip(steps(t), tops, strict=False)
    )
    unit = f'<text x="{number(left - 8)}" y="{number(head)}">{escape(t.unit)}</text>'
    return f'<g style="fill:{MUTED}" text-anchor="end">{unit}{texts}</g>'


def _gaps(tops: Sequence[float], taken: Sequence[bool]) -> list[tuple[float, float]]:
    """Top and bottom of the stretches of a column that no box covers."""
    gaps: list[tuple[float, float]] = []
    for (top, low), box in zip(pairwise(tops), taken, strict=True):
        begin = low - _GAP if box else top
        if gaps and gaps[-1][1] == begin:
            gaps[-1] = gaps[-1][0], low
        else:
            gaps.append((begin, low))
    return gaps


def _closed(
    t: Timeline, tops: Sequence[float], places: Sequence[tuple[float, float]], wide: float,
    most: float, out: list[str], narrow: bool,
) -> str:  # fmt: skip
    """The drawing with what stands below it."""
    texts = [f"{t.unit} {number(mark.at)}, {mark.row}: {mark.label}" for mark in t.marks]
    look = f"fill:{colour('red')};font-weight:bold"
    told, told_width, low = notes(texts, tops[-1] + 4, most - 10, look)
    legend, legend_width, low = key(t.legend, _looks(t), low + 8, most)
    first = steps(t).start
    where = Places([(first + k, top) for k, top in enumerate(tops)], places,
                   (0, places[-1][0] + places[-1][1] if places else 0))  # fmt: skip
    across = max(wide, legend_width, 1.08 * told_width)  # bold is wider
    return drawing(t, where, across, low + 4, [*out, *told, *legend], narrow)


__all__ = ["cells", "steps", "svg"]
