"""The stepper: rings on which the reader is the scheduler, in a page.

A box ``<div class="phasebit-stepper" data-ring="NAME">`` becomes one; ``NAME`` is one of
:func:`phasebit.pipeline.walk.rings`. One of the class ``phasebit-ring`` shows a ring of two threads
in fewer words: its slots, and the bits of its barriers. Their states are worked out at every build,
and written as a script, so that a page opened as a file has them too.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from phasebit.pipeline.walk import rings

from .written import write_script

RINGS = "stepper_rings.js"

SCRIPTS = {"stepper": "stepper.js", "ring": "ring.js"}

_BOX = re.compile(r'<div[^>]*\bclass="phasebit-(stepper|ring)"[^>]*>')
_RING = re.compile(r'\bdata-ring="([^"]*)"')


def add_scripts(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with steppers their scripts. Refuses a ring that there is not."""
    kinds = set()
    for box in _BOX.finditer(context.get("body", "")):
        name = found[1] if (found := _RING.search(box[0])) else ""
        if name not in rings():
            raise ExtensionError(f"{page}: no ring is called {name!r}: choose from {list(rings())}")
        kinds.add(box[1])
    if kinds:
        app.add_js_file(RINGS, loading_method="defer")
    for kind in sorted(kinds):
        app.add_js_file(SCRIPTS[kind], loading_method="defer")


def write_rings(app: Sphinx) -> None:
    """Write the states of all rings."""
    write_script(app, RINGS, phasebitRings=rings())


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_scripts)
    app.connect("builder-inited", write_rings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
