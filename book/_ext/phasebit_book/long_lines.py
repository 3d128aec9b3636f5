"""Lines of code that a narrow screen may continue below.

Each line is an element of its own. The element says how far the line is indented, so that
``phasebit.css`` can hang what is continued further in, with a bar before it. A line of a table, of
numbers or of letters that draw, would lie when it is broken: it is marked, and scrolls where it is
no code. On a tablet a table that is a little too wide has smaller letters, and what would be too
wide in those is broken nevertheless. The text is what it was.
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
_INDENT = re.compile(r"(?:[+-](?= {2}))? *(?:\d+ {2,})?")
_PIECE = re.compile(r"<[^>]*>|&#?\w+;|[^<]")
_COLUMNS = re.compile(r"(?!^[+-])\S {2,}\S|[\u2500-\u25ff]|([^\w\s])\1{5}")

_LISTED = re.compile(r"^ *\d+ {2,}(?=[^\d\s].*[;{}()])")
"""A line's number in a listing that is printed."""

_NUMBER = re.compile(r'<span class="linenos">( *\d+)</span>')
NUMBERED = 2
"""Columns between a line's number and the line (``.linenos`` in ``phasebit.css``)."""
MOST = 16
"""Columns by which a line is indented at most on a phone, which shows about fifty."""
_DEEP = re.compile(rf"((?:<[^>]*>| *\d+(?= {{2}}))*)( {{{MOST}}})( +)(?=[^ ])")
TABLET = 88, 104
"""Columns that a tablet shows of a line, in letters of the usual size and in the smallest."""
ROOM = 36
"""Columns that a phone shows of a line at least: in a box within a box."""


def indent(text: str) -> int:
    """Columns before a line begins, with a number or a sign of a difference that stands there.

    >>> indent("    x = 1;"), indent("  12  x = 1;"), indent("+   x"), indent("x")
    (4, 6, 4, 0)
    """
    return len(_INDENT.match(text)[0])  # type: ignore[index]


def in_columns(text: str) -> bool:
    """Whether a line has columns, or draws.

    >>> in_columns("a  12"), in_columns("P0 ██"), in_columns("    a plain sentence")
    (True, True, False)
    >>> in_columns("-       stage += 1"), in_columns("- a  12"), in_columns("  12  x = 1;")
    (False, True, False)
    """
    return bool(_COLUMNS.search(_LISTED.sub("", text)))


def breakable(line: str, text: str) -> str:
    """A line of HTML whose first word finds a place behind its indent, broken if it must be.

    What a phone does not show of the indent is an element of its own.

    >>> breakable("<b>f</b>(" + "x" * 44, "f(" + "x" * 44)[:19]
    '<b>f</b>(<wbr>xxxxx'
    """
    begin = indent(text)
    end = begin + len(text[begin:].split(" ", 1)[0])
    if begin > MOST:
        line = _DEEP.sub(r'\1\2<span class="pb-deep">\3</span>', line, count=1)
    if min(begin, MOST) + end - begin <= ROOM:
        return line
    made, at = "", 0
    for piece in _PIECE.findall(line.rstrip("\n")):
        made += piece
        if not piece.startswith("<"):
            at += 1
            if begin < at < end and text[at - 1] in "(:.,_[" and text[at] not in "(:.,_[":
                made += "<wbr>"
    return made + line[len(line.rstrip("\n")) :]


def elements(lines: Iterable[str]) -> Iterator[str]:
    """Lines of HTML, each in an element. What stands between two empty lines is one table or none.

    >>> [*elements(["  <b>x</b>\\n"])]
    ['<span class="pb-line" style="--in:2">  <b>x</b>\\n</span>']
    >>> [*elements(['<span class="linenos"> 7</span>x'])][0][:37]
    '<span class="pb-line" style="--in:4">'

    What stands far out of a table is a sentence; a table may be too wide for a tablet.

    >>> [each[:36] for each in elements(["a  12", "a sentence, " + 90 * "x"])]
    ['<span class="pb-line pb-columns">a  ', '<span class="pb-line">a sentence, xx']
    >>> [*elements(["a  " + 92 * "1"])][0][:51]
    '<span class="pb-line pb-columns" style="--wide:95">'
    """
    texts = [(line, unescape(_TAG.sub("", line)).rstrip("\n")) for line in lines]
    for _, group in groupby(texts, key=lambda line: bool(line[1].strip())):
        block = [*group]
        columns = 2 * sum(in_columns(text) for _, text in block) >= len(block)
        columns = columns and bool(block[0][1].strip())
        wide = max((len(text) for _, text in block if in_columns(text)), default=0)
        for line, text in block:
            table = columns and (in_columns(text) or len(text) <= max(wide, TABLET[0]))
            kind = "pb-line pb-columns" if table else "pb-line"
            if table and wide > TABLET[1]:
                kind += " pb-wide"
            number = _NUMBER.match(line)
            begins = len(number[1]) if number else 0
            by = min(indent(text[begins:]), MOST) if text.strip() else 0
            by += begins and begins + NUMBERED
            styles = [f"--in:{by}"] if by else []
            if columns and TABLET[0] < wide <= TABLET[1]:
                styles.append(f"--wide:{wide}")
            style = f' style="{";".join(styles)}"' if styles else ""
            yield f'<span class="{kind}"{style}>{breakable(line, text)}</span>'


class InLines(HtmlFormatter):  # type: ignore[type-arg]
    """Pygments' HTML with an element around each line, its number included."""

    def wrap(self, source: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        lines = ((1, line) for line in elements(line for _, line in source))
        yield from super().wrap(lines)  # type: ignore[no-untyped-call]


def setup(app: Sphinx) -> dict[str, bool]:
    PygmentsBridge.html_formatter = InLines  # type: ignore[misc]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
