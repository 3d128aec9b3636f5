"""The map of the chapters for a phone: one below the other, indented, and no line crosses another.

A chapter stands under one that it needs; a line leads from that to it. What else it needs is said
in words beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from phasebit.contents import Chapter, way
from phasebit.letters import width
from phasebit.palette import FONT, MUTED, TEXT, colour
from phasebit.two_widths import NARROW

_HIGH, _GAP, _STEP, _LINE = 26.0, 13.0, 26.0, 12.0


class Row(NamedTuple):
    """A chapter, how far it is indented, whose line leads to it, and what it needs besides."""

    chapter: Chapter
    indent: int
    under: Chapter | None
    also: tuple[Chapter, ...]


def rows(every: Sequence[Chapter], to: str) -> list[Row]:
    """The chapters from top to bottom.

    The way to ``to`` is the trunk, without an indent. A branch follows the chapter that it is of; a
    chapter that needs none, and is not the first, begins a branch of its own where the book has it.
    """
    known = {chapter.name: chapter for chapter in every}
    order = list(known)
    above: dict[str, str] = {}  # chapter -> the one under which it stands: the last that it needs
    for chapter in every:
        if chapter.needs:
            above[chapter.name] = max(chapter.needs, key=order.index)
    trunk = [to]
    while trunk[0] in above:
        trunk.insert(0, above[trunk[0]])
    found: list[Row] = []

    def add(name: str, indent: int) -> None:
        chapter, under = known[name], above.get(name)
        also = tuple(known[each] for each in chapter.needs if each != under)
        found.append(Row(chapter, indent, known[under] if under else None, also))
        branches = [each for each in order if above.get(each) == name and each not in trunk]
        alone = len(branches) == 1 and indent > 0
        for each in branches:
            add(each, indent if alone else indent + 1)

    roots = [name for name in order if name not in above and name not in trunk]
    for name in trunk:
        while roots and order.index(roots[0]) < order.index(name):
            add(roots.pop(0), 1)
        add(name, 0)
    for name in roots:
        add(name, 1)
    return found


def called(chapter: Chapter) -> str:
    """A chapter's title, after its number if it has one."""
    return chapter.title if chapter.number is None else f"{chapter.number} {chapter.title}"


def tree(every: Sequence[Chapter], to: str, alt: str) -> str:
    """The rows as an ``<svg>`` of a phone's width; blue is the way to ``to``."""
    chosen = {chapter.name for chapter in way(every, to)}
    listed = rows(every, to)
    place = {row.chapter.name: (row.indent * _STEP + 1, n * (_HIGH + _GAP) + 1)
             for n, row in enumerate(listed)}  # fmt: skip
    lines: list[str] = []
    boxes: list[str] = []
    for row in sorted(listed, key=lambda row: row.chapter.name in chosen):  # blue lies on top
        name = row.chapter.name
        if row.under is None:
            continue
        (x, y), (left, top) = place[name], place[row.under.name]
        ink, wide = (colour("blue"), 2.5) if name in chosen else (TEXT, 1.3)
        start = f"M{left + _LINE:g} {top + _HIGH:g}"
        if x == left:
            path, tip, back = f"{start}V{y - 7:g}", (x + _LINE, y - 1), (-4, -8, 4, -8)
        else:
            middle = y + _HIGH / 2
            path, tip, back = f"{start}V{middle:g}H{x - 7:g}", (x - 1, middle), (-8, -4, -8, 4)
        head = f"{tip[0]:g},{tip[1]:g} " + " ".join(
            f"{tip[0] + across:g},{tip[1] + down:g}"
            for across, down in (back[:2], back[2:])
        )  # fmt: skip
        lines.append(f'<path d="{path}" style="fill:none;stroke:{ink};stroke-width:{wide}"/>'
                     f'<polygon points="{head}" style="fill:{ink}"/>')  # fmt: skip
    for row in listed:
        x, y = place[row.chapter.name]
        title, hue = called(row.chapter), "blue" if row.chapter.name in chosen else "grey"
        across = min(width(title) + 16, NARROW - x - 1)
        boxes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{across:.5g}" height="{_HIGH:g}" rx="6" '
            f'style="fill:{colour(hue)};fill-opacity:.16;stroke:{colour(hue)};stroke-width:1.5"/>'
            f'<text x="{x + 8:g}" y="{y + 17:g}" style="fill:{TEXT}">{escape(title)}</text>'
        )
        if row.also:
            said = ", ".join(str(each.number or each.title) for each in row.also)
            boxes.append(f'<text x="{x + across + 6:.5g}" y="{y + 17:g}" style="fill:{MUTED}">'
                         f"needs {escape(said)}, too</text>")  # fmt: skip
    high = len(listed) * (_HIGH + _GAP) - _GAP + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" class="phasebit-diagram" '
        f'width="{NARROW:g}" height="{high:g}" viewBox="0 0 {NARROW:g} {high:g}" '
        f'style="font:12px {FONT};background:transparent">\n<title>{escape(alt)}</title>\n'
        + "\n".join([*lines, *boxes])
        + "\n</svg>"
    )
