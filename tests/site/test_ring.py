"""The ring at a glance, on the front page: what it invites to, and that it tells the truth."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.site


@pytest.fixture
def ring(browser, site):
    """The front page's first picture, on a phone."""
    from .look import CONTRAST, LEAST_CONTRAST, OVERFLOW, THEMES, Watch

    tab = browser.new_page(viewport={"width": 390, "height": 844}, reduced_motion="reduce")
    watch = Watch(site)
    watch.attach(tab)
    tab.goto(site + "book/intro.html")
    tab.wait_for_load_state("networkidle")
    yield tab.locator(".phasebit-ring")
    for theme in THEMES:
        tab.emulate_media(color_scheme=theme)
        for width in (390, 820, 1440):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate(OVERFLOW) + tab.evaluate(CONTRAST, LEAST_CONTRAST) == []
    assert watch.wrong == []
    tab.close()


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


def test_without_scripts_it_says_what_it_is(browser, site) -> None:
    tab = browser.new_context(java_script_enabled=False).new_page()
    tab.goto(site + "book/intro.html")
    assert "a ring that you move by hand" in tab.locator(".phasebit-ring").inner_text()
    tab.context.close()
