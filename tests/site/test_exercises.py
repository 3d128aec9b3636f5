"""Exercises in the page: the judge of the notebook, on what a reader types."""

from __future__ import annotations

import pytest

from .conftest import HTML

LOAD = 90_000  # ms; Python starts in a few seconds on an idle machine
PAGES = {
    path.stem[3:]: path.relative_to(HTML).as_posix()
    for path in HTML.glob("book/part1_pipelines/[0-9]*.html")
}
RIGHT = """def fewest_slots(produce, consume, handoff):
    return -(-(produce + consume + handoff) // max(produce, consume))


rates.fewest_slots(fewest_slots)"""

pytestmark = pytest.mark.site


@pytest.fixture(scope="module")
def tab(browser, site):
    from .look import Watch, assert_good

    tab = browser.new_page()
    watch = Watch(site)
    watch.attach(tab)
    tab.goto(site + PAGES["how_fast"])
    yield tab
    assert_good(tab, watch)
    tab.close()


def answer(tab, text: str) -> str:
    """What the page says of an answer to the first exercise."""
    if tab.locator(".pb-exercise").count() == 0:
        tab.get_by_role("button", name="Try it here").first.press("Enter")
    box = tab.locator(".pb-exercise").first
    box.get_by_role("textbox").fill(text)
    box.get_by_role("textbox").press("Control+Enter")
    box.locator("button.pb-exercise-check:not([disabled])").wait_for(timeout=LOAD)
    return box.get_by_role("status").inner_text()


def test_each_exercise_of_part_one_can_be_tried(browser, site) -> None:
    for page, count in (("state_machine", 5), ("how_fast", 4), ("barriers", 6)):
        path = PAGES[page]
        other = browser.new_page()
        other.goto(site + path)
        found = other.get_by_role("button", name="Try it here").count()
        assert found == (HTML / path).read_text("utf-8").count(": not answered yet") >= count
        other.close()


def test_the_skeleton_is_not_answered(tab) -> None:
    tab.get_by_role("button", name="Try it here").first.press("Enter")
    skeleton = tab.locator(".pb-exercise").first.get_by_role("textbox").input_value()
    assert "def fewest_slots(produce, consume, handoff):" in skeleton
    assert answer(tab, skeleton) == "fewest_slots: not answered yet"


def test_a_right_answer_is_right_and_a_wrong_one_is_told_where(tab) -> None:
    assert answer(tab, RIGHT).startswith("fewest_slots: OK (")
    wrong = RIGHT.replace("-(-(produce + consume + handoff) // max(produce, consume))", "2")
    assert answer(tab, wrong).startswith("fewest_slots: not right yet: for produce 1, consume 1")


def test_what_is_no_python_and_what_raises_is_said_in_a_sentence(tab) -> None:
    assert answer(tab, "def f(:\n    pass").startswith("Line 1 is no Python: ")
    assert answer(tab, "x = 1\ny = x + z").startswith("Line 2: NameError: ")
    printed = tab.locator(".pb-exercise pre").first
    answer(tab, "print('seen')\n" + RIGHT)
    assert printed.inner_text() == "seen"


def test_an_answer_is_kept(tab, site) -> None:
    answer(tab, RIGHT)
    tab.reload()
    tab.get_by_role("button", name="Solved here: try it again").first.click()
    assert tab.locator(".pb-exercise").first.get_by_role("textbox").input_value() == RIGHT
