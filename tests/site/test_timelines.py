"""The script reads from a timeline's drawing what Python drew; cursor and keys answer."""

from __future__ import annotations

import pytest

from phasebit.pipeline import Pipeline, simulate
from phasebit.timeline import RING_LEGEND, Span, Timeline

from .conftest import HTML, ROOT

SCRIPT = (ROOT / "book/_static/timelines.js").read_text(encoding="utf-8")

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

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def tab(browser):
    page = browser.new_page()
    yield page
    page.close()


@pytest.mark.parametrize("timeline", RINGS + OTHERS, ids=lambda it: it.title[:40] or it.unit)
def test_each_span_is_read_as_it_was_drawn(tab, timeline: Timeline) -> None:
    tab.set_content(f"<article class='bd-article'>{timeline.svg()}</article>")
    tab.add_script_tag(content=SCRIPT)
    told = tab.evaluate(
        """() => {
          const told = phasebitTimelines.read(document.querySelector('svg'));
          return told.spans.map(s => [s.row.name, told.time(s.from), told.time(s.to), s.kind]);
        }"""
    )
    named = {kind: timeline.legend.get(kind, kind) for kind in timeline.styles}
    drawn = [(s.row, s.start, s.end, named[s.kind]) for s in timeline.spans if s.end > s.start]
    assert len(told) == len(drawn)
    length = timeline.end - timeline.start
    for row, start, end, kind in told:
        assert any(
            (row, kind) == (r, k) and abs(start - a) < length / 50 and abs(end - b) < length / 50
            for r, a, b, k in drawn
        ), (row, start, end, kind)


def test_a_drawing_whose_time_runs_down_is_left_alone(tab) -> None:
    down = Timeline(["a"], [Span("a", 0, 1, "one", "x"), Span("a", 1, 2, "two", "y")], down=True)
    tab.set_content(f"<article class='bd-article'>{down.svg()}</article>")
    tab.add_script_tag(content=SCRIPT)
    assert tab.evaluate("() => phasebitTimelines.read(document.querySelector('svg'))") is None


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


def words(page, timeline: Timeline, x: float, row: str) -> str:
    """What is said of a row when the pointer is at a moment over it."""
    page.set_content(
        f"<article class='bd-article'><div class='pb-picture'>{timeline.svg()}</div></article>"
    )
    page.add_script_tag(content=SCRIPT)
    svg = page.locator("svg")
    said = page.locator(".pb-timeline-said")
    told = page.evaluate(
        """([at, row]) => {
          const told = phasebitTimelines.read(document.querySelector('svg'));
          const { y } = told.rows.find((one) => one.name === row);
          const place = (at - told.time(0)) / (told.time(1) - told.time(0));
          const { x, y: top } = document.querySelector('svg').getBoundingClientRect();
          return [x + place, top + y + 10];
        }""",
        [x, row],
    )
    svg.page.mouse.move(*told)
    return next(
        part.partition(": ")[2] for part in said.inner_text().partition(". ")[2].split("; ")
        if part.startswith(f"{row}: ")
    )  # fmt: skip


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_who_waits_says_for_which_slot_and_what_it_is_doing(tab, slots: int) -> None:
    """Compared with the simulator: the slot of the job that the thread takes next."""
    run = simulate(Pipeline(1, 1, slots, produce=2, consume=7), jobs=9)
    names = run.timeline.legend
    produced = [s for s in run.timeline.spans if s.kind == "produce"]
    waits = [s for s in run.timeline.spans if s.row == "producer 0" and s.kind == "wait"]
    seen = 0
    for wait in waits:
        later = [s for s in produced if s.row == "producer 0" and s.start >= wait.end]
        if not later:
            continue
        job = min(later, key=lambda s: s.start).label
        (slot,) = {s.row for s in produced if s.row.startswith("slot") and s.label == job}
        at = (wait.start + wait.end) / 2
        doing = [s for s in run.timeline.spans if s.row == slot and s.start <= at < s.end]
        told = words(tab, run.timeline, at, "producer 0")
        assert told.startswith(f"waiting for {slot}") and told.endswith(f"to go on with {job}")
        for span in doing:
            assert names[span.kind] in told and span.label in told
        assert tab.locator(".pb-timeline-job").count() == 1 + len(doing)
        seen += 1
    assert seen > 2


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
    svg = page.locator("svg.phasebit-timeline").first
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
