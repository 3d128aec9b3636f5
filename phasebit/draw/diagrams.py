"""Boxes and arrows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Literal, NamedTuple

from phasebit import two_widths
from phasebit.draw.picture import Picture
from phasebit.letters import width, wrap
from phasebit.palette import FONT, TEXT, colour


class Node(NamedTuple):
    """A box of a diagram: its text, its centre in pixels, a colour of the palette.

    The text may have several lines. ``of`` says what it is a state of; the diagram writes that to
    the left of the boxes.
    """

    text: str
    x: float
    y: float
    hue: str = "grey"
    of: str = ""


class Arrow(NamedTuple):
    """From node to node, with a label; ``bend`` moves its middle to the left, in pixels.

    An arrow from a node to itself is a loop above it (below for a negative bend). ``hue``: a colour
    of the palette, for an arrow that shall be seen first.
    """

    start: str
    end: str
    label: str = ""
    bend: float = 0.0
    hue: str = ""


def diagram(
    nodes: Mapping[str, Node],
    arrows: Sequence[Arrow],
    *,
    title: str,
    narrow: Literal["turned", "listed"] | tuple[Mapping[str, Node], Sequence[Arrow]] = "turned",
    scale: float = 1.0,
) -> Picture:
    """Boxes and arrows: a state machine, a graph of what waits for what.

    On a narrow screen it stays as it is where it fits. Else it is ``turned``: what stood in a row
    stands in a column. Or it is
    ``listed``: its boxes stand one below the other, in the order of ``nodes``, and arrows go round
    on their left. Or it has boxes and arrows of its own, in 340 px. ``scale``: how much larger the
    wide drawing is shown. Raises ``ValueError`` for an arrow that names no node, and for boxes of
    its own that need more room.
    """
    own = narrow if isinstance(narrow, tuple) else ({}, ())
    for boxes, lines in ((nodes, arrows), own):
        for arrow in lines:
            for name in (arrow.start, arrow.end):
                if name not in boxes:
                    raise ValueError(f"{arrow} names no node: give one of {', '.join(boxes)}")
    names = {name: node.text.replace("\n", " ") for name, node in nodes.items()}
    whose = {name: f"{node.of}: " if node.of else "" for name, node in nodes.items()}
    alt = f"{title}.\n" + "\n".join(
        f"{whose[a.start]}{names[a.start]} → {names[a.end]}" + (f": {a.label}" if a.label else "")
        for a in arrows
    )
    wide = _Drawing(nodes, arrows)
    if narrow == "listed":
        return Picture(wide.svg(alt, scale), alt, _List(nodes, arrows).svg(alt))
    if isinstance(narrow, tuple):
        drawing = _Drawing(*narrow)
        if drawing.across > two_widths.NARROW:
            raise ValueError(f"the narrow drawing is {drawing.across:.0f} px wide: a phone has 340")
        return Picture(wide.svg(alt, scale), alt, drawing.svg(alt))
    if wide.across <= two_widths.NARROW:
        return Picture(wide.svg(alt, scale), alt, wide.svg(alt))
    return Picture(wide.svg(alt, scale), alt, _Drawing(_turned(nodes), arrows, down=True).svg(alt))


def crossed(arrow: Arrow, nodes: Mapping[str, Node]) -> list[str]:
    """The boxes that an arrow between two others passes through, or all but touches."""
    points = _curved(arrow, nodes[arrow.start], nodes[arrow.end])
    shares = [(1 - t, t) for t in (step / 60 for step in range(61))]
    path = [
        [u * u * a + 2 * u * t * m + t * t * b for a, m, b in zip(*points, strict=True)]
        for u, t in shares
    ]
    return [
        name for name, node in nodes.items() if name not in (arrow.start, arrow.end)
        and any(abs(x - node.x) < _box_width(node) / 2 + _CLEAR
                and abs(y - node.y) < _box_height(node) / 2 + _CLEAR for x, y in path)
    ]  # fmt: skip


def _turned(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The same boxes with their rows as columns, as near to each other as they may be."""
    columns = sorted({round(node.y) for node in nodes.values()})
    rows = sorted({round(node.x) for node in nodes.values()})
    across = two_widths.NARROW / len(columns)
    return {
        name: node._replace(
            x=(columns.index(round(node.y)) + 0.46) * across, y=_DOWN * rows.index(round(node.x))
        )
        for name, node in nodes.items()
    }


