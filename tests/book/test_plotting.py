"""What only draws is folded on its page: the picture is what one reads."""

from __future__ import annotations

import doctest
import sys

import pytest
from docutils import nodes
from docutils.utils import new_document

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import plotting

CALL = "view.banks(stride=4)"
LONG = 'draw.bars(\n    rates,\n    x_label="GB/s",\n    title="Copies",\n)'


def test_its_examples_hold() -> None:
    assert doctest.testmod(plotting).failed == 0


@pytest.mark.parametrize(
    ("source", "picture", "printed", "mode", "folded"),
    [
        (CALL, True, "", None, "input"),
        (CALL, True, "", "output", "input+output"),
        (LONG, True, "", None, "input"),
        (CALL, False, "", None, None),
        (CALL, True, "4 wavefronts", None, None),
        (f"stride = 4\n{CALL}", True, "", None, None),
    ],
)
def test_a_cell_that_only_draws_is_folded(source, picture, printed, mode, folded) -> None:
    cell = nodes.container(nb_element="cell_code", hide_mode=mode)
    cell += nodes.container("", nodes.literal_block(source, source))
    output = nodes.container()
    if picture:
        output += nodes.container("", nodes.image(uri="a.svg"))
    if printed:
        output += nodes.literal_block(printed, printed, classes=["output", "stream"])
    cell += output
    page = new_document("page")
    page += cell
    plotting.FoldPlots(page).apply()
    assert cell.get("hide_mode") == folded
