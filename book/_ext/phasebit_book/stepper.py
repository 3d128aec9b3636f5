"""The stepper: rings on which the reader is the scheduler, in a page.

A box ``<div class="phasebit-stepper" data-ring="NAME">`` becomes one; ``NAME`` is one of
:func:`phasebit.pipeline.walk.rings`. One of the class ``phasebit-ring`` shows one in fewer words:
its slots, and the bits of their barriers; it may also be one of the larger ones. Their states are
worked out at every build, and written as scripts, so that a page opened as a file has them too.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from phasebit.pipeline.walk import larger, rings

from .written import add_to_script, write_script

RINGS = "stepper_rings.js"
"""All that a stepper offers."""
SCRIPTS = {"stepper": "stepper.js", "ring": "ring.js"}

_BOX = re.compile(r'<div[^>]*\bclass="phasebit-(stepper|ring)"[^>]*>')
_RING = re.compile(r'\bdata-ring="([^"]*)"')


def add_scripts(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give a page with steppers their scripts. Refuses a ring that there is not."""
    kinds = set()
    files = set()
    for box in _BOX.finditer(context.get("body", "")):
        name = found[1] if (found := _RING.search(box[0])) else ""
        known = rings() if box[1] == "stepper" else every()
        if name not in known:
            raise ExtensionError(f"{page}: no ring is called {name!r}: choose from {list(known)}")
        kinds.add(box[1])
        files.add(RINGS if box[1] == "stepper" else file(name))
    for script in [*sorted(files, reverse=True), *(SCRIPTS[kind] for kind in sorted(kinds))]:
        app.add_js_file(script, loading_method="defer")


def every() -> dict[str, dict[str, Any]]:
    """All rings, also the larger ones."""
    return rings() | larger()


def file(name: str) -> str:
    """The script that gives a page this ring alone."""
    return f"rings/{re.sub(r'[^a-z]+', '-', name.lower())}.js"


def write_rings(app: Sphinx) -> None:
    """Write the states of all rings: together, and each by itself."""
    write_script(app, RINGS, phasebitRings=rings())
    for name, ring in every().items():
        add_to_script(app, file(name), "phasebitRings", name, ring)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_scripts)
    app.connect("builder-inited", write_rings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
