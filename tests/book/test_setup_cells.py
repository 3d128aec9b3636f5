"""The set-up cell is folded on its page, and the search does not find a page by it."""

from __future__ import annotations

import sys

from docutils import nodes
from docutils.utils import new_document

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book.search import without_setup
from phasebit_book.setup_cells import Fold


def test_only_the_set_up_cell_is_left_out() -> None:
    page = new_document("page")
    section = nodes.section("", nodes.paragraph("", "before"))
    section += nodes.container("", nodes.literal_block("", "pip"), classes=["cell", "tag_setup"])
    section += nodes.container("", nodes.literal_block("", "phase"), classes=["cell"])
    page += section
    assert without_setup(page).astext().split() == ["before", "phase"]
    assert page.astext().split() == ["before", "pip", "phase"]


def test_only_the_set_up_cell_is_folded() -> None:
    page = new_document("page")
    page += nodes.container("", classes=["cell", "tag_setup"])
    page += nodes.container("", classes=["cell"])
    Fold(page).apply()
    assert [cell.get("hide_mode") for cell in page] == ["input", None]
