"""Listings that are spoken of: numbers where an output names lines, and the faulty lines tinted.

A cell with a kernel gets numbers when an output further down names lines of it: of a file that is
compiled, the first line after ``%%cuda`` is line 1. In an output that prints a listing with
numbers, and below it what was found, with numbers again, the lines found are tinted in the listing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_NAMED = re.compile(r"\blines? (\d+)(?: and (\d+))?(?:: (.*))?")
"""``line 24: a[y] = …``, ``lines 7 and 9``."""
_PLACE = re.compile(r"\b([\w.]+\.cu):(\d+)")
_NUMBERED = re.compile(r"^ *(\d+)(?:  (.*))?$")
_WRITES = re.compile(r"""^project\.write\("([\w.]+)", \"""")


def named(text: str) -> Iterator[tuple[int, str]]:
    """Lines that an output names: number, and what stands there, if it says that."""
    for found in _NAMED.finditer(text):
        yield int(found[1]), (found[3] or "").strip()
        if found[2]:
            yield int(found[2]), ""


def faulty(text: str) -> list[int]:
    """Of a listing with numbers, and what was found below it: the places of those lines, from 1.

    >>> faulty("  6  a();\\n  7\\n  8  b();\\nrace\\n  8  b();")
    [3]
    """
    listed: dict[tuple[int, str], int] = {}
    found = []
    last = 0
    listing = True
    for place, line in enumerate(text.splitlines(), 1):
        match = _NUMBERED.match(line)
        if not match:
            listing = False
            continue
        number, code = int(match[1]), (match[2] or "").strip()
        listing = listing and number > last
        last = number
        if listing:
            listed[number, code] = place
        elif (number, code) in listed:
            found.append(listed[number, code])
    return sorted(set(found)) if len(listed) > 3 else []


class MarkListings(SphinxTransform):
    """Give listings their numbers and their tints."""

    default_priority = 130  # after they have their languages

    def apply(self, **kwargs: object) -> None:
        kernels: list[nodes.literal_block] = []
        for block in self.document.findall(nodes.literal_block):
            text = block.astext()
            if block.get("language") == "cuda-cell" or _WRITES.match(text):
                kernels.append(block)
            elif lines := faulty(text):
                block["highlight_args"] = {"hl_lines": lines}
            else:
                for kernel in spoken_of(block, kernels):
                    kernel["linenos"] = True
                    kernel["highlight_args"] = {"linenostart": 0}


def chapter_part(node: nodes.Node) -> nodes.Node | None:
    """The part of the page that a node stands in: below the title, the outermost section."""
    above = None
    while node.parent is not None:
        if isinstance(node, nodes.section) and isinstance(node.parent, nodes.section):
            above = node
        node = node.parent
    return above


def spoken_of(
    block: nodes.literal_block, kernels: list[nodes.literal_block]
) -> Iterator[nodes.literal_block]:
    """Which of the kernels so far an output names lines of: the nearest that has such a line.

    Where the output does not say what stands in the line, the kernel is one of the same part.
    """
    text = block.astext()
    for number, code in named(text):
        for kernel in reversed(kernels):
            lines = kernel.astext().splitlines()  # the first is no line of the file
            told = code and number < len(lines) and lines[number].strip() == code
            near = not code and chapter_part(kernel) is chapter_part(block)
            if told or (near and number < len(lines)):
                yield kernel
                break
    for name, _ in _PLACE.findall(text):
        for kernel in reversed(kernels):
            written = _WRITES.match(kernel.astext())
            if written and written[1] == name:
                yield kernel
                break


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(MarkListings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
