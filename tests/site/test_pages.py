"""Every page, light and dark, at desktop and phone width: each is loaded once for all tests.

A page costs seconds of processor time to load, so all that is asked of every page is asked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from phasebit import contents

from .conftest import HTML

PAGES = sorted(
    path.relative_to(HTML).as_posix()
    for path in HTML.glob("**/*.html")
    if "_static" not in path.parts and path != HTML / "index.html"  # a redirection
)
CHAPTERS = [
    page for page in PAGES if page.startswith("book/part") and not page.endswith("/part.html")
]

pytestmark = pytest.mark.site


each_page = pytest.mark.parametrize("visited", PAGES, indirect=True)
each_chapter = pytest.mark.parametrize("visited", CHAPTERS, indirect=True)


@pytest.fixture(scope="module")
def visited(browser, site, request) -> Iterator[tuple[str, object, object]]:
    """A page, its tab, and what it complained of; pytest sorts the tests by their page."""
    from .look import opened

    with opened(browser, site, request.param) as (tab, watch):
        yield request.param, tab, watch


@each_page
def test_nothing_is_wrong(visited) -> None:
    from .look import faults

    _, tab, watch = visited
    assert faults(tab, watch) == []


def test_the_pages_are_all_there() -> None:
    assert len(CHAPTERS) >= 4
    assert {"book/intro.html", "book/how_to_read.html", "genindex.html", "search.html"} < {*PAGES}


@each_chapter
def test_a_chapter_opens_in_colab_and_downloads_as_a_notebook(visited) -> None:
    from tests.book.notebooks import address

    page, tab, _ = visited
    notebook = page.removesuffix(".html") + ".ipynb"
    colab = tab.locator("a[href*='colab.research.google.com']").first.get_attribute("href")
    owner_and_name = address().removeprefix("https://github.com/")
    assert (
        colab == f"https://colab.research.google.com/github/{owner_and_name}/blob/main/{notebook}"
    )
    source = tab.locator("a.btn-download-source-button").first
    answer = tab.request.get(source.evaluate("a => a.href"))
    assert answer.ok and answer.json()["nbformat"] == 4


@each_chapter
def test_a_chapter_says_its_tier_and_leads_on(visited) -> None:
    page, tab, _ = visited
    assert tab.locator(".pb-tier").inner_text().startswith("Runs on")
    assert tab.locator("a.left-prev").count() == 1
    assert tab.locator("a.right-next").count() == 1
    number = contents.number(Path(page))
    begins = "" if number is None else f"{number}. "
    assert tab.locator("article h1").inner_text().startswith(begins)


@each_page
def test_axe_finds_nothing(visited) -> None:
    """The last of a page's tests: axe thins it out."""
    from .axe import violations

    _, tab, _ = visited
    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size({"width": 1280, "height": 900})
    for button in tab.query_selector_all(".pb-exercise-start, .pb-replay-start")[:2]:
        button.click()  # and it is gone
    assert violations(tab) == []


def test_formulas_are_set_in_their_font_without_a_script(browser, site) -> None:
    shown = [page for page in PAGES if "<math " in (HTML / page).read_text(encoding="utf-8")]
    assert len(shown) > 10
    tab = browser.new_context(java_script_enabled=False).new_page()
    # No font that the page asks for arrives: one of formulas that came late would move the text.
    tab.route(re.compile(r"\.woff2?"), lambda route: route.abort())
    tab.goto(site + next(page for page in shown if "how_fast" in page))
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate(
        """() => [...document.fonts].filter(one => one.family.includes('Phase Bit Math'))
          .map(one => one.status)"""
    ) == ["loaded"]
    fraction = tab.locator("math[display=block] mfrac").first.bounding_box()
    letter = tab.locator("math[display=block] mi").first.bounding_box()
    assert fraction and letter and fraction["height"] > 1.5 * letter["height"]
    tab.context.close()


def test_roots_are_drawn(browser, site) -> None:
    page = next(page for page in CHAPTERS if "<msqrt" in (HTML / page).read_text(encoding="utf-8"))
    tab = browser.new_page()
    tab.goto(site + page)
    sign = """root => root.getBoundingClientRect().width
        - [...root.children].reduce((sum, one) => sum + one.getBoundingClientRect().width, 0)"""
    widths = [root.evaluate(sign) for root in tab.query_selector_all("msqrt")]
    assert widths and min(widths) > 4
    tab.close()


def test_the_theme_can_be_switched_and_pictures_follow(browser, site) -> None:
    tab = browser.new_context(color_scheme="light").new_page()
    tab.goto(site + "book/intro.html")
    colour = "getComputedStyle(document.querySelector('.pb-picture text')).fill"
    before = tab.evaluate(colour)
    for _ in range(3):  # light, dark, as the system
        tab.locator("button.theme-switch-button:visible").first.click()
        if tab.evaluate("document.documentElement.dataset.theme") == "dark":
            break
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    assert tab.evaluate(colour) != before
    tab.context.close()


def test_search_finds_a_word_of_the_glossary(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + "search.html?q=interleaving")
    tab.wait_for_selector("#search-results li a")
    assert tab.locator("#search-results li a[href*='glossary']").count() >= 1
    tab.close()


def test_a_search_begins_where_most_is_said(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + "search.html?q=phase")
    tab.get_by_text("Search finished").wait_for()
    found = tab.locator("#search-results li > a").all_inner_texts()
    assert "3. Barriers" in found[:3]
    assert len(found) < 60  # names that have the word in the package's own alone are left out
    tab.locator("#search-results p.context").nth(len(CHAPTERS) // 2).wait_for()
    assert "ModuleNotFoundError" not in " ".join(
        tab.locator("#search-results p.context").all_inner_texts()
    )
    tab.goto(site + "search.html?q=simulate")
    tab.locator("#search-results li > a", has_text="phasebit.simulate").first.wait_for()
    tab.close()


def test_the_index_lists_terms(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + "genindex.html")
    assert tab.get_by_role("link", name="phase bit").count() >= 1
    tab.close()
