"""Tables, in the prose and in what cells put out: each cell says what it holds.

A column of numbers is set flush right, so that digits stand below digits, and its heading with it.
A cell that is a sentence may take several lines; what is short keeps to one (``phasebit.css``).
A table that is too wide for a phone is drawn otherwise there. One of short cells with few rows is
turned: its rows become columns. One that fits with its longest words broken has soft hyphens. Any
other is stacked: its cells stand one below the other, or short ones in pairs, and each says what it
is, with the heading of its column.
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

from phasebit.letters import width

SENTENCE = 36
"""Letters of a cell that is no name and no number."""
SHORT = 20
"""Letters that each cell of a column has at most, if none of them is broken."""

PHONE = 350
"""Pixels that a phone has for a table."""
_WORDS, _SENTENCE, _LETTER, _EDGES = 96, 144, 6.6, 14
"""Pixels there: of a column of words, one of sentences, a letter, what lies beside it."""
_MANY, _USUAL, _SMALL, _CLOSE = 5, 12.0, 11.6, 6
"""How many columns stand closer there; the size of letters, and then; pixels beside a column."""
_LEAST, _HEADS, _APART = 80, 84, 10
"""Pixels there of words in many lines; of a turned table's headings, and beside its columns."""
_TIGHTEST = 10.7, 4.0
_BOLD = 1.12
_SOFT = "\xad"
_WHERE = """activa-tions asyn-chronous bar-riers coa-lesced com-muni-cation con-flicts con-sumers
deci-sion emu-lator find-ings init-check inner-most in-struc-tions mea-sured mem-check mil-lions
multi-pro-ces-sors occu-pancy pre-dicted pro-ducers prod-ucts pro-filer race-check regis-ters
sec-tors simu-lated sync-check thou-sands vec-torised wave-fronts"""
_BROKEN = {word.replace("-", ""): word.replace("-", _SOFT) for word in _WHERE.split()}
_NAMED = re.compile(r"(?<=\w)_(?=\w)")

_NUMBER = r"[-−+±~≈<>≤≥]?\s?\d[\d,.]*(?:\s?(?:[%×x]|[kKMGT]i?B|[nµm]?s)(?!\w))?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:(?: to | of | / | × | \+ |–|, ){_NUMBER})*")
_NOTHING = ("", "–", "-", "—")

_TABLE = re.compile(r"<table.*?</table>", re.S)
_CLASSES = re.compile(r'<table class="([^"]*)"')
_STACKED = re.compile(r'<table[^>]*\bclass="[^"]*\bpb-stacked\b.*?</table>', re.S)
_TURNED = re.compile(r'<table(?=[^>]*\bclass="[^"]*\bpb-turned\b).*?</table>', re.S)
_TIGHT = re.compile(r'<table[^>]*\bclass="[^"]*\bpb-(?:tight|turned)\b.*?</table>', re.S)
_NAMES = re.compile(r"(<th\b[^>]*>|<tr\b[^>]*><td\b[^>]*>)(.*?)(?=</t[hd]>)", re.S)
_TEXT = re.compile(r"[^<>]+(?=<|$)")
_HEADING = re.compile(r"<th\b[^>]*>(.*?)</th>", re.S)
_BODY_ROW = re.compile(r"<tr\b[^>]*>.*?</tr>", re.S)
_BODY_CELL = re.compile(r"<td\b")
_EMPTY = re.compile(r"(<td\b[^>]*>)(?:\s|<p>\s*</p>)+(?=</td>)")
_ROW = re.compile(r"<tr>(.*?)</tr>", re.S)
_CELL = re.compile(r"<(t[hd])>(.*?)</\1>", re.S)
_TAG = re.compile(r"<[^>]*>")
_SHARE = re.compile(r"(?<=\d) (?=%|[kKMGT]i?B\b)")
"""Between a number and its sign or its unit, where no line ends."""


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


