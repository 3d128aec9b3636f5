"""Put the notebooks' SVG outputs into the page itself, so that they follow its theme.

An ``<img>`` cannot see the page's CSS variables. An inlined picture can, but it shares
the page's namespace: its ids must be unique, and its ``<style>`` must not reach the text
around it. :func:`inline` sees to both.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from phasebit import two_widths
from phasebit.draw import Picture
from phasebit.timeline import Timeline

LOGGER = logging.getLogger(__name__)

_PROLOGUE = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", re.S)
_ID = re.compile(r'(?<![\w-])id="([^"]+)"')
_REFERENCE = re.compile(r'((?:xlink:)?href="#|url\(["\']?#)([^"\')]+)')
_LABELS = re.compile(r'(aria-(?:labelledby|describedby)=")([^"]+)')
_STYLE = re.compile(r"(<style[^>]*>)(.*?)(</style>)", re.S)
_INDENT = re.compile(r"\n +")  # of Matplotlib's: a page has 20 kB of it
_MARKS = re.compile(r'(?:<use [^<>]*? style="[^"]*"/>\s*){2,}')
_MARK = re.compile(r'(<use [^<>]*?) style="([^"]*)"/>')
_INHERITED = re.compile(r"(?:fill|stroke)(?:-[a-z]+)?")
_RULE = re.compile(r"([^{}]+)(\{[^{}]*\})")
_WIDTH = re.compile(r'viewBox="\s*\S+\s+\S+\s+([\d.]+)')
_TITLE = re.compile(r"<title>(.*) \([^()]*\)</title>")  # of a timeline, behind it what it spans
_LETTERS = re.compile(r"\bfont(?:-size)?:\s*([\d.]+)px")

LEAST = 10.5
"""How large the smallest letters of a picture are on a phone, in px: what does not fit scrolls."""


def least_width(svg: str) -> int:
    """How wide a picture must be shown for its smallest letters, in px; 0 where it has none.

    >>> least_width('<svg viewBox="0 0 600 90" style="font:12px x"><text style="font-size: 9px"/>')
    700
    """
    width = _WIDTH.search(svg)
    sizes = [float(size) for size in _LETTERS.findall(svg)]
    return math.ceil(float(width[1]) * LEAST / min(sizes)) if width and sizes else 0


def svg_of(drawn: Picture | Timeline) -> str:
    """A picture's SVG as a notebook saves it, with all that it carries."""
    return drawn._repr_mimebundle_()["image/svg+xml"]


def inline(svg: str, name: str) -> str:
    """The picture as an element of a page, with ids and styles that stay its own.

    What it carries for a narrow screen stands beside it; the style sheet shows one of the two.

    ``name`` is unique in the page. Raises ``ValueError`` for text that is no SVG, and for
    a ``<style>`` with at-rules, which cannot be confined by prefixing selectors.
    """
    wide, narrow = two_widths.taken(_PROLOGUE.sub("", svg).strip())
    drawings = _own(wide, name) + (_own(narrow, f"{name}-narrow") if narrow else "")
    # tabindex: a picture wider than the page scrolls, with the keyboard too.
    least = f' style="--pb-least:{least_width(wide)}px;--pb-narrow:{least_width(narrow)}px"'
    kind = "pb-picture pb-two" if narrow else "pb-picture"
    return f'<div class="{kind}" id="{name}" tabindex="0"{least}>{drawings}</div>'


def heading(svg: str) -> str:
    """The title of a timeline as a line above it, as charts have theirs; empty for other pictures.

    Who hears the page hears the title with the drawing.

    >>> heading('<svg class="phasebit-timeline"><title>A ring (2 rows, clock 0 to 9)</title>')
    '<div class="pb-picture-title" aria-hidden="true">A ring</div>'
    """
    title = _TITLE.search(svg) if 'class="phasebit-timeline"' in svg else None
    if title is None or title[1] == "Timeline":
        return ""
    return f'<div class="pb-picture-title" aria-hidden="true">{title[1]}</div>'


def _own(svg: str, name: str) -> str:
    """A drawing with ids and styles that no other on the page has."""
    if not svg.startswith("<svg") or not svg.endswith("</svg>"):
        raise ValueError("the picture does not begin with <svg and end with </svg>")
    svg = _MARKS.sub(_dressed, _INDENT.sub("\n", svg))
    svg = _ID.sub(rf'id="{name}-\1"', svg)
    svg = _REFERENCE.sub(rf"\1{name}-\2", svg)
    svg = _LABELS.sub(lambda m: m[1] + " ".join(f"{name}-{label}" for label in m[2].split()), svg)
    return _STYLE.sub(lambda m: m[1] + _confine(m[2], name) + m[3], svg)


def _dressed(marks: re.Match[str]) -> str:
    """Neighbouring marks of one style as a group that has it: a plot may have thousands.

    >>> dots = '<use href="#a" x="1" style="fill: red"/> <use href="#a" x="2" style="fill: red"/>'
    >>> _MARKS.sub(_dressed, dots)
    '<g style="fill: red"><use href="#a" x="1"/><use href="#a" x="2"/></g>'
    """
    groups = itertools.groupby(_MARK.findall(marks[0]), key=operator.itemgetter(1))
    return "".join(_group(style, [start for start, _ in group]) for style, group in groups)


def _group(style: str, marks: list[str]) -> str:
    names = [each.partition(":")[0].strip() for each in style.split(";")]
    if len(marks) == 1 or not all(map(_INHERITED.fullmatch, names)):
        return "".join(f'{mark} style="{style}"/>' for mark in marks)
    return f'<g style="{style}">{"/>".join(marks)}/></g>'


def _confine(style: str, name: str) -> str:
    """``a, b {…}`` becomes ``#name a, #name b {…}``."""
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.S).replace("<![CDATA[", "").replace("]]>", "")
    if "@" in style:
        raise ValueError("a <style> with an at-rule cannot be confined to its picture")

    def rule(match: re.Match[str]) -> str:
        selectors = (f"#{name} {one.strip()}" for one in match[1].split(","))
        return ", ".join(selectors) + match[2]

    return _RULE.sub(rule, style)


class InlineSvg(SphinxTransform):
    """Replace every SVG that a cell put out by the picture itself."""

    default_priority = 200  # before Sphinx copies images and notes their files

    def apply(self, **kwargs: object) -> None:
        page = re.sub(r"\W+", "-", self.env.docname.rpartition("/")[2])
        for number, image in enumerate(list(self.document.findall(nodes.image)), 1):
            file = Path(self.env.relfn2path(image["uri"])[1])
            if file.suffix != ".svg" or "jupyter_execute" not in file.parts:
                continue
            try:
                text = file.read_text(encoding="utf-8")
                svg = heading(text) + inline(text, f"pb-{page}-{number}")
            except (OSError, ValueError) as error:
                LOGGER.warning("cannot inline an SVG output: %s", error, location=image)
                continue
            image.replace_self(nodes.raw("", svg, format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(InlineSvg)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
