"""The checks of *Layouts* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_layouts import Layout

from phasebit.chapters.layouts import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_layouts.ipynb"))
FUNCTIONS = ("transposed", "packed", "swizzle")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])


WRONG: list[tuple[str, Callable[..., Any], str]] = [
    ("transposed", lambda m, k, pad: Layout((m, k), (1, m)), "element"),
    ("transposed", lambda m, k, pad: Layout((m, k), (k + pad, 1)), "element"),
    ("transposed", lambda m, k, pad: Layout((k, m), (m + pad, 1)), "extent"),
    ("transposed", lambda m, k, pad: 7, "no layout"),
    ("transposed", lambda m, k, pad: 1 // 0, "ZeroDivisionError"),
    ("packed", lambda r, c, h, w: Layout((r, c), (c, 1)), "element"),
    (
        "packed",  # tiles column by column
        lambda r, c, h, w: Layout(((h, r // h), (w, c // w)), ((w, h * w), (1, r * w))),
        "element",
    ),
    (
        "packed",  # elements of a tile column by column
        lambda r, c, h, w: Layout(((h, r // h), (w, c // w)), ((1, h * c), (h, h * w))),
        "element",
    ),
    ("swizzle", lambda row: (3, 4, 3), "rows of 32 bytes"),
    ("swizzle", lambda row: (min(3, row.bit_length() - 5), 4, 3), "rows of 256 bytes"),
    ("swizzle", lambda row: (3, 4, max(3, row.bit_length() - 5)), "rows of 32 bytes"),
    ("swizzle", lambda row: (0, 4, 3), "wavefronts"),
    ("swizzle", lambda row: (3, 2, 5), "begins"),
    ("swizzle", lambda row: 3, "three whole numbers"),
    ("swizzle", lambda row: (True, 4, 3), "three whole numbers"),
]


@pytest.mark.parametrize(("name", "wrong", "words"), WRONG)
def test_refuses(name: str, wrong: Callable[..., Any], words: str) -> None:
    said = getattr(check, name).verdict(wrong)
    assert said.startswith(f"{name}: not right yet") and words in said


def test_whole_numbers_of_numpy_are_whole() -> None:
    def swizzle(row_bytes: int) -> list[Any]:
        bits = row_bytes.bit_length() - 5
        return [np.int64(min(3, bits)), 4, np.int32(max(3, bits))]

    assert check.swizzle.verdict(swizzle).startswith("swizzle: OK")  # type: ignore[attr-defined]
