"""By Tab, Enter, Space and arrows alone: all that can be operated, and one sees where one is."""

from __future__ import annotations

import pytest

from .conftest import HTML
from .test_stepper import mover

pytestmark = pytest.mark.site

STARTS = {"phasebit-lab": "Start the lab", "phasebit-replay": "Replay"}
"""Boxes that load what they need when the reader asks."""
KINDS = ("phasebit-ring", "phasebit-stepper", "phasebit-explorer", *STARTS)

# What Tab should reach of a box, in the order of the page: a group of radio buttons is one stop.
STOPS = """(box) => {
  const groups = new Set();
  return [...box.querySelectorAll(
      'a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter((one) => {
    if (one.disabled || one.tabIndex < 0 || !one.checkVisibility({visibilityProperty: true}))
      return false;
    if (one.type !== 'radio') return true;
    const known = groups.has(one.name);
    groups.add(one.name);
    return !known;
  }).length;
}"""
# Where the focus is: whether it is in the box, in sight, not covered, and looks otherwise than an
# element without it.
HERE = """(box) => {
  const one = document.activeElement;
  if (!box.contains(one)) return null;
  const look = () => {
    const style = getComputedStyle(one);
    return [style.outlineStyle === 'none' ? '' : style.outlineWidth + style.outlineColor,
            style.boxShadow].join();
  };
  const {left, right, top, bottom} = one.getBoundingClientRect();
  const x = (Math.max(left, 0) + Math.min(right, innerWidth)) / 2;
  const y = (Math.max(top, 0) + Math.min(bottom, innerHeight)) / 2;
  const there = document.elementFromPoint(x, y);
  const focused = look();
  one.blur();
  const blurred = look();
  one.focus({preventScroll: true, focusVisible: true});
  return {name: `${one.tagName} ${one.getAttribute('aria-label') ?? one.textContent.slice(0, 30)}`,
          shows: focused !== blurred,
          seen: Boolean(there && (one.contains(there) || there.contains(one)))};
}"""


def page_of(kind: str) -> str:
    return next(
        path.relative_to(HTML).as_posix()
        for path in sorted(HTML.glob("**/*.html"))
        if f'class="{kind}"' in path.read_text(encoding="utf-8")
    )


def walked(tab, box) -> list[dict]:  # type: ignore[no-untyped-def, type-arg]
    """The stops of a walk by Tab through a box, from right before it."""
    box.evaluate("""(box) => {
      const before = document.createElement('button');
      before.id = 'before'; box.before(before); before.focus();
    }""")
    stops: list[dict] = []  # type: ignore[type-arg]
    for _ in range(80):
        tab.keyboard.press("Tab")
        here = box.evaluate(HERE)
        if here is None:
            return stops
        stops.append(here)
    raise AssertionError(f"Tab does not come out: {stops[-4:]}")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_tab_reaches_all_and_shows_where_it_is(browser, site, kind: str, width: int) -> None:
    size = {"width": width, "height": 844}
    tab = browser.new_page(viewport=size, reduced_motion="reduce")  # the page scrolls at once
    tab.goto(site + page_of(kind))
    box = tab.locator(f".{kind}").first
    if kind in STARTS:
        box.get_by_role("button", name=STARTS[kind]).press("Enter")
    box.locator("button:enabled, select, input").nth(1).wait_for()
    tab.wait_for_load_state("networkidle")
    stops = walked(tab, box)
    assert len(stops) == box.evaluate(STOPS) >= 3, [one["name"] for one in stops]
    assert [one["name"] for one in stops if not one["shows"]] == [], "the focus is not seen"
    assert [one["name"] for one in stops if not one["seen"]] == [], "out of sight, or covered"
    tab.add_style_tag(content=f".{kind} * {{ outline: 0 !important; box-shadow: none !important }}")
    assert not all(one["shows"] for one in walked(tab, box))
    tab.close()


def test_space_does_what_enter_does(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + page_of("phasebit-stepper"))
    box = tab.locator(".phasebit-stepper").first
    told = []
    for key in ("Enter", " "):
        mover(box, "producer").focus()
        tab.keyboard.press(key)
        told.append(box.inner_text())
        box.get_by_role("button", name="Back").press(key)
    assert told[0] == told[1] != box.inner_text()
    tab.close()
