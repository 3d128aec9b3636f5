"""What the theme and its companions write that somebody trips over, mended in the pages.

axe-core finds most of these (tests/site/test_pages.py): a name that hides the words which
stand there, a heading of a table without a word, a signature marked up as a list of definitions,
a logo that stands in no region of the page. Without scripts the theme would have no colours, and
both logos; and what a reader operates must say that it needs scripts.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

_SIGNATURE = re.compile(r'<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>')
_MENDED = (
    (re.compile(r'<summary aria-label="[^"]*">'), "<summary>"),
    (re.compile(r'(<button class="[^"]*search-button-field[^>]*?)\s+aria-label="Search"'), r"\1"),
    (re.compile(r'role="doc-biblioentry"'), 'role="listitem"'),
    (re.compile(r"<th(?: [^>]*)?>\s*(?:<p>\s*</p>\s*)?</th>"), "<td></td>"),
    (
        re.compile(r'<div class="bd-sidebar-primary bd-sidebar([^"]*)"'),
        r'<div role="region" aria-label="The book" class="bd-sidebar-primary bd-sidebar\1"',
    ),
    (re.compile(r'(<html[^>]*) data-theme="auto"'), r'\1 data-theme="light"'),
    (
        re.compile(
            r'(<div[^>]*\bclass="phasebit-(?:explorer|lab|replay|ring|stepper)"[^>]*>)(?!<noscript>)'
        ),
        r"\1<noscript><p>This part needs scripts, and none run here.</p></noscript>",
    ),
    (re.compile(r"(>Solution to)(<a [^>]*>) "), r"\1 \2"),
    (re.compile(r"<script>document\.write\(`(<img [^`]*/>)`\);</script>"), r"\1"),
)


def mend(html: str) -> str:
    """A page without what is wrong in it.

    >>> mend('<summary aria-label="Toggle hidden content">Show</summary>')
    '<summary>Show</summary>'
    >>> mend('<input id="search-input"><input id="search-input">')
    '<input id="search-input"><input>'
    """
    for wrong, right in _MENDED:
        html = wrong.sub(right, html)
    before, field, after = html.partition('id="search-input"')  # the page of results has two
    html = before + field + after.replace(' id="search-input"', "")
    return _SIGNATURE.sub(
        lambda found: found[1].replace("<dd>", '<span class="pb-sig">').replace("</dd>", "</span>"),
        html,
    )


def rewrite(app: Sphinx, error: Exception | None) -> None:
    """Mend every page that was written."""
    if error is None and app.builder.format == "html":
        for path in Path(app.outdir).glob("**/*.html"):
            html = path.read_text(encoding="utf-8")
            if (better := mend(html)) != html:
                path.write_text(better, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_js_file("scrolling.js", loading_method="defer")
    app.connect("build-finished", rewrite)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
