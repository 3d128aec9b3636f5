"""What the search looks at: a page without the set-up cell that every chapter has.

Its words (``pip install phasebit``, the GPU, the compiler) stand on each page, and a search for
one of them would find every page.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder

SETUP = "tag_setup"
"""The class of a cell with the tag ``setup``."""


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
    app.connect("builder-inited", index_less)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
