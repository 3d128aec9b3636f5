"""The script reads from a timeline's drawing what Python drew; cursor and keys answer."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from phasebit_book.inline_svg import inline, svg_of

from phasebit.pipeline import Pipeline, simulate
from phasebit.pipeline.interleaving import walk
from phasebit.pipeline.ring import Ring, consumer, producer
from phasebit.timeline import RING_LEGEND, Span, Timeline
from phasebit.timeline.pieces import told_of

from .conftest import HTML, ROOT

SCRIPT = (ROOT / "book/_static/timelines.js").read_text(encoding="utf-8")
CSS = (ROOT / "book/_static/phasebit.css").read_text(encoding="utf-8")

RINGS = [
    simulate(Pipeline(producers, consumers, slots, produce, consume), jobs=9).timeline
    for producers, consumers, slots, produce, consume in
    [(1, 1, 2, 4, 4), (2, 3, 4, 5, 3), (4, 6, 6, 5, 3), (1, 2, 1, 1, 7)]
]  # fmt: skip
OTHERS = [
    Timeline(["a", "b"], [Span("a", 0, 300.5, "one"), Span("b", 100, 900, "two", "x")], unit="ns"),
    Timeline(
        ["warp 0", "warp 1"],
        [Span("warp 0", 0, 9, "produce", "0"), Span("warp 1", 9, 30, "wait", "full")],
        unit="order", legend=RING_LEGEND,
    ),
]  # fmt: skip

DOWN = [walk(Ring(stages=2, items=3).system(producer, consumer), seed=4).timeline]

pytestmark = pytest.mark.site


def show(page, timeline: Timeline) -> None:
    """A page with nothing but a timeline, which answers."""
    picture = inline(svg_of(timeline), "t")
    page.set_content(f"<style>{CSS}</style><article class='bd-article'>{picture}</article>")
    page.add_script_tag(content=SCRIPT)


def spans_of(timeline: Timeline) -> list[Span]:
    """Those that a drawing tells of: of one that goes on, in a drawing that runs down, one."""
    return [Span(timeline.rows[row], start, end, told_of(timeline)["kinds"][kind][0], label)
            for row, start, end, kind, label, *_ in told_of(timeline)["spans"]]  # fmt: skip


@pytest.fixture(scope="module")
def tab(browser):
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("timeline", RINGS + OTHERS, ids=lambda it: it.title[:40] or it.unit)
def test_each_span_is_read_as_it_was_drawn(tab, timeline: Timeline) -> None:
    show(tab, timeline)
    told = tab.evaluate(
        """() => {
          const { rows, spans } = phasebitTimelines.read(document.querySelector('svg'));
          return spans.map((s) => [rows[s.row], s.from, s.to, s.kind, s.label, s.why ?? '']);
        }"""
    )
    named = {kind: timeline.legend.get(kind, kind) for kind in timeline.styles}
    assert [*map(tuple, told)] == [
        (s.row, s.start, s.end, named[s.kind], s.label, s.waits_for)
        for s in timeline.spans if s.end > s.start
    ]  # fmt: skip


def boxes(svg: str) -> set[tuple[float, ...]]:
    """Left, top, width and height of what is drawn as a box, to the pixel."""
    found = re.findall(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h", svg)
    return {tuple(round(float(n)) for n in one) for one in found}


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("timeline", RINGS + OTHERS + DOWN, ids=lambda it: it.title[:40] or it.unit)
def test_a_span_stands_out_where_it_was_drawn(tab, timeline: Timeline, narrow: bool) -> None:
    """The frame that the script draws lies around a box of the drawing."""
    show(tab, timeline)
    frames = tab.evaluate(
        """(number) => {
          const svgs = document.querySelectorAll('svg');
          const { spans } = phasebitTimelines.read(svgs[0]);
          const drawing = new phasebitTimelines.Drawing(svgs[number]);
          return spans.map((span) => {
            drawing.draw(0, [span]);
            const frame = drawing.overlay.querySelector('.pb-timeline-job');
            return ['x', 'y', 'width', 'height'].map((name) => Number(frame.getAttribute(name)));
          });
        }""",
        int(narrow),
    )
    drawn = boxes(timeline.svg(narrow))
    solid = [f for s, f in zip(spans_of(timeline), frames, strict=True) if s.kind != "wait"]
    assert solid
    for x, y, width, height in solid:
        inside = [box for box in drawn if x <= box[0] <= x + 3 and y <= box[1] <= y + 3
                  and abs(box[2] - width) <= 5 and box[3] <= height]  # fmt: skip
        assert inside, (x, y, width, height)


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_in_a_drawing_whose_time_runs_down_the_cursor_does_too(tab, narrow: bool) -> None:
    (run,) = DOWN
    tab.set_viewport_size({"width": 390 if narrow else 1000, "height": 900})
    show(tab, run)
    svg, said = tab.locator("svg").nth(int(narrow)), tab.locator(".pb-timeline-said")
    assert svg.is_visible()
    tab.keyboard.press("Tab")
    svg.focus()
    svg.press("Home")
    for step in range(6):
        assert said.inner_text().startswith(f"step {step}. ")
        marks = svg.locator(".pb-timeline-step")
        assert marks.count() == 1
        (mover,) = [s for s in run.spans if s.start == step and s.label
                    and s.row not in run.quiet and s.kind != "wait"][:1]  # fmt: skip
        assert f"{mover.row}: {mover.label}" in said.inner_text()
        svg.press("ArrowDown")
    svg.press("ArrowUp")
    assert said.inner_text().startswith("step 5. ")
    svg.press("End")
    last = int(run.end) - 1
    assert said.inner_text().startswith(f"step {last}. ")
    waits = [s for s in run.spans if s.waits_for]
    assert waits
    for _ in range(last - int(waits[0].start)):
        svg.press("ArrowUp")
    assert f"{waits[0].row}: waits for {waits[0].waits_for}" in said.inner_text()
    tab.set_viewport_size({"width": 1000, "height": 900})


def test_a_drawing_whose_time_runs_down_is_looked_at_closer(tab) -> None:
    (run,) = DOWN
    show(tab, run)
    picture, svg = tab.locator(".pb-picture"), tab.locator("svg:visible").first
    width = svg.bounding_box()["width"]
    larger = tab.get_by_role("button", name="larger")
    for times in 2, 4:
        larger.press("Enter")
        assert svg.bounding_box()["width"] == pytest.approx(times * width, rel=0.01)
    assert larger.is_disabled()
    assert picture.evaluate("(box) => box.scrollWidth > box.clientWidth")


@pytest.fixture
def first(browser, site):
    """The first timeline of the front page, and the words below it."""
    page = browser.new_page()
    page.goto(site + "book/intro.html")
    page.wait_for_load_state("networkidle")
    yield page.locator("svg.phasebit-timeline").first, page.locator(".pb-timeline-said").first
    page.close()


def test_the_pointer_tells_what_each_row_does(first) -> None:
    svg, said = first
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    assert said.inner_text() == ""
    svg.page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 32)
    assert "producer 0: producing" in said.inner_text()
    assert svg.locator(".pb-timeline-job").count() >= 2, "the job in its slot, too"
    svg.page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] - 60)
    assert said.inner_text() == ""


def test_the_arrow_keys_move_the_cursor(first) -> None:
    svg, said = first
    svg.page.keyboard.press("Tab")  # focus by keyboard, so that it stays
    svg.focus()
    before = said.inner_text()
    for _ in range(6):
        svg.press("ArrowRight")
    assert said.inner_text().startswith("clock 6") and said.inner_text() != before
    svg.press("End")
    assert "consumer 0" in said.inner_text() or "Nobody" in said.inner_text()
    svg.press("Escape")


def words(page, timeline: Timeline, at: float, row: str) -> str:
    """What is said of a row when the pointer is at a moment over it."""
    show(page, timeline)
    place = page.evaluate(
        """([at, row]) => {
          const svg = document.querySelector('svg');
          const drawing = new phasebitTimelines.Drawing(svg);
          const { x, y } = svg.getBoundingClientRect();
          const number = phasebitTimelines.read(svg).rows.indexOf(row);
          return [x + drawing.place(at), y + drawing.rows[number][0] + 10];
        }""",
        [at, row],
    )
    page.mouse.move(*place)
    return next(
        part.partition(": ")[2]
        for part in page.locator(".pb-timeline-said").inner_text().partition(". ")[2].split("; ")
        if part.startswith(f"{row}: ")
    )  # fmt: skip


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_who_waits_says_for_which_slot_and_what_it_is_doing(tab, slots: int) -> None:
    run = simulate(Pipeline(1, 1, slots, produce=2, consume=7), jobs=9)
    names = run.timeline.legend
    waits = [s for s in run.timeline.spans if s.row == "producer 0" and s.kind == "wait"]
    assert len(waits) > 2
    for wait in waits:
        at = (wait.start + wait.end) / 2
        slot = wait.waits_for.partition(" to be ")[0]
        doing = [s for s in run.timeline.spans if s.row == slot and s.start <= at < s.end]
        told = words(tab, run.timeline, at, "producer 0")
        assert told.startswith(f"waits for {wait.waits_for}") and "to go on with" in told
        for span in doing:
            assert names[span.kind] in told and span.label in told
        assert tab.locator("svg").first.locator(".pb-timeline-job").count() == 1 + len(doing)


def test_of_all_waits_of_the_book_each_says_what_is_waited_for() -> None:
    """In notebooks, openings and closed replays, which are there where an nvcc is."""
    every = missing = 0
    for page in HTML.glob("book/**/*.html"):
        for text in re.findall(r"data-told='([^']*)'", page.read_text(encoding="utf-8")):
            told = json.loads(unescape(text))
            for _, _, _, kind, _, *why in told["spans"]:
                if told["kinds"][kind][0] == "wait":
                    every += 1
                    missing += not why
    assert every > 200 and missing == 0


def test_each_timeline_of_the_book_answers() -> None:
    """None is left that a script cannot read."""
    for page in HTML.glob("book/**/*.html"):
        html = page.read_text(encoding="utf-8")
        drawn = re.findall(r"""<svg (?:[^>']|'[^']*')*>""", html)  # a text may hold a >
        drawn = [one for one in drawn if 'class="phasebit-timeline"' in one]
        assert all("data-places=" in one for one in drawn), page
        assert 2 * sum("data-told=" in one for one in drawn) == len(drawn), page


def test_a_timeline_plays_stops_and_is_looked_at_closer(browser, site) -> None:
    page = browser.new_page(reduced_motion="reduce")
    page.goto(site + "book/intro.html")
    page.wait_for_load_state("networkidle")
    controls = page.locator(".pb-timeline-controls").first
    said = page.locator(".pb-timeline-said").first
    svg = page.locator("svg.phasebit-timeline").first
    play = controls.get_by_role("button", name="Play")
    play.press("Enter")
    stop = controls.get_by_role("button", name="Pause")
    page.wait_for_function("said => /clock (?!0[.])/.test(said.textContent)",
                           arg=said.element_handle())  # fmt: skip
    stop.press("Enter")
    assert play.count() == 1
    now = said.inner_text()
    svg.focus()
    svg.press("Shift+ArrowRight")
    assert said.inner_text() != now
    svg.press("Shift+ArrowLeft")
    assert said.inner_text() == now
    before = svg.bounding_box()["width"]
    controls.get_by_role("button", name="larger").press("Enter")
    assert svg.bounding_box()["width"] == pytest.approx(2 * before, rel=0.01)
    controls.get_by_role("button", name="smaller").press("Enter")
    assert svg.bounding_box()["width"] == pytest.approx(before, rel=0.01)
    svg.focus()
    svg.press("End")
    svg.press(" ")  # from the beginning again
    page.wait_for_function("said => /clock [0-9][.] /.test(said.textContent)",
                           arg=said.element_handle())  # fmt: skip
    page.close()


def test_what_a_finger_touched_is_told_until_it_touches_elsewhere(browser, site) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    page.goto(site + "book/intro.html")
    page.wait_for_load_state("networkidle")
    svg = page.locator("svg.phasebit-timeline:visible").first
    said = page.locator(".pb-timeline-said").first
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.touchscreen.tap(box["x"] + 0.3 * box["width"], box["y"] + 32)
    page.wait_for_timeout(100)
    assert "producer 0: " in said.inner_text()
    page.touchscreen.tap(box["x"] + 40, box["y"] - 60)
    page.wait_for_timeout(100)
    assert said.inner_text() == ""
    context.close()


def test_without_scripts_there_are_no_buttons_and_no_place_for_them(browser, site) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(site + "book/intro.html")
    assert page.locator("svg.phasebit-timeline").first.is_visible()
    assert page.locator(".pb-timeline-controls").count() == 0
    page.close()


def test_the_front_page_has_a_timeline() -> None:
    assert "phasebit-timeline" in (HTML / "book/intro.html").read_text(encoding="utf-8")
