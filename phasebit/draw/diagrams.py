"""Boxes and arrows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from phasebit.draw.picture import Picture
from phasebit.palette import FONT, TEXT, colour


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
            reach(x - len(name) * 4.7, y, len(name) * 9.4, 24)  # bold is wider
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
        f"{whose[a.start]}{names[a.start]} → {names[a.end]}" + (f": {a.label}" if a.label else "")
        for a in arrows
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
