"""The pages with which parts open, their pictures, and the map of the chapters."""

from __future__ import annotations

import html
import json
import math
import re
import statistics
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from phasebit import contents
from phasebit.contents import Chapter
from phasebit.timeline import Span, Timeline

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import openings, tree, ways

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
PARTS = [part for part in TOC["parts"] if part["caption"].startswith("Part ")]
EVERY = contents.chapters(ROOT / "book")
INSIDE = [chapter for chapter in EVERY if chapter.path.parent.name.startswith("part")]
TO = "one_thread_multiplies"


def recorded(name: str) -> dict[str, Any]:
    """The record, read without the package."""
    (path,) = (ROOT / "records").glob(f"{name}.*.json")
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("name", openings.OPENINGS)
def test_each_picture_says_what_it_is(name: str) -> None:
    drawn = openings.OPENINGS[name]()
    svg = drawn.svg() if isinstance(drawn, Timeline) else drawn.svg
    title = str(drawn).partition("\n")[0].partition(". ")[0].rstrip(".")
    assert 'role="img"' in svg
    assert re.search(r"<title[^>]*>(.*?)</title>", svg, re.S)
    assert title in html.unescape(svg)


def test_the_first_page_shows_the_rates_of_the_record() -> None:
    (row,) = (row for row in recorded("hopper_ring")["ladder"] if row["size"] == 8192)
    rates = {
        name: 2 * 8192**3 / statistics.median(times) / 1e6
        for name, times in row["times_us"].items()
    }
    shown = str(openings.built()).splitlines()[1:]
    assert shown == [f"{name}: {rate:.0f}" for name, rate in rates.items()]


def test_the_roof_is_that_of_the_record() -> None:
    rates = recorded("measuring")["rates"]
    shown = str(openings.part2())
    assert f"\nmemory: {statistics.median(rates['copy']):.2f} TB/s\n" in shown
    for name in ("f32", "f16 mma, normal", "bf16 wgmma, normal"):
        assert f"\n{name}: {statistics.median(rates[name]):.0f} TFLOP/s, " in shown


