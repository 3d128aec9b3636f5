"""Every page gets the script that the others share, once and before them."""

from __future__ import annotations

from sphinx.application import Sphinx

FIRST = 300
"""Sphinx loads what has a smaller number first; 500 is usual."""


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_js_file("elements.js", loading_method="defer", priority=FIRST)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
