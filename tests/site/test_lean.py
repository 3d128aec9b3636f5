"""Pages load what they need, and no more."""

from __future__ import annotations

import gzip
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from .conftest import HTML, ROOT

PAGES = [path.relative_to(HTML).as_posix() for path in sorted(HTML.glob("book/**/*.html"))]
MOST = 1_500_000
"""Bytes of a page as it lies on the disk, with all it loads and nothing cached."""
SENT = 500_000
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
def test_a_page_loads_no_style_of_what_it_has_not(page: str) -> None:
    text = html(page)
    assert ("sphinx-design.min.css" in text) is bool(re.search(r'class="[^"]*\bsd-', text))
    assert "fontawesome/6.5.2/js" not in text and 'as="font"' not in text
    assert "MathJax" not in text.split("</head>")[0]


def test_what_is_left_out_of_a_page_is_what_it_does_not_need() -> None:
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    from phasebit_book.lean import lean

    link = '<link rel="stylesheet" href="../_static/sphinx-design.min.css?v=6a60">'
    assert lean(f"<head>{link}</head><p>words</p>") == "<head></head><p>words</p>"
    assert link in lean(f'<head>{link}</head><p class="a sd-b">words</p>')


def test_icons_are_found_however_a_style_sheet_writes_them() -> None:
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    from phasebit_book.icons import asked

    assert asked('a{content:"\\f05a"} b{content:"\uf0eb"} c{content:"f19d"}') == {"f05a", "f0eb"}


def test_icons_are_drawn_by_fonts_of_their_own_letters(browser, site) -> None:
    tab = browser.new_page()
    tab.goto(site + "book/intro.html")
    tab.wait_for_load_state("networkidle")
    drawn = tab.evaluate(
        """() => [...document.querySelectorAll('.bd-header-article i[class*=fa]')]
          .map(e => getComputedStyle(e, '::before').content)"""
    )
    assert drawn and all(letter not in ("none", "normal", '""') for letter in drawn)
    for face in ('900 16px "Font Awesome 6 Free"', '400 16px "Font Awesome 6 Brands"'):
        assert tab.evaluate(
            """([face, letters]) => document.fonts.load(face, letters).then(one => one.length)""",
            [face, "".join(letter.strip('"') for letter in drawn)],
        ), face
    tab.close()


@cache
def sent(file: Path) -> int:
    """The size of a file as it is sent."""
    data = file.read_bytes()
    return len(gzip.compress(data) if file.suffix in (".html", ".js", ".css") else data)


_FONT = re.compile(r"url\(\"?([^\"()]+\.woff2?)")


def loaded(page: str) -> set[Path]:
    """The files that a page loads by itself: scripts, styles, the font of its signs."""
    names = {script or style for script, style in _LOADED.findall(html(page))}
    files = {(HTML / page).parent.joinpath(name).resolve() for name in names}
    for style in [file for file in files if file.name == "phasebit.css"]:
        fonts = _FONT.findall(style.read_text(encoding="utf-8"))
        files |= {style.parent / font for font in fonts}
    return {HTML / page, *files}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_light(page: str) -> None:
    files = loaded(page)
    assert {file.name for file in files} >= {"phasebit.css", "signs.woff"}
    assert not [file for file in files if "replays" in file.parts], "before the reader asks"
    assert sum(file.stat().st_size for file in files) < MOST
    assert sum(map(sent, files)) < SENT


def test_what_makes_elements_is_written_once_and_there_before_it_is_needed() -> None:
    makes = "document.createElement(tag)"
    scripts = {path.name: path.read_text("utf-8") for path in (HTML / "_static").glob("*.js")}
    assert [name for name, text in scripts.items() if makes in text] == ["elements.js"]
    needs = {name for name, text in scripts.items() if "window.phasebitElement;" in text}
    assert len(needs) >= 6
    for page in PAGES:
        names = [Path(script).name for script, _ in _LOADED.findall(html(page)) if script]
        assert names.count("elements.js") == 1
        later = names[names.index("elements.js") :]
        assert needs & {*names} == needs & {*later}


@pytest.mark.parametrize("page", ["intro", "how_fast", "double_buffering"])
def test_a_page_does_not_move_under_the_reader(browser, site, page: str) -> None:
    (path,) = [each for each in PAGES if re.search(rf"[/_]{page}\.html$", each)]
    tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    tab.add_init_script(
        """window.shift = 0;
        new PerformanceObserver((list) => list.getEntries().forEach((one) => {
          if (!one.hadRecentInput) window.shift += one.value;
        })).observe({ type: 'layout-shift', buffered: true });"""
    )
    tab.goto(site + path)
    tab.wait_for_load_state("networkidle")
    assert tab.evaluate("() => window.shift") < SHIFT
    tab.context.close()
