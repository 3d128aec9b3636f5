"""What look.py finds pale in a picture or a table, planted; and what it leaves alone."""

from __future__ import annotations

import pytest

from .look import CONTRAST, LEAST_CONTRAST

pytestmark = pytest.mark.site


def svg(*inside: str) -> str:
    return f'<svg role="img" width="200" height="60"><title>t</title>{"".join(inside)}</svg>'


def word(fill: str, x: int = 40) -> str:
    return f'<text x="{x}" y="30" fill="{fill}">word</text>'


def box(fill: str, x: int = 0, more: str = "") -> str:
    return f'<rect x="{x}" width="100" height="60" fill="{fill}" {more}/>'


PALE = {
    "on the page": svg(word("#bbb")),
    "on a box": svg(box("#000"), word("#333")),
    "on the last of two boxes": svg(box("#fff"), box("#222"), word("#000")),
    "on a box that lets half through": svg(box("#000", more='fill-opacity="0.5"'), word("#666")),
    "in a group that is moved": svg(
        f'<g transform="translate(50 0)">{box("#000")}{word("#222")}</g>'
    ),
    "in the hole's rim": svg(
        '<path d="M0 0h200v60h-200z M10 10v2h2v-2z" fill="#000"/>', word("#222")
    ),
    "in a table": "<table><tr><td style='color:#ccc'>word</td></tr></table>",
    "on the ground of a row": "<table><tr style='background:#333'><td>word</td></tr></table>",
}
GOOD = {
    "on the page": svg(word("#000")),
    "beside a box": svg(box("#000", x=100), word("#000")),
    "under a box": svg(word("#000"), box("#222")),
    "on a box without paint": svg(box("none"), word("#000")),
    "in the hole of a box": svg(
        '<path d="M0 0h200v60h-200z M5 5v50h150v-50z" fill="#000"/>', word("#000")
    ),
    "on a box of light": svg(box("#000"), box("#fff"), word("#222")),
}


def pale(browser, within: str) -> list[str]:
    tab = browser.new_page()
    try:
        tab.set_content(
            f'<body style="background:#fff;color:#000"><div class="bd-article">{within}</div>'
        )
        return tab.evaluate(CONTRAST, LEAST_CONTRAST)
    finally:
        tab.close()


@pytest.mark.parametrize("where", PALE)
def test_a_pale_word_is_found(browser, where: str) -> None:
    (found,) = pale(browser, PALE[where])
    assert found.startswith("contrast ") and found.endswith('of "word"')


@pytest.mark.parametrize("where", GOOD)
def test_a_word_that_can_be_read_is_not(browser, where: str) -> None:
    assert pale(browser, GOOD[where]) == []
