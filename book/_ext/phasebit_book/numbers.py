"""Give each chapter the number in its file's name: ``07_idea`` has the number 7.

Sphinx would count the chapters that exist; the parts are written out of order.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from phasebit import contents


class NumberTitle(SphinxTransform):
    """Put the number before the title, where the author has not written it."""

    default_priority = 100

    def apply(self, **kwargs: object) -> None:
        number = contents.number(Path(self.env.docname))
        title = next(iter(self.document.findall(nodes.title)), None)
        if number is not None and title is not None and not title.astext()[:1].isdigit():
            title.insert(0, nodes.Text(f"{number}. "))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(NumberTitle)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
