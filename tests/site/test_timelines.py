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


def test_the_front_page_has_a_timeline() -> None:
    assert "phasebit-timeline" in (HTML / "book/intro.html").read_text(encoding="utf-8")
