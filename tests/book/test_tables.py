"""The cells of tables: numbers flush right, sentences broken, the rest on one line."""

from __future__ import annotations

import doctest
import re
import sys

import pytest

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import tables


def test_the_examples_hold() -> None:
    assert doctest.testmod(tables).failed == 0


@pytest.mark.parametrize(
    "cells",
    [["1,024", "7"], ["+0.5 %", "−1.1 %"], ["3 of 3 + 1", "–"], ["12 to 15"], ["64 KiB"], ["1.3×"]],
)
def test_a_column_of_numbers(cells: list[str]) -> None:
    assert tables.kind(cells) == "pb-digits"


@pytest.mark.parametrize("cells", [["0 to n"], ["m64n256k16"], ["sm_90a"], ["–"], ["12", "silent"]])
def test_a_column_with_a_name_in_it_is_no_column_of_numbers(cells: list[str]) -> None:
    assert tables.kind(cells) == "pb-short"


def test_the_first_column_names_its_row() -> None:
    assert tables.kinds([["8192", "1.5"], ["4096", "2.5"]]) == ["pb-short", "pb-digits"]


def test_a_heading_stands_above_its_numbers_and_a_sentence_is_marked() -> None:
    sentence = "the tensor core reads a tile of A and one of B"
    html = (
        "<table><thead><tr><th>what</th><th>µs</th></tr></thead>"
        f"<tbody><tr><td>{sentence}</td><td>2</td></tr></tbody></table>"
    )
    made = tables.marked(html)
    assert f'<td class="pb-sentence">{sentence}' in made
    assert '<th class="pb-digits">µs' in made and '<td class="pb-digits">2<' in made
    assert re.sub(r' class="[^"]*"', "", made) == html