_DOWN = 68.0
"""Pixels from one row of a turned diagram to the next."""


class _Drawing:
    """One drawing; ``down``: of a diagram that was turned."""

    def __init__(self, nodes: Mapping[str, Node], arrows: Sequence[Arrow], down: bool = False):
        self.down = down
        self.nodes, self.arrows = nodes, arrows
        self.hue = ""  # of the arrow that is drawn
        self.room = 0.0  # pixels of a column of a turned diagram
        self.boxes: list[str] = []
        self.lines: list[str] = []
        self.edge = [0.0, 0.0, 0.0, 0.0]  # left, top, right, bottom of all that is drawn
        if down:
            self.room = two_widths.NARROW / len({node.x for node in nodes.values()} or {0})
            self.edge[2] = two_widths.NARROW
        for each in nodes.values():
            self.box(each)
        self.headings(nodes)
        for arrow in arrows:
            a, b = nodes[arrow.start], nodes[arrow.end]
            self.hue = arrow.hue
            draw = self.loop if a is b else self.beside if down else self.arrow
            draw(arrow, a, b)

    def reach(self, x: float, y: float, wide: float = 0.0, high: float = 0.0) -> None:
        edge = self.edge
        edge[0], edge[2] = min(edge[0], x - wide / 2), max(edge[2], x + wide / 2)
        edge[1], edge[3] = min(edge[1], y - high / 2), max(edge[3], y + high / 2)

    def text(
        self, x: float, y: float, text: str, anchor: str = "middle", bold: bool = False
    ) -> None:
        look = f"fill:{TEXT}" + (";font-weight:bold" if bold else "")
        self.lines.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="{look}">{escape(text)}</text>'
        )
        long = width(text) * (1.1 if bold else 1)
        middle = {"middle": x, "start": x + long / 2, "end": x - long / 2}[anchor]
        self.reach(middle, y - 4, long + 4, 18)

    def width_of(self, node: Node) -> float:
        return _box_width(node)

    def box(self, each: Node) -> None:
        wide, high = self.width_of(each), _box_height(each)
        self.reach(each.x, each.y, wide + 4, high + 6)
        first, *others = each.text.split("\n")
        words = escape(first) + "".join(
            f' <tspan x="{each.x:g}" dy="{_LINE}">{escape(line)}</tspan>' for line in others
        )
        self.boxes.append(
            f'<rect x="{each.x - wide / 2:g}" y="{each.y - high / 2:g}" width="{wide:g}" '
            f'height="{high:g}" rx="6" style="fill:{colour(each.hue)};fill-opacity:.16;'
            f'stroke:{colour(each.hue)};stroke-width:1.5"/><text x="{each.x:g}" '
            f'y="{each.y + 4 - _LINE / 2 * len(others):g}" text-anchor="middle" '
            f'style="fill:{TEXT}">{words}</text>'
        )

    def headings(self, nodes: Mapping[str, Node]) -> None:
        """What the boxes are states of: left of a row, above a column."""
        left, top = self.edge[0] - 12, self.edge[1] - 8
        places = {(node.of, node.x if self.down else node.y) for node in nodes.values() if node.of}
        for name, place in sorted(places):
            if self.down:
                self.text(place, top, name, bold=True)
            else:
                self.text(left, place + 4, name, "end", bold=True)

    def curve(self, path: str, before: tuple[float, float], tip: tuple[float, float]) -> None:
        ink, wide = (colour(self.hue), 2.5) if self.hue else (TEXT, 1.3)
        self.lines.append(
            f'<path d="{path} {tip[0]:g} {tip[1]:g}" '
            f'style="fill:none;stroke:{ink};stroke-width:{wide}"/>{_head(before, tip, ink)}'
        )

    def loop(self, arrow: Arrow, a: Node, b: Node) -> None:
        """From a box to itself: above it, or below it for a negative bend."""
        if self.down:  # on its right
            x, end = a.x + _box_width(a) / 2 + 2, (a.x + _box_width(a) / 2 + 2, a.y + 7)
            self.curve(f"M{x:g} {a.y - 7:g}C{x + 44:g} {a.y - 26:g} {x + 44:g} {a.y + 26:g}",
                       (x + 16, a.y + 14), end)  # fmt: skip
            for k, line in enumerate(_lines(arrow.label, self.edge[2] - x - 38)):
                self.text(x + 38, a.y + 14 * k, line, "start")
            return
        up = -1.0 if arrow.bend >= 0 else 1.0
        first, last = (a.x - 12, a.y + 14 * up), (a.x + 12, a.y + 14 * up)
        top = a.y + 62 * up
        path = f"M{first[0]:g} {first[1]:g}C{a.x - 34:g} {top:g} {a.x + 34:g} {top:g}"
        self.curve(path, (a.x + 18, last[1] + 12 * up), last)
        self.text(a.x, a.y + 50 * up + (-6 if up < 0 else 14), arrow.label)

    def arrow(self, arrow: Arrow, a: Node, b: Node) -> None:
        first, middle, last = _curved(arrow, a, b)
        self.curve(f"M{first[0]:g} {first[1]:g}Q{middle[0]:g} {middle[1]:g}", middle, last)
        at = (
            first[0] / 4 + middle[0] / 2 + last[0] / 4,
            first[1] / 4 + middle[1] / 2 + last[1] / 4 + (16 if middle[1] > a.y else -7),
        )
        if not arrow.bend and abs(b.y - a.y) > 2 * abs(b.x - a.x):  # steep: beside the line
            at = (at[0] + len(arrow.label) * 3.2 + 8, (first[1] + last[1]) / 2 + 4)
        elif not arrow.bend and a.y != b.y:  # aslant: beside it too, and not across it
            side, aside = (1 if b.y > a.y else -1), width(arrow.label) / 2 + 6
            places = [(at[0] + one * aside, _beside_slope(first, last, one))
                      for one in (side, -side)]  # fmt: skip
            at = next((place for place in places if self.free(place, arrow)), places[0])
        else:  # a bow: beyond its top
            long, half = math.hypot(b.x - a.x, b.y - a.y), width(arrow.label) / 2
            out = math.copysign(1.0, arrow.bend)
            aside, up = out * (b.y - a.y) / long, -out * (b.x - a.x) / long
            far = abs(aside) * half + abs(up) * 6 + 5
            top = [f / 4 + m / 2 + t / 4 for f, m, t in zip(first, middle, last, strict=True)]
            at = (top[0] + far * aside, top[1] + far * up + 4)
        self.reach(*((a + 2 * m + b) / 4 for a, m, b in zip(first, middle, last, strict=True)))
        if arrow.label:
            self.text(*at, arrow.label)

    def free(self, at: tuple[float, float], arrow: Arrow) -> bool:
        """Whether no other arrow, and no box, is where an arrow's label would stand."""
        half = width(arrow.label) / 2
        left, right, top, bottom = at[0] - half, at[0] + half, at[1] - 9, at[1] + 3
        for node in self.nodes.values():
            if (abs(node.x - at[0]) < _box_width(node) / 2 + half
                    and abs(node.y - at[1] + 3) < _box_height(node) / 2 + 6):  # fmt: skip
                return False
        for other in self.arrows:
            if other != arrow and other.start != other.end:
                points = _curved(other, self.nodes[other.start], self.nodes[other.end])
                for t in (step / 60 for step in range(61)):
                    u = 1 - t
                    x, y = (u * u * p + 2 * u * t * q + t * t * r
                            for p, q, r in zip(*points, strict=True))  # fmt: skip
                    if left < x < right and top < y < bottom:
                        return False
        return True

    def straight(self, x: float, y: float) -> bool:
        """Whether an arrow to the next box of a column passes a point of the column's middle."""
        ends = ((self.nodes[one.start], self.nodes[one.end]) for one in self.arrows)
        return any(
            one.x == other.x == x and abs(one.y - other.y) == _DOWN
            and min(one.y, other.y) < y < max(one.y, other.y)
            for one, other in ends
        )  # fmt: skip

    def beside(self, arrow: Arrow, a: Node, b: Node) -> None:
        """Of a turned diagram: what goes on is straight, its label on the right; what goes back, or
        past other boxes, goes round on the left."""
        rows = round((b.y - a.y) / _DOWN)
        if a.x == b.x and (abs(rows) > 1 or arrow.bend < 0):
            sides = [one.x - _box_width(one) / 2 - 2 for one in (a, b)]
            out = min(sides) - (9 if rows < 0 else 16)
            path = f"M{sides[0]:g} {a.y:g}C{out:g} {a.y:g} {out:g} {b.y:g}"
            self.curve(path, (sides[1] - 10, b.y), (sides[1], b.y))
            self.reach(out, a.y)
            if rows < 0:  # below the box where it begins
                at, anchor, room = (a.x, a.y + 26), "middle", self.room
            else:
                y = a.y + _DOWN / 2
                begin = _nearest(sides, out, (a.y, b.y), y) + 3
                if rows > 1 and self.straight(a.x, y):
                    begin = min(begin, max(out + 6, a.x - 5 - width(arrow.label)))
                at, anchor, room = (begin, y), "start", self.room / 2
        elif a.x == b.x and arrow.bend:  # beside its way back
            side = 1.0 if rows > 0 else -1.0
            first, last = (a.x + 16 * side, a.y + 16 * side), (b.x + 16 * side, b.y - 16 * side)
            self.curve(f"M{first[0]:g} {first[1]:g}L", first, last)
            at, anchor = (first[0] + 6 * side, (a.y + b.y) / 2), "start" if side > 0 else "end"
            room = self.room / 2 - 24
        else:
            first, last = _leave(a, (b.x, b.y)), _leave(b, (a.x, a.y))
            self.curve(f"M{first[0]:g} {first[1]:g}L", first, last)
            at, anchor = ((first[0] + last[0]) / 2 + 6, _beside_slope(first, last, 1) - 4), "start"
            room = self.room / 2 - 8
        lines = _lines(arrow.label, room) if arrow.label else []
        for k, line in enumerate(lines):
            self.text(at[0], at[1] + 4 + (k - (len(lines) - 1) / 2) * 14, line, anchor)

    @property
    def across(self) -> float:
        """How wide it is, in pixels."""
        return self.edge[2] - self.edge[0]

    def svg(self, alt: str, scale: float = 1.0) -> str:
        wide, high = self.across, self.edge[3] - self.edge[1]
        view = f"{self.edge[0]:g} {self.edge[1]:g} {wide:g} {high:g}"
        body = "\n".join([*self.boxes, *self.lines])
        body = re.sub(r"-?\d+\.\d{3,}", lambda n: f"{float(n.group()):.2f}", body)
        least = 0 if self.down else math.ceil(0.92 * wide)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-diagram" '
            f'width="{wide * scale:g}" height="{high * scale:g}" viewBox="{view}" '
            f'style="min-width:{least}px;font:12px {FONT};background:transparent">\n'
            f"<title>{escape(alt)}</title>\n{body}\n</svg>"
        )


