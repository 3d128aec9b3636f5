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


def test_a_table_of_many_short_columns_is_turned_or_tight_or_in_pairs() -> None:
    heads = ["", *["registers"] * 8]
    number = ["123456"] * 8
    assert tables.on_a_phone(heads, [["a", *number]] * 3) == "pb-turned"
    assert tables.on_a_phone(heads, [["a", *number]] * 9) == "pb-stacked pb-pairs"
    assert tables.on_a_phone(heads, [["a", *["1234"] * 8]] * 9) == "pb-tight"
    assert tables.on_a_phone(heads[:3], [["a", *number[:2]]] * 9) == ""


def test_a_cell_without_words_has_no_heading_on_a_phone() -> None:
    """Else a phone would show the heading with nothing behind it."""
    html = (
        '<table class="pb-stacked"><tr><th>a</th><th>b</th></tr>'
        "<tr><td>1</td><td>\n<p></p></td></tr></table>"
    )
    assert '<td data-head="b"></td>' in tables.headed(html), "an empty cell, which CSS hides"


def test_what_may_be_broken_is_broken_only_in_headings_and_names() -> None:
    row = "<tr><th>registers</th></tr><tr><td>two_slots</td><td>registers</td></tr>"
    made = tables.softened(f'<table class="table pb-tight">{row}</table>')
    assert "<th>regis\xadters<" in made and "<td>two_<wbr>slots<" in made
    assert "<td>registers<" in made
    assert tables.softened(f'<table class="table">{row}</table>').count("\xad") == 0
