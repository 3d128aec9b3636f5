"""Pages load what they need, and no more."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

import pytest

from .conftest import HTML

PAGES = [path.relative_to(HTML).as_posix() for path in sorted(HTML.glob("book/**/*.html"))]
MOST = 1_500_000
"""Bytes of a page without formulas, with all it loads and nothing cached."""
SENT = 1_000_000
"""Bytes of any page as a server that compresses sends it, before the reader asks for more."""
SHIFT = 0.1
"""Cumulative layout shift that a browser calls good."""
_LOADED = re.compile(
    r'<script[^>]*\bsrc="([^"?#]+)|<link[^>]*\bhref="([^"?#]+\.(?:css|woff2))[^>]*>'
)

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


@cache
def sent(file: Path) -> int:
    """The size of a file as it is sent."""
    data = file.read_bytes()
    return len(gzip.compress(data) if file.suffix in (".html", ".js", ".css") else data)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_sent_in_less_than_a_megabyte(page: str) -> None:
    names = {script or style for script, style in _LOADED.findall(html(page))}
    files = {(HTML / page).parent.joinpath(name).resolve() for name in names}
    assert any(file.suffix == ".css" for file in files)
    assert not [file for file in files if "replays" in file.parts], "before the reader asks"
    assert sent(HTML / page) + sum(sent(file) for file in files if file.is_file()) < SENT


@pytest.mark.parametrize("page", ["intro", "how_fast", "double_buffering"])
def test_a_page_does_not_move_under_the_reader(browser, site, page: str) -> None:
    (path,) = [each for each in PAGES if re.search(rf"[/_]{page}\.html$", each)]
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    tab.add_init_script(
        """window.shift = 0;
        new PerformanceObserver((list) => list.getEntries().forEach((one) => {
          if (!one.hadRecentInput) window.shift += one.value;
        })).observe({ type: 'layout-shift', buffered: true });"""
    )
    tab.goto(site + path)
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate("() => window.shift") < SHIFT
    tab.close()
