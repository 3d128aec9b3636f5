"""Diagrams that answer: pages that have one get the script that reads it."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

_ARROWS = re.compile(r'<svg [^>]*class="phasebit-diagram".*?</svg>', re.S)
_RINGS = 'class="phasebit-levels"'


def answers(body: str) -> bool:
    """Whether a page has boxes with arrows, or rings: a diagram that is a grid has no arrow.

    >>> answers('<svg role="img" class="phasebit-diagram"><rect/></svg><polygon/>')
    False
    """
    return _RINGS in body or any("<polygon" in one for one in _ARROWS.findall(body))


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with such a diagram the script."""
    if answers(context.get("body", "")):
        app.add_js_file("diagrams.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