class _List(_Drawing):
    """Boxes of one width, one below the other, and arrows round their left."""

    def __init__(self, nodes: Mapping[str, Node], arrows: Sequence[Arrow]):
        room = 0.54 * two_widths.NARROW
        nodes = {
            name: node._replace(text="\n".join(wrap(node.text.replace("\n", " "), room)))
            for name, node in nodes.items()
        }
        wide = max(map(_box_width, nodes.values()), default=0)
        listed: dict[str, Node] = {}
        y = 0.0
        for name, node in nodes.items():
            high = _box_height(node)
            listed[name] = node._replace(x=two_widths.NARROW - wide / 2 - 4, y=y + high / 2)
            y += high + _GAP
        self.wide = wide
        super().__init__(listed, arrows, down=True)

    def width_of(self, node: Node) -> float:
        return self.wide

    def beside(self, arrow: Arrow, a: Node, b: Node) -> None:
        """An arc that is the wider the farther it leads; into a box above its middle, and out of
        it below."""
        rows = abs(b.y - a.y) / (28 + _GAP)
        x = a.x - self.wide / 2 - 2
        out = max(x - 14 - 12 * rows, 2 - x / 3)
        first, last = (x, a.y + 6), (x, b.y - 6)
        before = (out, last[1])
        self.curve(f"M{x:g} {first[1]:g}C{out:g} {first[1]:g} {out:g} {last[1]:g}", before, last)