def on_a_phone(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The classes of a table that is drawn otherwise on a phone; empty where it fits.

    >>> few = ["", *["µs"] * 9]
    >>> on_a_phone(few[:3], [["a", "1"]]), on_a_phone(few, [["a", *["1234.5"] * 9]] * 3)
    ('', 'pb-turned')
    >>> on_a_phone(few, [["a", *["1234.5"] * 9]] * 9)
    'pb-stacked pb-pairs'
    >>> on_a_phone(["", *["instructions"] * 6], [["a", *["1234"] * 6]] * 9)
    'pb-tight'
    """
    if stacks(rows):
        return "pb-stacked"
    if _wide(heads, rows) <= PHONE:
        return ""
    if _turns(heads, rows):
        return "pb-turned"
    broken = [soft(head) for head in heads], [[soft(row[0]), *row[1:]] for row in rows]
    fits = _wide(*broken, _TIGHTEST) <= PHONE
    return "pb-tight" if fits else "pb-stacked pb-pairs"


def _turns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table with these texts fits a phone with its rows as columns."""
    names = kinds(rows)
    if "pb-words" in names[1:]:
        return False
    wide = [
        max([_BOLD * _unbroken(soft(row[0])), *map(_unbroken, row[1:], names[1:])]) for row in rows
    ]
    first = max([_HEADS, *(_BOLD * _unbroken(soft(head)) for head in heads)])
    return first + sum(wide) + _APART * len(rows) <= PHONE


def _wide(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    letters: tuple[float, float] | None = None,
) -> float:
    """The pixels that a table of short cells needs, each as narrow as can be.

    ``letters`` are their size and what lies beside a column.
    """
    size, edges = letters or ((_SMALL, _CLOSE) if len(heads) >= _MANY else (_USUAL, _EDGES))
    wide = 0.0
    for name, head, column in zip(
        kinds(rows), heads, zip_longest(*rows, fillvalue=""), strict=False
    ):
        cells = [_unbroken(cell, name, size) for cell in column]
        least = _LEAST if name == "pb-words" and not letters else 0
        wide += max([_BOLD * _unbroken(head, size=size), least, *cells]) + edges
    return wide


def _unbroken(cell: str, name: str = "", size: float = _SMALL) -> float:
    """Pixels of what stays on one line: all of a number, a word of anything else."""
    pieces = [cell] if name == "pb-digits" else re.split(rf"[ \n]|{_SOFT}|(?<=\u200b)", cell)
    return max(width(piece.strip("\u200b"), size) for piece in pieces)


def soft(words: str) -> str:
    """Words that may be broken on a phone: at soft hyphens, after what joins a name, not before ×.

    >>> soft("wavefronts of two_resident")
    'wave\\xadfronts of two_\\u200bresident'
    """
    words = _NAMED.sub("_\u200b", words).replace(" ×", "\xa0×")
    return re.sub(r"\w+", lambda word: _BROKEN.get(word[0], word[0]), words)


def softened(html: str) -> str:
    """A page in which the headings of tables that need it may be broken, and the names of rows."""

    def cell(found: re.Match[str]) -> str:
        return found[1] + _TEXT.sub(lambda text: soft(text[0]), found[2]).replace("\u200b", "<wbr>")

    return _TIGHT.sub(lambda table: _NAMES.sub(cell, table[0]), html)


def turned(html: str) -> str:
    """A page in which each table that is turned on a phone says how many cells it has.

    >>> turned('<table class="pb-turned"><tr><th></th></tr></table>')
    '<table style="--pb-rows:1;--pb-columns:1" class="pb-turned"><tr><th></th></tr></table>'
    """

    def table(found: re.Match[str]) -> str:
        rows, columns = len(_HEADING.findall(found[0])), len(_BODY_ROW.findall(found[0]))
        return f'<table style="--pb-rows:{rows};--pb-columns:{columns}"' + found[0][6:]

    return _TURNED.sub(table, html)


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

        return _BODY_ROW.sub(row, _EMPTY.sub(r"\1", found[0]))

    return _STACKED.sub(table, html)


def _cell_of(head: str) -> str:
    said = head.replace('"', "&quot;")
    return f'<td data-head="{said}"' if said else "<td"


def marked(html: str) -> str:
    """The HTML of tables whose cells have no attributes, with classes in them.

    >>> marked("<tr><th>µs</th></tr><tr><td>a</td></tr>")
    '<tr><th>µs</th></tr><tr><td class="pb-short">a</td></tr>'
    >>> marked("<tr><td>12 (75 %)</td></tr>") == '<tr><td class="pb-short">12 (75\\xa0%)</td></tr>'
    True
    """
    rows = [[text for tag, text in _CELL.findall(row) if tag == "td"] for row in _ROW.findall(html)]
    texts = [[unescape(_TAG.sub("", cell)) for cell in row] for row in rows if row]
    columns = kinds(texts)
    heads = [unescape(_TAG.sub("", text)) for tag, text in _CELL.findall(html) if tag == "th"]
    if texts and (other := on_a_phone(heads, texts)):
        html = _CLASSES.sub(rf'<table class="\1 {other}"', html, count=1)

    def row(found: re.Match[str]) -> str:
        at = iter(columns)

        def cell(one: re.Match[str]) -> str:
            name = next(at, "")
            if one[1] == "td" and len(unescape(_TAG.sub("", one[2]))) > SENTENCE:
                name = "pb-sentence"
            elif one[1] == "th" and name != "pb-digits":
                name = ""
            text = _SHARE.sub("\xa0", one[2])
            return f'<{one[1]} class="{name}">{text}</{one[1]}>' if name else one[0]

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
        names = [entry.astext() for row in heads[:1] for entry in row]
        if "pb-tiers" not in table.parent["classes"] and (other := on_a_phone(names, texts)):
            table.parent["classes"] += other.split()
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
    """Give tables what they need on a phone: headings in cells, numbers of cells, soft hyphens."""
    if "pb-stacked" in context.get("body", ""):
        context["body"] = headed(context["body"])
    context["body"] = softened(turned(context.get("body", "")))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Kinds)
    app.connect("html-page-context", add_heads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
