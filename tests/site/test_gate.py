"""The checks on pages can fail: one planted defect each."""

from __future__ import annotations

import pytest

from .conftest import served

pytestmark = pytest.mark.site

SVG = '<svg role="img" width="90" height="30"><title>t</title>%s</svg>'
GOOD = "<p>Words.</p>" + SVG % '<text y="20">ink</text>'
PLANTED = {
    "wide page": ('<div style="width:3000px">wide</div>', "wider than the screen"),
    "missing picture": ('<img src="none.png" alt="none">', "missing picture"),
    "picture without words": (
        '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==">',
        "picture without words",
    ),
    "outside picture": ('<img src="http://example.org/a.png" alt="a">', "request to another host"),
    "outside script": (
        '<script src="http://example.org/a.js"></script>',
        "request to another host",
    ),
    "console error": ("<script>console.error('oh')</script>", "console: oh"),
    "script error": ("<script>throw new Error('oh')</script>", "script: oh"),
    "pale letters": (SVG % '<text y="20" fill="#ddd">pale</text>', 'of "pale"'),
    "letters on a dark box": (
        SVG % '<rect width="90" height="30" fill="#222"/><text y="20" x="9">dark</text>',
        'of "dark"',
    ),
    "a pale table": ('<table><tr><td style="color:#ddd">cell</td></tr></table>', 'of "cell"'),
    "svg without a title": ('<svg role="img" width="90" height="30"></svg>', "without a title"),
    "an id twice": ('<i id="a">x</i><i id="a">y</i>', "the id a stands twice"),
}


def page(body: str) -> str:
    return (
        '<!DOCTYPE html><meta charset="utf-8"><link rel="icon" href="data:,">'
        f'<body style="background:#fff"><article class="bd-article">{body}</article>'
    )


def test_a_good_page_passes(browser, tmp_path) -> None:
    from .look import look

    (tmp_path / "page.html").write_text(page(GOOD), encoding="utf-8")
    with served(tmp_path) as base:
        assert look(browser, base, "page.html") == []


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_defect_is_found(browser, tmp_path, name) -> None:
    from .look import look

    body, complaint = PLANTED[name]
    (tmp_path / "page.html").write_text(page(GOOD + body), encoding="utf-8")
    with served(tmp_path) as base:
        assert any(complaint in one for one in look(browser, base, "page.html")), name
