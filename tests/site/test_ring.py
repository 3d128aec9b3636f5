"""The ring at a glance, on the front page: what it invites to, and that it tells the truth."""

from __future__ import annotations

import re

import pytest

from .conftest import HTML

pytestmark = pytest.mark.site


@pytest.fixture
def ring(loaded):
    """The front page's first picture, on a phone, at its beginning."""
    from .look import assert_good

    tab = loaded("book/intro.html", 390, 844)
    box = tab.locator(".phasebit-ring")
    tab.evaluate("scrollTo(0, 0)")
    box.get_by_role("button", name="Start over").evaluate("(one) => one.click()")
    yield box
    assert_good(tab, widths=(390, 820, 1440))


def mover(ring, number: int):
    return ring.locator(".pb-ring-move").nth(number)


def bits(ring) -> list[str]:
    return ring.locator(".pb-ring-bit").all_inner_texts()


def test_it_can_be_moved_on_the_first_screen_of_a_phone(ring) -> None:
    for button in ring.get_by_role("button").all():
        box = button.bounding_box()
        assert box["y"] + box["height"] < 844
        assert box["height"] >= 36 and box["width"] >= 44


def test_the_producer_runs_ahead_and_must_wait(ring) -> None:
    assert bits(ring) == ["0", "0", "0", "0"]
    mover(ring, 0).focus()
    for _ in range(8):  # wait, write, done, say: for each of two slots
        assert mover(ring, 0).is_enabled()
        ring.page.keyboard.press("Enter")
    assert not mover(ring, 0).is_enabled()
    assert mover(ring, 0).inner_text() == "waits: slot 0 is not empty"
    assert bits(ring) == ["1", "0", "1", "0"]  # both full barriers have completed a phase
    assert ring.get_by_role("status").inner_text().startswith("The producer must wait")
    for _ in range(4):
        mover(ring, 1).click()
    assert bits(ring) == ["1", "1", "1", "0"]
    assert mover(ring, 0).is_enabled()


def test_it_plays_to_its_end(browser, site) -> None:
    tab = browser.new_page()
    tab.clock.install()
    tab.goto(site + "book/intro.html")
    ring = tab.locator(".phasebit-ring")
    ring.get_by_role("button", name="Play").click()
    assert ring.get_by_role("button", name="Pause").count() == 1
    tab.clock.run_for(30_000)
    assert ring.get_by_role("status").inner_text().startswith("All 3 items went through")
    assert ring.get_by_role("button", name="Play").count() == 1
    ring.get_by_role("button", name="Start over").click()
    assert bits(ring) == ["0"] * 4
    tab.close()


def test_each_word_has_one_meaning(ring) -> None:
    """A slot's content, a barrier's bit, what is missing: none is called as another."""
    slot = ring.get_by_role("listitem").first
    assert slot.inner_text().split("\n")[:2] == ["slot 0", "nothing yet"]
    for name in ("full", "empty"):
        assert f"barrier {name}: bit 0" in slot.inner_text()
    for _ in range(3):
        mover(ring, 0).click()
    assert "item 0" in slot.inner_text()


RINGS = {
    path.relative_to(HTML).as_posix(): re.findall(
        r'class="phasebit-ring"[^>]*data-ring="([^"]*)"', path.read_text(encoding="utf-8"))
    for path in sorted(HTML.glob("book/**/*.html"))
    if 'class="phasebit-ring"' in path.read_text(encoding="utf-8")
}  # fmt: skip


def test_a_ring_stands_where_chapters_introduce_one() -> None:
    wanted = ("intro", "02_", "11_", "12_", "13_", "17_", "23_")
    assert [page for page in wanted if not any(f"/{page}" in path for path in RINGS)] == []


@pytest.mark.parametrize("page", RINGS)
def test_each_ring_runs_to_its_end_and_takes_no_more_room(browser, site, page: str) -> None:
    """Also with the copy engine; and the page below does not move while it plays."""
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.clock.install()
    tab.goto(site + page)
    for box in tab.locator(".phasebit-ring").all():
        assert box.get_by_role("button", name="Play").count() == 1
        before = box.bounding_box()["height"]
        box.get_by_role("button", name="Play").click()
        tab.clock.run_for(120_000)
        assert re.match(r"All \d items went through", box.get_by_role("status").inner_text())
        assert box.bounding_box()["height"] - before < 2
    tab.close()


def test_without_scripts_it_says_what_it_is(browser, site) -> None:
    tab = browser.new_context(java_script_enabled=False).new_page()
    tab.goto(site + "book/intro.html")
    assert "a ring that you move by hand" in tab.locator(".phasebit-ring").inner_text()
    tab.context.close()
