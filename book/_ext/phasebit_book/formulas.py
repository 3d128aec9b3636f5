r"""Formulas as MathML, written when the book is built: browsers set them, no script does.

docutils reads the TeX. A formula that it cannot read stops the build. The letters come from STIX
Two Math. The style sheet carries the glyphs that the book's formulas use: a font that came later
would move the text under the reader.
"""

from __future__ import annotations

import re
import unicodedata
from base64 import b64encode
from html import escape, unescape
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

from .fonts import subset

FONT = ".vendor/fonts/@fontsource/stix-two-math/files/stix-two-math-latin-400-normal.woff"
"""Put there by tools/vendor.py."""
STYLE = "phasebit.css"
NAME = 'url("math.woff")'
"""What stands in the style sheet for the font's bytes."""

_MATH = re.compile(r"<math\b.*?</math>", re.S)
_CLOSE = re.compile(r"<mo([^>]*)>([|/])</mo>")  # without the space of a sign between two formulas
_TAG = re.compile(r"<[^>]*>")
_ROOT = re.compile(r"<m(?:sqrt|root)\b")
# Comments, indents and lines: for who reads the source, not the page.
_SOURCE_ONLY = re.compile(r"/\*.*?\*/\s*|^[ \t]+|;?(?=\n[ \t]*\})|(?<=[{};,])\n+| (?=\{$)",
                          re.S | re.M)  # fmt: skip
_COLON = re.compile(r"(?<=[{;])([a-z-]+): ")
_BEFORE = re.compile(r"[(\[“‘]+$")
_AFTER = re.compile(r"^(?:-\w+|’s)?[.,;:!?)\]”’…]*")
TIED = "pb-tied"
"""The class of a formula with what a line must not part from it."""


def mathml(tex: str, *, block: bool = False) -> str:
    r"""A formula as a ``<math>`` element, which carries the TeX as what is read aloud without it.

    Raises ``ValueError`` with what docutils says of it.

    >>> mathml("2 S")[:19]
    '<math alttext="2 S"'
    """
    try:
        found = tex2mathml(tex.strip(), as_block=block)
    except MathError as error:
        raise ValueError(f"no formula can be made of {tex.strip()!r}: {error}") from None
    found = _CLOSE.sub(r'<mo\1 lspace="0" rspace="0">\2</mo>', found)
    return found.replace("<math ", f'<math alttext="{escape(tex.strip())}" ', 1)


def _written(page: HTML5Translator, node: nodes.Element, *, block: bool) -> str:
    try:
        return mathml(node.astext(), block=block)
    except ValueError as error:
        raise ExtensionError(f"{page.builder.current_docname}: {error}") from None


def inline(page: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula within a line."""
    page.body.append(page.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    page.body.append(_written(page, node, block=False) + "</span>")
    raise nodes.SkipNode


def display(page: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula that has lines of its own, with its number if it has one."""
    page.body.append(page.starttag(node, "div", CLASS="math notranslate nohighlight"))
    if node["number"]:
        page.body.append(f'<span class="eqno">({get_node_equation_number(page, node)})</span>')
    page.body.append(_written(page, node, block=True) + "</div>\n")
    raise nodes.SkipNode


class Tied(SphinxPostTransform):
    """A formula and the punctuation that touches it, in an element that stays on one line."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: object) -> None:
        # Downwards, since extensions move nodes and leave them the parents that they had.
        every = [*self.document.findall(nodes.Element)]
        found = [(each, at) for each in every for at, one in enumerate(each.children)
                 if isinstance(one, nodes.math)]  # fmt: skip
        for within, at in found:
            formula = within[at]
            before, after = (within[n] if 0 <= n < len(within) else None for n in (at - 1, at + 1))
            opens, closes = (
                hit[0] if isinstance(near, nodes.Text) and (hit := touches.search(near)) else ""
                for near, touches in ((before, _BEFORE), (after, _AFTER))
            )
            if opens or closes:
                # By place: docutils takes two texts for one where they are equal.
                within[at] = nodes.inline("", "", nodes.Text(opens), formula.deepcopy(),
                                          nodes.Text(closes), classes=[TIED])  # fmt: skip
            if opens:
                within[at - 1] = nodes.Text(before.removesuffix(opens))
            if closes:
                within[at + 1] = nodes.Text(after.removeprefix(closes))


def letters(html: str) -> set[int]:
    """The code points that a page's formulas show: a single letter is also shown slanted."""
    found: set[int] = set()
    for formula in _MATH.findall(html):
        found |= set(map(ord, unescape(_TAG.sub("", formula))))
        if _ROOT.search(formula):
            found.add(ord("√"))  # the browser draws it: it stands in no text
    slanted = range(0x1D400, 0x1D800)
    plain = {chr(one) for one in found}
    return found | {one for one in slanted if unicodedata.normalize("NFKC", chr(one)) in plain
                    and "ITALIC" in unicodedata.name(chr(one), "")
                    and "SANS" not in unicodedata.name(chr(one), "")
                    and "BOLD" not in unicodedata.name(chr(one), "")} | {0x210E}  # fmt: skip


def dense(style: str) -> str:
    """A style sheet without what only its reader needs.

    >>> dense("/* c */\\na,\\nb {\\n  color: red;\\n}\\nc::before {\\n  content: \\": \\";\\n}\\n")
    'a,b{color:red}c::before{content:": "}'
    """
    return _COLON.sub(r"\1:", _SOURCE_ONLY.sub("", style)).replace("\n}", "}")


def write_font(app: Sphinx, error: Exception | None) -> None:
    """Write the font with the letters of all formulas into the style sheet."""
    if error is None and app.builder.format == "html":
        pages = [path.read_text("utf-8") for path in Path(app.outdir).glob("book/**/*.html")]
        shown = set().union(*map(letters, pages))
        font = Path(app.srcdir) / FONT
        if shown and not font.is_file():
            raise ExtensionError(f"{FONT} is not there: run 'make setup' first")
        if shown:
            # Whole, from its source: the copy of an earlier build has its own letters.
            style = (Path(app.srcdir) / "book" / "_static" / STYLE).read_text("utf-8")
            if NAME not in style:
                raise ExtensionError(f"{STYLE} has no {NAME}, where the font of formulas belongs")
            held = f"url(data:font/woff;base64,{b64encode(subset(font, shown)).decode()})"
            sent = dense(style).replace(NAME, held)
            (Path(app.outdir) / "_static" / STYLE).write_text(sent, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    app.add_post_transform(Tied)
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
