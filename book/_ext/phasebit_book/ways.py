"""``{phasebit-map} CHAPTER``: which chapter needs which, and the shortest way to one of them.

Both come from the notebooks' metadata. The picture has a row for each step that a reader must have
gone before, and the chapters of the way are blue in it, their arrows too; under it stand links to
them. On a phone it is a tree (:mod:`.tree`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

from phasebit.contents import Chapter, chapters, way
from phasebit.draw import Arrow, Node, Picture, diagram
from phasebit.draw.diagrams import crossed
from phasebit.letters import wrap

from .figure import FigureDirective
from .tree import called, tree

ACROSS, DOWN = 168, 76  # pixels between two lanes, and between two rows
LONG = 134.0  # pixels of a line in a box
SCALE = 1.1  # how much larger than other diagrams it is shown
Place = tuple[int, int]
ORDER = (0, -1, 1, -2, 2)
"""Where lanes lie, in the order in which they are opened: the first in the middle."""


def places(every: Sequence[Chapter], to: str) -> dict[str, tuple[int, int]]:
    """Chapter -> its lane and its row; no two share both, and no arrow crosses another.

    A chapter goes on in the lane of a chapter that it needs, if that is free; those of the way to
    ``to`` have the first choice. One that no other needs comes last, as near as its row has a free
    place that is reached across no arrow; else it stands beside the chapter that it needs. Raises
    ``ValueError`` where the lanes do not suffice.
    """
    chosen = {chapter.name for chapter in way(every, to)}
    needed = {name for chapter in every for name in chapter.needs}
    last = [chapter for chapter in every if chapter.needs and chapter.name not in needed | chosen]
    found: dict[str, tuple[int, int]] = {}
    ends: dict[int, str] = {}  # lane -> the chapter that is last in it
    for chapter in [*(each for each in every if each not in last), *last]:
        row = 1 + max((found[name][1] for name in chapter.needs), default=-1)
        above = sorted(chapter.needs, key=lambda name: -found[name][1])
        lanes = [found[name][0] for name in above if ends[found[name][0]] == name
                 and (chapter.name in chosen or name not in chosen)]  # fmt: skip
        taken = {lane for lane, at in found.values() if at == row}
        fresh = [lane for lane in ORDER if lane not in ends]
        ended = [lane for lane in ORDER if lane in ends and found[ends[lane]][1] < row - 1]
        free = [lane for lane in (ended + fresh if chapter.needs else fresh) if lane not in taken]
        if chapter in last:
            found[chapter.name] = near(chapter, row, found, every)
            continue
        if not lanes and not free:
            raise ValueError(f"no lane is free for {chapter.name}: give ORDER more lanes")
        lane = (lanes or free)[0]
        found[chapter.name] = lane, row
        ends[lane] = chapter.name
    for chapter in every:  # one that stands alone in its lane goes near those that need it
        users = [other.name for other in every if chapter.name in other.needs]
        lane = found[chapter.name][0]
        if users and all(found[name][0] != lane for name in (*users, *chapter.needs)):
            found[chapter.name] = lane, min(found[name][1] for name in users) - 1
    return found


def near(chapter: Chapter, row: int, found: Mapping[str, Place], every: Sequence[Chapter]) -> Place:
    """The nearest free place, in this row or the one above, whose arrows cross no other."""
    drawn = [(found[name], found[each.name]) for each in every if each.name in found
             for name in each.needs]  # fmt: skip
    ways = [found[name] for name in chapter.needs]

    def far(place: Place) -> tuple[int, int, int]:
        return -place[1], sum(abs(place[0] - lane) for lane, _ in ways), place[0]

    free = {(lane, at) for lane in ORDER for at in (row, row - 1)} - {*found.values()}
    if not free:
        raise ValueError(f"no lane is free for {chapter.name}: give ORDER more lanes")
    every_place = sorted(free, key=far)
    return next((place for place in every_place
                 if not any(cross(way, place, *other) for way in ways for other in drawn)),
                every_place[0])  # fmt: skip


def cross(a: Place, b: Place, c: Place, d: Place) -> bool:
    """Whether the line from a to b crosses that from c to d; to meet at an end is no crossing."""

    def side(of: Place, start: Place, end: Place) -> int:
        turn = ((end[0] - start[0]) * (of[1] - start[1])
                - (end[1] - start[1]) * (of[0] - start[0]))  # fmt: skip
        return (turn > 0) - (turn < 0)

    return side(a, c, d) * side(b, c, d) < 0 and side(c, a, b) * side(d, a, b) < 0


def clear(arrow: Arrow, boxes: Mapping[str, Node]) -> Arrow:
    """The arrow, bent as little more as takes it past the boxes between, if any bend does."""
    more = (step * side for step in range(0, 101, 5) for side in (1, -1))
    bent = (arrow._replace(bend=arrow.bend + each) for each in more)
    return next((each for each in bent if not crossed(each, boxes)), arrow)


def picture(every: Sequence[Chapter], to: str) -> Picture:
    """The chapters of the parts, an arrow from each to those that need it."""
    inside = [chapter for chapter in every if chapter.path.parent.name.startswith("part")]
    chosen = {chapter.name for chapter in way(inside, to)}
    at = places(inside, to)
    boxes = {
        chapter.name: Node(
            "\n".join(wrap(called(chapter), LONG)),
            at[chapter.name][0] * ACROSS,
            at[chapter.name][1] * DOWN,
            "blue" if chapter.name in chosen else "grey",
        )
        for chapter in inside
    }
    arrows = []
    for chapter in inside:
        for name in chapter.needs:
            across, down = (at[chapter.name][n] - at[name][n] for n in (0, 1))
            first = 20.0 * across if down > 1 else 0.0
            hue = "blue" if chapter.name in chosen else ""
            arrows.append(clear(Arrow(name, chapter.name, bend=first, hue=hue), boxes))
    title = "Which chapter needs which"
    wide = diagram(boxes, arrows, title=title, narrow="listed", scale=SCALE)
    said = wide.svg.replace("<svg ", '<svg data-words="needed by, needs" ', 1)
    return replace(wide, svg=said, narrow=tree(inside, to, wide.alt))


class Map(FigureDirective):
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        every = chapters(Path(self.env.srcdir) / "book")
        for chapter in every:
            self.env.note_dependency(str(chapter.path))
        to = self.arguments[0]
        try:
            drawn, chosen = picture(every, to), way(every, to)
        except ValueError as problem:
            raise self.error(str(problem)) from None
        return [self.figure(drawn), self.links(chosen)]

    def links(self, chosen: list[Chapter]) -> nodes.paragraph:
        """The chapters of a way, each a link."""
        line = nodes.paragraph("", "The shortest way: ")
        for chapter in chosen:
            page = chapter.path.relative_to(self.env.srcdir).with_suffix("").as_posix()
            line += addnodes.pending_xref(
                "",
                nodes.inline(text=called(chapter)),
                refdomain="std",
                reftype="doc",
                reftarget="/" + page,
                refexplicit=True,
                refwarn=True,
                refdoc=self.env.docname,
            )
            line += nodes.Text("; " if chapter is not chosen[-1] else ".")
        return line


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("phasebit-map", Map)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
