"""Tables, in the prose and in what cells put out: each cell says what it holds.

A column of numbers is set flush right, so that digits stand below digits, and its heading with it.
A cell that is a sentence may take several lines; what is short keeps to one (``phasebit.css``).
A table with words that is too wide for a phone is stacked there: its cells stand one below the
other, and each says what it is, with the heading of its column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import unescape
from itertools import zip_longest
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

SENTENCE = 36
"""Letters of a cell that is no name and no number."""
SHORT = 20
"""Letters that each cell of a column has at most, if none of them is broken."""

PHONE = 350
"""Pixels that a phone has for a table."""
_WORDS, _SENTENCE, _LETTER, _EDGES = 96, 144, 6.6, 14
"""Pixels there: of a column of words, one of sentences, a letter, what lies beside it."""

_NUMBER = r"[-−+±~≈<>≤≥]?\s?\d[\d,.]*(?:\s?(?:[%×x]|[kKMGT]i?B|[nµm]?s)(?!\w))?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:(?: to | of | / | × | \+ |–|, ){_NUMBER})*")
_NOTHING = ("", "–", "-", "—")

_TABLE = re.compile(r"<table.*?</table>", re.S)
_CLASSES = re.compile(r'<table class="([^"]*)"')
_STACKED = re.compile(r'<table[^>]*\bclass="[^"]*\bpb-stacked\b.*?</table>', re.S)
_HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>", re.S)
_BODY_ROW = re.compile(r"<tr\b[^>]*>.*?</tr>", re.S)
_BODY_CELL = re.compile(r"<td\b")
_ROW = re.compile(r"<tr>(.*?)</tr>", re.S)
_CELL = re.compile(r"<(t[hd])>(.*?)</\1>", re.S)
_TAG = re.compile(r"<[^>]*>")


def kind(cells: Sequence[str]) -> str:
    """The class of a column, from the texts below its heading: numbers, names, or words.

    >>> kind(["1,024", "≥ 0.5 %", "–"]), kind(["wgmma", "64"]), kind(["what a thread sees first"])
    ('pb-digits', 'pb-short', 'pb-words')
    """
    said = [cell.strip() for cell in cells if cell.strip() not in _NOTHING]
    if said and all(_NUMBERS.fullmatch(cell) for cell in said):
        return "pb-digits"
    return "pb-short" if all(len(cell) <= SHORT for cell in said) else "pb-words"


def kinds(rows: Sequence[Sequence[str]]) -> list[str]:
    """The classes of the columns of a table's body; the first column, which names, is no number."""
    found = [kind(column) for column in zip_longest(*rows, fillvalue="")]
    return ["pb-short" if not at and one == "pb-digits" else one for at, one in enumerate(found)]


def stacks(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table with these texts is too wide for a phone, and has more than numbers.

    >>> stacks([["a", "1", "2"]]), stacks([["what a thread sees first", "x" * 40, "y" * 40]])
    (False, True)
    """
    wide = 0.0
    words = False
    for name, column in zip(kinds(rows), zip_longest(*rows, fillvalue=""), strict=True):
        longest = max(map(len, column))
        words |= longest > SENTENCE
        most = {"pb-words": _SENTENCE if longest > SENTENCE else _WORDS}.get(name, math.inf)
        wide += min(longest * _LETTER, most) + _EDGES
    return words and wide > PHONE


def headed(html: str) -> str:
    """A page in which each cell of a stacked table has the heading of its column.

    >>> headed('<table class="pb-stacked"><tr><th>a</th></tr><tr><td>1</td></tr></table>')
    '<table class="pb-stacked"><tr><th>a</th></tr><tr><td data-head="a">1</td></tr></table>'
    """

    def table(found: re.Match[str]) -> str:
        heads = [_TAG.sub("", head).strip() for head in _HEADING.findall(found[0])]

        def row(one: re.Match[str]) -> str:
            at = iter(heads)
            return _BODY_CELL.sub(lambda _: _cell_of(next(at, "")), one[0])

        return _BODY_ROW.sub(row, found[0])

    return _STACKED.sub(table, html)


def _cell_of(head: str) -> str:
    said = head.replace('"', "&quot;")
    return f'<td data-head="{said}"' if said else "<td"


def marked(html: str) -> str:
    """The HTML of tables whose cells have no attributes, with classes in them.

    >>> marked("<tr><th>µs</th></tr><tr><td>a</td></tr>")
    '<tr><th>µs</th></tr><tr><td class="pb-short">a</td></tr>'
    """
    rows = [[text for tag, text in _CELL.findall(row) if tag == "td"] for row in _ROW.findall(html)]
    texts = [[unescape(_TAG.sub("", cell)) for cell in row] for row in rows if row]
    columns = kinds(texts)
    if texts and stacks(texts):
        html = _CLASSES.sub(r'<table class="\1 pb-stacked"', html, count=1)

    def row(found: re.Match[str]) -> str:
        at = iter(columns)

        def cell(one: re.Match[str]) -> str:
            name = next(at, "")
            if one[1] == "td" and len(unescape(_TAG.sub("", one[2]))) > SENTENCE:
                name = "pb-sentence"
            elif one[1] == "th" and name != "pb-digits":
                name = ""
            return f'<{one[1]} class="{name}">{one[2]}</{one[1]}>' if name else one[0]

        return f"<tr>{_CELL.sub(cell, found[1])}</tr>"

    return _ROW.sub(row, html)


class Kinds(SphinxTransform):
    """Give the cells of all tables their classes."""

    default_priority = 200

    def apply(self, **kwargs: object) -> None:
        for table in self.document.findall(nodes.tgroup):
            self.of_prose(table)
        for raw in list(self.document.findall(nodes.raw)):
            if raw.get("format") == "html" and "<td>" in raw.astext():
                html = _TABLE.sub(lambda table: marked(table[0]), raw.astext())
                raw.clear()
                raw += nodes.Text(html)

    @staticmethod
    def of_prose(table: nodes.tgroup) -> None:
        heads, rows = (
            [list(row.findall(nodes.entry)) for part in table.findall(which) for row in part]
            for which in (nodes.thead, nodes.tbody)
        )
        texts = [[entry.astext() for entry in row] for row in rows]
        columns = kinds(texts)
        if stacks(texts):
            table.parent["classes"].append("pb-stacked")
        for row in rows:
            for entry, name in zip(row, columns, strict=False):
                name = "pb-sentence" if len(entry.astext()) > SENTENCE else name
                entry["classes"] += [name] if name else []
        for row in heads:
            for entry, name in zip(row, columns, strict=False):
                entry["classes"] += [name] if name == "pb-digits" else []


def add_heads(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give the cells of stacked tables their headings."""
    if "pb-stacked" in context.get("body", ""):
        context["body"] = headed(context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Kinds)
    app.connect("html-page-context", add_heads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