def test_rows_and_tiles_hold_the_same_48_places_each_line_in_its_own_colour() -> None:
    drawn = openings.part3()
    rows = [line.partition("|")[2].split() for line in str(drawn).splitlines()[1:]]
    left, right = ([list(map(int, row[at])) for row in rows] for at in (slice(8), slice(-8, None)))
    assert left == [list(range(8 * row, 8 * row + 8)) for row in range(6)]
    tiles = [
        [right[2 * i + y][4 * j + x] for y in range(2) for x in range(4)]
        for i in range(3) for j in range(2)
    ]  # fmt: skip
    assert tiles == [list(range(8 * tile, 8 * tile + 8)) for tile in range(6)]
    groups = re.findall(r'<g style="fill:([^;"]+);fill-opacity.*?>(.*?)</g>', drawn.svg)
    cells = {
        (float(x) + 8, float(y)): hue for hue, group in groups
        for x, y in re.findall(r'<rect x="(\S+)" y="(\S+)"', group)
    }  # fmt: skip
    assert len(cells) == 2 * 48
    numbers = re.findall(r'<text x="(\S+)" y="(\S+)">(\d+)<', drawn.svg)
    lines = set()
    for x, y, place in numbers:
        near = [hue for (left, top), hue in cells.items()
                if abs(float(x) - left) < 4 and 8 < float(y) - top < 16]  # fmt: skip
        lines |= {(hue, int(place) // 8) for hue in near}
    assert len(lines) >= 6
    assert len(lines) == len({hue for hue, _ in lines}) == 6


def used_too_early(spans: Iterable[Span]) -> list[str]:
    """Tiles whose consuming begins, anywhere, before their producing has ended."""
    made: dict[str, float] = {}
    used: dict[str, float] = {}
    for span in spans:
        label = span.label.rpartition(" ")[2]
        if span.kind == "produce" and span.label:
            made[label] = max(made.get(label, 0.0), span.end)
        if span.kind == "consume" and span.label:
            used[label] = min(used.get(label, math.inf), span.start)
    assert made and set(used) <= set(made)
    return [label for label, start in used.items() if start < made[label]]


def doubly_used(spans: Iterable[Span]) -> list[Span]:
    """Spans of a slot that begin before the slot's last one has ended."""
    found, until = [], dict[str, float]()
    for span in sorted(spans, key=lambda span: span.start):
        if span.row.startswith("slot"):
            if span.start < until.get(span.row, 0.0) - 1e-6:
                found.append(span)
            until[span.row] = max(span.end, until.get(span.row, 0.0))
    return found


@pytest.mark.parametrize("name", ["part4", "part5", "part6"])
def test_in_each_timeline_a_slot_is_full_before_it_is_read(name: str) -> None:
    spans = openings.OPENINGS[name]().spans  # type: ignore[union-attr]
    assert used_too_early(spans) == []
    assert doubly_used(spans) == []


def test_a_slot_that_is_read_early_would_be_seen() -> None:
    spans = openings.part5().spans
    early = [
        span._replace(start=span.start - 5000) if span.row == "slot 0" and span.kind == "consume"
        else span for span in spans
    ]  # fmt: skip
    assert used_too_early(early)
    assert doubly_used(early)


def test_the_ring_of_the_first_part_fills_each_slot_before_it_is_read() -> None:
    spans = openings.part1().spans
    fills = [span for span in spans if span.label.startswith("fill slot")]
    reads = [span for span in spans if span.label.startswith("read slot")]
    assert [span.label for span in fills] == [f"fill slot {i % 2}, item {i}" for i in range(3)]
    assert [span.label for span in reads] == [f"read slot {i % 2}" for i in range(3)]
    assert all(fill.end <= read.start for fill, read in zip(fills, reads, strict=True))


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
    monkeypatch.setattr(ways, "ACROSS", 120)
    assert overlapping(boxes(ways.picture(EVERY, TO).svg))


def passed_through(svg: str) -> int:
    """How many boxes have an arrow inside that neither begins nor ends there."""
    count = 0
    for path in re.findall(r'd="M(\S+) (\S+)Q(\S+) (\S+) (\S+) (\S+)"', svg):
        ax, ay, mx, my, bx, by = map(float, path)
        points = [((1 - t) ** 2 * ax + 2 * t * (1 - t) * mx + t * t * bx,
                   (1 - t) ** 2 * ay + 2 * t * (1 - t) * my + t * t * by)
                  for t in (step / 200 for step in range(201))]  # fmt: skip
        count += sum(any(left < x < right and top < y < bottom for x, y in points)
                     for left, top, right, bottom in boxes(svg))  # fmt: skip
    return count


def test_no_arrow_of_the_map_passes_through_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passed_through(ways.picture(EVERY, TO).svg) == 0
    monkeypatch.setattr(ways, "clear", lambda arrow, boxes: arrow)
    assert passed_through(ways.picture(EVERY, TO).svg) > 0


def arrows_of(svg: str) -> list[list[tuple[float, float]]]:
    """Each arrow as points along its curve."""
    found = []
    for path in re.findall(r'd="M(\S+) (\S+)Q(\S+) (\S+) (\S+) (\S+)"', svg):
        ax, ay, mx, my, bx, by = map(float, path)
        found.append([((1 - t) ** 2 * ax + 2 * t * (1 - t) * mx + t * t * bx,
                       (1 - t) ** 2 * ay + 2 * t * (1 - t) * my + t * t * by)
                      for t in (step / 20 for step in range(21))])  # fmt: skip
    return found


def crossings(svg: str) -> int:
    """How many pairs of arrows cross."""
    every = [list(pairwise(points)) for points in arrows_of(svg)]
    return sum(
        any(ways.cross(*a, *b) for a in one for b in other)  # type: ignore[arg-type]
        for n, one in enumerate(every) for other in every[:n]
    )  # fmt: skip


def test_no_arrow_of_the_map_crosses_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(arrows_of(ways.picture(EVERY, TO).svg)) == sum(len(each.needs) for each in INSIDE)
    assert crossings(ways.picture(EVERY, TO).svg) == 0
    places = ways.places(INSIDE, TO)
    swapped = {**places, "two_gpus": places["one_thread_multiplies"],
               "one_thread_multiplies": places["two_gpus"]}  # fmt: skip
    monkeypatch.setattr(ways, "places", lambda every, to: swapped)
    assert crossings(ways.picture(EVERY, TO).svg) > 0


def test_to_meet_at_an_end_is_no_crossing() -> None:
    assert ways.cross((0, 0), (2, 2), (0, 2), (2, 0))
    assert not ways.cross((0, 0), (2, 2), (0, 0), (2, 0))
    assert not ways.cross((0, 0), (1, 1), (0, 2), (1, 2))


def test_on_a_phone_each_need_is_a_line_or_said_in_words() -> None:
    listed = tree.rows(INSIDE, TO)
    assert sorted(row.chapter.path for row in listed) == sorted(each.path for each in INSIDE)
    for row in listed:
        shown = [each.name for each in ([row.under] if row.under else []) + list(row.also)]
        assert sorted(shown) == sorted(row.chapter.needs)
    svg = ways.picture(EVERY, TO).narrow
    for row in listed:
        assert f">{html.escape(ways.called(row.chapter), quote=False)}<" in svg
        for other in row.also:
            assert f"needs {other.number}, too<" in svg


def runs_into(listed: list[tree.Row]) -> list[str]:
    """Chapters whose line comes from below, or passes through one that is not indented more."""
    at = {row.chapter.name: n for n, row in enumerate(listed)}
    found = []
    for n, row in enumerate(listed):
        if row.under is None:
            continue
        start = at[row.under.name]
        line = listed[start].indent
        if start > n or any(between.indent <= line for between in listed[start + 1 : n]):
            found.append(row.chapter.name)
    return found


def test_on_a_phone_no_line_passes_through_a_box() -> None:
    listed = tree.rows(INSIDE, TO)
    assert runs_into(listed) == []
    assert not overlapping(boxes(ways.picture(EVERY, TO).narrow))
    trunk = [row.chapter.name for row in listed if row.indent == 0]
    assert trunk[-1] == TO and set(trunk) <= {each.name for each in contents.way(EVERY, TO)}
    flat = [row._replace(indent=0) for row in listed]
    assert "every_shape" not in runs_into(flat) and "tensor_memory" in runs_into(flat)
    assert runs_into(listed[::-1])


def test_the_way_is_blue_and_nothing_else_is() -> None:
    svg = ways.picture(EVERY, TO).svg
    colours = re.findall(r"<rect [^>]*fill:var\(--pb-(\w+)", svg)
    chosen = {chapter.name for chapter in contents.way(EVERY, TO)}
    assert colours == ["blue" if chapter.name in chosen else "grey" for chapter in INSIDE]
    lines = re.findall(r"<path [^>]*stroke:var\(--pb-(\w+)", svg)
    needs = sum(len(chapter.needs) for chapter in INSIDE if chapter.name in chosen)
    assert lines == ["blue"] * needs


def test_more_beginnings_than_lanes_are_refused() -> None:
    many = [Chapter(Path(f"{letter}"), "", "cpu") for letter in "abcdef"]
    with pytest.raises(ValueError, match="no lane is free for f: give ORDER more lanes"):
        ways.places(many, "a")