_CLEAR = 4.0
"""Pixels between an arrow and a box that it passes."""

_GAP = 8.0
"""Pixels between two boxes of a list."""

_LINE = 14
"""Pixels from one line of a box to the next."""


def _lines(label: str, room: float) -> list[str]:
    """A label in lines that fit into a room: in two at its comma, where that is enough."""
    first, comma, last = label.partition(", ")
    if comma and width(label) > room and max(width(f"{first},"), width(last)) <= room:
        return [f"{first},", last]
    return wrap(label, room)


def _box_width(node: Node) -> float:
    return max(map(width, node.text.split("\n"))) + 22


def _box_height(node: Node) -> float:
    return 28 + _LINE * node.text.count("\n")


def _leave(node: Node, towards: tuple[float, float]) -> tuple[float, float]:
    """Where a line from the node's centre towards a point leaves its box."""
    dx, dy = towards[0] - node.x, towards[1] - node.y
    half = (_box_width(node) / 2 + 2, _box_height(node) / 2 + 2)
    share = min(half[0] / abs(dx) if dx else math.inf, half[1] / abs(dy) if dy else math.inf)
    return node.x + dx * share, node.y + dy * share


def _beside_slope(first: tuple[float, float], last: tuple[float, float], side: int) -> float:
    """The foot of a label that begins 6 pixels right of a slope's middle (``side`` 1), or ends 6
    left of it (-1): above the slope or below it, where it is farther away, and 5 pixels from it."""
    across, down = last[0] - first[0], last[1] - first[1]
    middle = (first[1] + last[1]) / 2
    if abs(across) < 1:
        return middle + 4
    off = max(0.0, (5 * math.hypot(across, down) - 6 * abs(down)) / abs(across))
    return middle - off - 3 if side * across * down > 0 else middle + off + 9


