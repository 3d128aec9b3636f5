"""Timelines that answer: pages that have one get the script that reads it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with timelines, or with a lab that draws some, the script."""
    body = context.get("body", "")
    if 'class="phasebit-timeline"' in body or 'class="phasebit-lab"' in body:
        app.add_js_file("timelines.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
