"""The afterword's table is what `tools/levels.py` writes, and every level has all its parts."""

from __future__ import annotations

import sys
import tomllib

import pytest

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import levels


def test_the_table_is_what_the_tool_writes() -> None:
    """Red after a change of a chapter's number or of book/levels.toml, until it has run."""
    text = levels.PAGE.read_text("utf-8")
    assert levels.page(text) == text, "python tools/levels.py"


def test_each_level_says_all() -> None:
    given = tomllib.loads((levels.BOOK / "levels.toml").read_text("utf-8"))["level"]
    assert len(given) >= 9
    for level in given:
        assert level.keys() == {*levels.COLUMNS, "chapter"} and all(level.values()), level


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the lines"):
        levels.page("# Afterword\n")


def test_a_number_that_is_wrong_is_noticed() -> None:
    text = levels.PAGE.read_text("utf-8")
    broken = text.replace("| 23 |", "| 22 |", 1)
    assert broken != text and levels.page(broken) == text


def test_a_page_without_a_number_is_linked() -> None:
    (row,) = (row for row in levels.table().splitlines() if row.startswith("| the grid "))
    assert row.endswith("| [after 23](part6_blackwell/pairs_and_launch) |")