def _nearest(sides: Sequence[float], out: float, ends: tuple[float, float], y: float) -> float:
    """How far to the right a curve between two boxes, round their left, reaches beside a line of
    letters whose middle is at ``y``."""
    top, bottom = ends
    reached = out
    for t in (step / 40 for step in range(41)):
        at = (1 - t) ** 2 * (1 + 2 * t) * top + t**2 * (3 - 2 * t) * bottom
        if abs(at - y) <= 7:
            x = (1 - t) ** 3 * sides[0] + 3 * t * (1 - t) * out + t**3 * sides[1]
            reached = max(reached, x)
    return reached


def _curved(arrow: Arrow, a: Node, b: Node) -> list[tuple[float, float]]:
    """Where an arrow between two boxes begins, what its curve is drawn towards, and its tip."""
    length = math.hypot(b.x - a.x, b.y - a.y)
    side = ((b.y - a.y) / length, -(b.x - a.x) / length)
    middle = (
        (a.x + b.x) / 2 + 2 * arrow.bend * side[0],
        (a.y + b.y) / 2 + 2 * arrow.bend * side[1],
    )
    return [_leave(a, middle), middle, _leave(b, middle)]


def _head(before: tuple[float, float], tip: tuple[float, float], ink: str) -> str:
    """The head of an arrow that arrives at ``tip`` from the direction of ``before``."""
    angle = math.atan2(tip[1] - before[1], tip[0] - before[0])
    corners = [
        (tip[0] - 9 * math.cos(angle + turn), tip[1] - 9 * math.sin(angle + turn))
        for turn in (0.4, -0.4)
    ]
    points = " ".join(f"{x:g},{y:g}" for x, y in [tip, *corners])
    return f'<polygon points="{points}" style="fill:{ink}"/>'
