"""The set-up cell that every chapter has is folded on its page.

A reader who runs the notebook needs it, one who reads does not.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
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


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
