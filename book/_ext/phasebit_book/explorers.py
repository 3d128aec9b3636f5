"""Explorers: what a reader may choose the numbers of, worked out in the page.

A box ``<div class="phasebit-explorer" data-explorer="KIND">`` becomes one; the kinds are those of
``explorers.js``, and a test compares what each works out with the emulator.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

KINDS = ("banks",)

_BOX = re.compile(r'class="phasebit-explorer"[^>]*?data-explorer="([^"]*)"')


def add_script(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with explorers the script. Refuses a kind that there is not."""
    for kind in (found := _BOX.findall(context.get("body", ""))):
        if kind not in KINDS:
            raise ExtensionError(f"{page}: no explorer is called {kind!r}: choose from {KINDS}")
    if found:
        app.add_js_file("explorers.js", loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_script)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
