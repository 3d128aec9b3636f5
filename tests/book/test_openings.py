"""The pages with which parts open, their pictures, and the map of the chapters."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from phasebit import contents
from phasebit.contents import Chapter
from phasebit.timeline import Timeline

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import openings, ways

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PARTS = [part for part in TOC["parts"] if part["caption"].startswith("Part ")]
EVERY = contents.chapters(ROOT / "book")
INSIDE = [chapter for chapter in EVERY if chapter.path.parent.name.startswith("part")]
TO = "tensor_memory"


@pytest.mark.parametrize("name", openings.OPENINGS)
def test_each_picture_is_drawn_from_what_is_there(name: str) -> None:
    drawn = openings.OPENINGS[name]()
    svg = drawn.svg() if isinstance(drawn, Timeline) else drawn.svg
    assert 'role="img"' in svg and re.search(r"<title[ >]", svg)
    assert len(str(drawn)) > 20


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part["caption"])
def test_a_part_opens_with_what_it_asks_assumes_and_leaves(part: dict[str, object]) -> None:
    first = next(iter(part["chapters"]))["file"]  # type: ignore[call-overload]
    folder = Path(first).parent.name
    assert first == f"book/{folder}/part", "the opening page is the first of its part"
    text = (ROOT / f"{first}.md").read_text(encoding="utf-8")
    numeral = str(part["caption"]).partition(":")[0]
    assert text.startswith(f"# About {numeral}\n")
    sections = ["What it asks", "What it assumes", "What carries over"]
    assert re.findall(r"^## (.*)$", text, re.M) == sections
    assert f"{{phasebit-opening}} {folder.partition('_')[0]}\n" in text


def boxes(svg: str) -> list[tuple[float, float, float, float]]:
    """Left, top, right and bottom of each box."""
    found = re.findall(r'<rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', svg)
    numbers = [tuple(map(float, each)) for each in found]
    return [(x, y, x + wide, y + high) for x, y, wide, high in numbers]


def overlapping(found: list[tuple[float, float, float, float]]) -> int:
    return sum(
        a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
        for n, a in enumerate(found) for b in found[:n]
    )  # fmt: skip


def test_the_map_has_each_chapter_once_and_an_arrow_for_each_need() -> None:
    drawn = ways.picture(EVERY, TO)
    assert len(boxes(drawn.svg)) == len(INSIDE)
    assert not overlapping(boxes(drawn.svg))
    titles = {chapter.name: ways.called(chapter) for chapter in INSIDE}
    arrows = [
        f"{titles[name]} → {titles[chapter.name]}" for chapter in INSIDE for name in chapter.needs
    ]
    assert drawn.alt.splitlines()[1:] == arrows


def test_boxes_that_overlap_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "ACROSS", 200)
    assert overlapping(boxes(ways.picture(EVERY, TO).svg))


def test_the_way_is_blue_and_nothing_else_is() -> None:
    svg = ways.picture(EVERY, TO).svg
    colours = re.findall(r"<rect [^>]*fill:var\(--pb-(\w+)", svg)
    chosen = {chapter.name for chapter in contents.way(EVERY, TO)}
    assert colours == ["blue" if chapter.name in chosen else "grey" for chapter in INSIDE]


def test_more_beginnings_than_lanes_are_refused() -> None:
    many = [Chapter(Path(f"{letter}"), "", "cpu") for letter in "abcdef"]
    with pytest.raises(ValueError, match="no lane is free for f: give ORDER more lanes"):
        ways.places(many, "a")
