"""What both drawings of a timeline are put together from: boxes, the legend, the head.

Sizes are in CSS pixels.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from phasebit.letters import width, wrap
from phasebit.palette import FONT, TEXT, colour
from phasebit.timeline.spans import Number, Span, Style, number

if TYPE_CHECKING:
    from phasebit.timeline import Timeline

PAGE = 800.0
"""A drawing is not wider: then a page at a desk need not make it smaller."""
ROW, LINE = 20.0, 15.0
"""Height of a row; of a line of text."""
LEAST = 0.92
"""A page may make a drawing smaller down to this: letters of 12 pixels become 11."""


class Box(NamedTuple):
    """A rectangle with a text, whose lines are parted by line ends."""

    x: float
    y: float
    width: float
    height: float
    label: str = ""


def boxes(style: Style, drawn: Sequence[Box]) -> list[str]:
    """Rectangles of one kind, all in two or three elements; a label that does not fit is left out.
    """
    hue = colour(style.colour)
    if style.texture == "line":
        lines = "".join(
            f"M{number(x + 1)} {number(y + h / 2)}h{number(max(w - 2, 0.5))}"
            for x, y, w, h, _ in drawn
        )
        look = f"stroke:{hue};stroke-width:2;stroke-dasharray:2 3;fill:none"
        return [f'<path d="{lines}" style="{look}"/>']
    inset = 1.0 if style.texture == "solid" else 0.5
    edges = "".join(
        f"M{number(x + inset)} {number(y + inset)}h{number(max(w - 2 * inset, 0.5))}"
        f"v{number(h - 2 * inset)}h{number(-max(w - 2 * inset, 0.5))}z"
        for x, y, w, h, _ in drawn
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
        strokes = "".join(stroke for box in drawn for stroke in _strokes(box))
        out.append(f'<path d="{strokes}" style="stroke:{hue};stroke-width:1.2;fill:none"/>')
    labels = [
        f'<text x="{number(x + w / 2)}" y="{number(middle + k * LINE)}">{escape(line)}</text>'
        for x, y, w, h, label in drawn
        if label and _fits(label, w)
        for middle in [y + h / 2 + 4 - label.count("\n") / 2 * LINE]
        for k, line in enumerate(label.split("\n"))
    ]
    if labels:
        out += [f'<g style="fill:{ink}" text-anchor="middle">', *labels, "</g>"]
    return out


def _fits(label: str, wide: float) -> bool:
    """Whether letters of a label stand inside a box, and do not touch its sides."""
    return max(map(width, label.split("\n"))) <= wide - 1.5


def _strokes(box: Box) -> list[str]:
    """Diagonals across a box, 6 pixels apart, leaving room for the label in its middle."""
    x, y, w, h, label = box
    clear = width(label) + 2 if label and _fits(label, w) else 0.0
    left, right = x + w / 2 - clear / 2, x + w / 2 + clear / 2
    strokes = []
    for k in range(1, int((w + h) / 6) + 1):
        # From (x + 6k, y) down to the left, cut to the box.
        x0, x1 = min(x + 6 * k, x + w), max(x + 6 * k - h, x)
        y0, y1 = y + (x + 6 * k - x0), y + (x + 6 * k - x1)
        if x0 - x1 > 0.5 and (x0 <= left or x1 >= right or not clear):
            strokes.append(f"M{number(x0)} {number(y0)}L{number(x1)} {number(y1)}")
    return strokes


def key(
    legend: Mapping[str, str], styles: Mapping[str, Style], y: float, most: float
) -> tuple[list[str], float, float]:
    """The legend, wrapped where it would be wider than ``most``: elements, width, bottom."""
    out, x, across = [], 0.0, 0.0
    for kind, style in styles.items():
        text = legend.get(kind, kind)
        needs = 28 + width(text)
        if x and x + needs > most:
            x, y = 0.0, y + ROW
        out += boxes(style, [Box(x, y, 22.0, 14.0)])
        out.append(
            f'<text x="{number(x + 28)}" y="{number(y + 11)}" style="fill:{TEXT}">'
            f"{escape(text)}</text>"
        )
        across = max(across, x + needs)
        x += needs + 18
    return out, across, y + (ROW if styles else 0)


def notes(texts: Iterable[str], y: float, most: float, look: str) -> tuple[list[str], float, float]:
    """Sentences, one below the other: elements, their width, their bottom."""
    out, across = [], 0.0
    for text in texts:
        for line in wrap(text, most):
            y += LINE
            out.append(f'<text x="0" y="{number(y)}" style="{look}">{escape(line)}</text>')
            across = max(across, width(line))
        y += 3
    return out, across, y


class Places(NamedTuple):
    """Where a drawing has what: the page's cursor is drawn by it.

    ``time``: moments and their places, in order; between two of them time runs evenly. ``rows``:
    of each row its place across time and its size. ``ends``: from where to where a cursor goes.
    """

    time: Sequence[tuple[Number, float]]
    rows: Sequence[tuple[float, float]]
    ends: tuple[float, float]


def drawing(
    t: Timeline, places: Places, wide: float, high: float, body: Sequence[str], narrow: bool
) -> str:
    """The ``<svg>`` element, with what a page needs to answer questions about it."""
    w, h = number(math.ceil(wide)), number(math.ceil(high))
    length = f"{t.unit} {number(t.start)} to {number(t.end)}"
    title = f"{t.title or 'Timeline'} ({len(t.rows)} rows, {length})"
    told = "" if narrow else f" data-told='{_json(told_of(t))}'"
    least = 0 if narrow else math.ceil(wide * LEAST)
    where = {
        "down": t.down, "time": [[_short(a), _short(b)] for a, b in places.time],
        "rows": [[*map(_short, row)] for row in places.rows], "ends": [*map(_short, places.ends)],
    }  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-timeline" '
        f'width="{w}" height="{h}" viewBox="0 0 {w} {h}"{told} data-places=\'{_json(where)}\' '
        f'style="min-width:{least}px;font:12px {FONT};background:transparent">\n'
        f"<title>{escape(title)}</title>\n" + "\n".join(body) + "\n</svg>"
    )


def told_of(t: Timeline) -> dict[str, object]:
    """What a timeline says, for the page: unit, rows, what kinds mean, spans by their numbers."""
    kinds = [*t.styles]
    rows = {row: number for number, row in enumerate(t.rows)}
    spans = [
        [rows[s.row], _short(s.start), _short(s.end), kinds.index(s.kind), s.label]
        + [s.waits_for] * bool(s.waits_for)
        for s in (_joined(t.spans) if t.down else t.spans)
        if s.end > s.start
    ]
    return {"unit": t.unit, "rows": [*t.rows], "kinds": [[k, t.legend.get(k, k)] for k in kinds],
            "quiet": [rows[row] for row in t.quiet], "spans": spans}  # fmt: skip


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Spans whose steps were drawn one by one: those that go on without a label as one."""
    found: list[Span] = []
    last: dict[str, int] = {}
    for span in sorted(spans, key=lambda s: s.start):
        before = found[last[span.row]] if span.row in last else None
        if before and not span.label and (before.end, before.kind) == (span.start, span.kind):
            found[last[span.row]] = before._replace(end=span.end)
        else:
            last[span.row] = len(found)
            found.append(span)
    return found


def _short(x: Number) -> Number:
    """A number to a hundredth, a whole one as a whole one."""
    return int(x) if float(x).is_integer() else round(x, 2)


def _json(given: object) -> str:
    """JSON for an attribute between apostrophes."""
    text = json.dumps(given, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;")
