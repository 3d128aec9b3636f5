"""What moves in the pages moves in a second browser too, where there is a Firefox."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import firefox
from .conftest import HTML

pytestmark = [
    pytest.mark.site,
    pytest.mark.skipif(firefox.find() is None, reason="no Firefox here"),
]

BOX = ".phasebit-explorer[data-explorer=%s] "
STEPPER = ".phasebit-stepper "
READY = "return document.readyState === 'complete'"


@pytest.fixture(scope="module")
def tab(tmp_path_factory) -> Iterator[firefox.Firefox]:
    with firefox.running(str(firefox.find()), tmp_path_factory.mktemp("profile")) as page:
        yield page


def page(name: str) -> str:
    (found,) = HTML.glob(f"book/**/*{name}.html")
    return found.relative_to(HTML).as_posix()


def show(tab: firefox.Firefox, site: str, name: str) -> None:
    """Open a page, and note what goes wrong in it from then on."""
    tab.open(site + page(name))
    tab.evaluate(
        "window.wrong = []; addEventListener('error', (one) => window.wrong.push(one.message));"
    )
    assert "Firefox" in tab.evaluate("return navigator.userAgent")


def well(tab: firefox.Firefox) -> None:
    assert tab.evaluate("return window.wrong") == []
    assert tab.evaluate("return document.documentElement.scrollWidth <= innerWidth")


def test_the_barrier_is_stepped(tab, site) -> None:
    show(tab, site, "intro")
    before = tab.text(STEPPER + ".pb-step-said")
    for _ in range(2):
        tab.click(STEPPER + "section[aria-label=producer] .pb-step-move")
    assert tab.text(STEPPER + ".pb-step-said") != before
    assert tab.evaluate("return document.querySelectorAll('.pb-step-log li').length") == 2
    well(tab)


def test_explorers_follow_the_fields(tab, site) -> None:
    show(tab, site, "copy_engine")
    said = BOX % "banks" + "[role=status]"
    assert tab.text(said).startswith("32 wavefronts")
    tab.evaluate(
        """const field = document.querySelector(arguments[0] + "select");
        field.value = "128B"; field.dispatchEvent(new Event("input", {bubbles: true}));""",
        BOX % "banks",
    )
    assert tab.text(said).startswith("4 wavefronts")
    tab.type(BOX % "box" + "input", "6")  # of four bytes each
    assert "must begin at a multiple of 16" in tab.text(BOX % "box" + "[role=alert]")
    tab.type(BOX % "box" + "input", "12")  # a box 8 wide, in a tensor 16 wide
    assert "zeros for what lies outside" in tab.text(BOX % "box" + "[role=status]")
    well(tab)


def test_formulas_are_set(tab, site) -> None:
    show(tab, site, "how_fast")
    heights = tab.evaluate(
        """return ["mfrac", "mi"].map((name) => document.querySelector(
          `math[display=block] ${name}`).getBoundingClientRect().height)"""
    )
    assert heights[0] > 1.5 * heights[1] > 0
    assert tab.evaluate("return document.fonts.check('16px \"Phase Bit Math\"')")
    well(tab)


def test_the_lab_runs(tab, site) -> None:
    show(tab, site, "state_machine")
    tab.click(".phasebit-lab button")
    tab.wait("return document.querySelector('.phasebit-lab svg.phasebit-timeline') !== null")
    assert "jobs" in tab.text(".phasebit-lab .pb-lab-numbers")
    well(tab)


def test_a_replay_is_played(tab, site) -> None:
    show(tab, site, "double_buffering")
    box = "return document.querySelector('.phasebit-replay"
    if not tab.evaluate(box + " .pb-replay-start') !== null"):
        pytest.skip("no replay was recorded: there is no nvcc")
    tab.click(".phasebit-replay .pb-replay-start")
    tab.wait(box + " .pb-replay-rows') !== null")
    before = tab.text(".phasebit-replay [role=status]")
    tab.evaluate(
        """const slider = document.querySelector('.phasebit-replay input[type=range]');
        slider.value = slider.max / 2; slider.dispatchEvent(new Event('input'));"""
    )
    assert tab.text(".phasebit-replay [role=status]") != before
    well(tab)
