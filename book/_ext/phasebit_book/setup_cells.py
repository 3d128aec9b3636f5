"""The set-up cell that every chapter has: folded on its page, and left out of the search.

A reader who runs the notebook needs it, one who reads does not. Its words (``pip install
phasebit``, the compiler, the GPU) stand on each page, and a search for one of them would find
every page.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.transforms import SphinxTransform

SETUP = "tag_setup"
"""The class of a cell with the tag ``setup``."""


class Fold(SphinxTransform):
    """Have MyST-NB fold the source of these cells; what they print stays in sight."""

    default_priority = 100

    def apply(self, **kwargs: object) -> None:
        for cell in self.document.findall(nodes.container):
            if SETUP in cell["classes"]:
                cell["hide_mode"] = "input"
                cell["prompt_show"], cell["prompt_hide"] = "Show the set-up", "Hide the set-up"


def without_setup(page: nodes.document) -> nodes.document:
    """A copy of a page in which no cell with that tag is left."""
    copy = page.deepcopy()
    for cell in list(copy.findall(nodes.container)):
        if SETUP in cell["classes"]:
            cell.parent.remove(cell)
    return copy


def index_less(app: Sphinx) -> None:
    """Have the builder index pages without their set-up."""
    builder = app.builder
    if isinstance(builder, StandaloneHTMLBuilder):
        index = builder.index_page

        def index_page(pagename: str, doctree: nodes.document, title: str) -> None:
            index(pagename, without_setup(doctree), title)

        builder.index_page = index_page  # type: ignore[method-assign]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Fold)
    app.connect("builder-inited", index_less)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
