"""Where no scripts run: every page tells all, is coloured, and has nothing that does nothing."""

from __future__ import annotations

import re

import pytest

from .conftest import HTML

BOX = re.compile(r'class="phasebit-(?:explorer|lab|replay|ring|stepper)"')
NAMES = ("intro", "state_machine", "barriers", "tensor_cores", "hopper_ring", "chain")
PAGES = [
    path.relative_to(HTML).as_posix()
    for path in sorted(HTML.glob("book/**/*.html"))
    if re.sub(r"^\d+_", "", path.stem) in NAMES
]

pytestmark = pytest.mark.site


def test_the_pages_are_there() -> None:
    assert len(PAGES) == len(NAMES)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("path", PAGES)
def test_all_is_told(browser, site, path: str, width: int) -> None:
    context = browser.new_context(
        java_script_enabled=False, viewport={"width": width, "height": 900}
    )
    page = context.new_page()
    page.goto(site + path)
    boxes = page.locator("[class^=phasebit-]:is(div)")
    assert boxes.count() == len(BOX.findall((HTML / path).read_text(encoding="utf-8")))
    for box in boxes.all():
        assert "needs scripts" in box.inner_text()
        assert len(box.inner_text()) > 80, "and it says what would be there"
    for picture in page.locator(".phasebit-replay .pb-picture").all():
        assert picture.locator("svg:visible").count() == 1, "that of this width"
    assert page.locator("button:visible").count() == 0
    assert page.locator(".navbar-brand img:visible").count() == 1
    assert page.locator("nav.bd-docs-nav a:visible").count() > 30
    for summary in page.locator("details:has(> .solution) > summary").all():
        summary.click()
    solutions = page.locator(".solution")
    assert all(one.inner_text().count("\n") for one in solutions.all()), "nothing stays folded"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    coloured = page.locator(".highlight .k").first
    if coloured.count():
        assert coloured.evaluate(
            "e => getComputedStyle(e).color !== getComputedStyle(e.closest('pre')).color"
        )
    context.close()
