"""Pages load what they need, and no more."""

from __future__ import annotations

import re

import pytest

from .conftest import HTML

PAGES = [path.relative_to(HTML).as_posix() for path in sorted(HTML.glob("book/**/*.html"))]
MOST = 1_500_000
"""Bytes of a page without formulas, with all it loads and nothing cached."""

pytestmark = pytest.mark.site


def html(page: str) -> str:
    return (HTML / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_one_heading_and_says_what_it_is_about(page: str) -> None:
    text = html(page)
    assert len(re.findall(r"<h1\b", text)) == 1
    if "genindex" not in page:
        found = re.search(r'<meta name="description" content="([^"]+)">', text)
        assert found and len(found[1]) > 20
        assert f'<meta property="og:description" content="{found[1]}">' in text


def test_no_two_pages_say_the_same_of_themselves() -> None:
    said = [
        re.findall(r'<meta name="description" content="([^"]+)">', html(page)) for page in PAGES
    ]
    told = [one[0] for one in said if one]
    assert len(set(told)) == len(told) > 15


@pytest.mark.parametrize("page", PAGES)
def test_mathjax_comes_where_there_is_a_formula(page: str) -> None:
    text = html(page)
    article = text[text.index("<article") : text.index("</article>")]
    assert ("tex-chtml.js" in text) is bool(re.search(r'class="[^"]*\bmath\b', article))


def test_the_front_page_is_light_and_has_its_icons(browser, site) -> None:
    tab = browser.new_page()
    loaded: list[int] = []
    tab.on("response", lambda answer: loaded.append(len(answer.body())))
    tab.goto(site + "book/intro.html")
    tab.wait_for_load_state("networkidle")
    assert sum(loaded) < MOST
    drawn = tab.evaluate(
        """() => [...document.querySelectorAll('.bd-header-article i[class*=fa]')]
          .map(e => getComputedStyle(e, '::before').content)"""
    )
    assert drawn and all(letter not in ("none", "normal", '""') for letter in drawn)
    assert tab.evaluate("() => document.fonts.check('900 16px \"Font Awesome 6 Free\"')")
    tab.close()
