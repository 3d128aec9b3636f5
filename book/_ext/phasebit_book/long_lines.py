"""Lines of code that a narrow screen may continue below: each in an element of its own.

The element says how far the line is indented, so that ``phasebit.css`` can hang what is continued
further in, with a bar before it. A line of a table, of numbers or of letters that draw, would lie
when it is broken: it is marked, and scrolls where it is no code. The text is what it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import unescape
from itertools import groupby

from pygments.formatters import HtmlFormatter
from sphinx.application import Sphinx
from sphinx.highlighting import PygmentsBridge

_TAG = re.compile(r"<[^>]*>")
_INDENT = re.compile(r" *(?:\d+ {2,})?")
_COLUMNS = re.compile(r"\S {2,}\S|[\u2500-\u25ff]|([^\w\s])\1{5}")

MOST = 16
"""Columns by which a continued line is indented at most: a phone shows about fifty."""


def indent(text: str) -> int:
    """Columns before a line begins, the number of a printed listing's line among them.

    >>> indent("    x = 1;"), indent("  12  x = 1;"), indent("x")
    (4, 6, 0)
    """
    return len(_INDENT.match(text)[0])  # type: ignore[index]


def in_columns(text: str) -> bool:
    """Whether a line has columns, or draws.

    >>> in_columns("a  12"), in_columns("P0 ██"), in_columns("    a plain sentence")
    (True, True, False)
    """
    return bool(_COLUMNS.search(text))


def elements(lines: Iterable[str]) -> Iterator[str]:
    """Lines of HTML, each in an element. What stands between two empty lines is one table or none.

    >>> [*elements(["  <b>x</b>\\n"])]
    ['<span class="pb-line" style="--in:2">  <b>x</b>\\n</span>']
    """
    texts = [(line, unescape(_TAG.sub("", line)).rstrip("\n")) for line in lines]
    for _, group in groupby(texts, key=lambda line: bool(line[1].strip())):
        block = [*group]
        columns = 2 * sum(in_columns(text) for _, text in block) >= len(block)
        kind = "pb-line pb-columns" if columns and block[0][1].strip() else "pb-line"
        for line, text in block:
            by = min(indent(text), MOST) if text.strip() else 0
            style = f' style="--in:{by}"' if by else ""
            yield f'<span class="{kind}"{style}>{line}</span>'


class InLines(HtmlFormatter):  # type: ignore[type-arg]
    """Pygments' HTML with an element around each line, its number included."""

    def wrap(self, source: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        lines = ((1, line) for line in elements(line for _, line in source))
        yield from super().wrap(lines)  # type: ignore[no-untyped-call]


def setup(app: Sphinx) -> dict[str, bool]:
    PygmentsBridge.html_formatter = InLines  # type: ignore[misc]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
