"""The checks of *Layouts* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_layouts import Layout

from phasebit.chapters.layouts import block_order
from phasebit.chapters.layouts import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_layouts.ipynb"))
FUNCTIONS = ("transposed", "packed", "ordered", "waves_read", "swizzle", "height")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])


def waves_read(
    order: block_order.Order, running: int, tile: tuple[int, int], k: int, element: int = 2
) -> int:
    """The right answer, block by block."""
    total = 0
    seen: set[tuple[int, int]] = set()
    for number, (row, column) in enumerate(order):
        if number % running == 0:
            seen.clear()
        for which, place in enumerate((row, column)):
            if (which, place) not in seen:
                seen.add((which, place))
                total += tile[which] * k * element
    return total


def square(running: int, tile: tuple[int, int]) -> float:
    """The height of a wave that is a square of elements."""
    return math.sqrt(running * tile[1] / tile[0])


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
    ("ordered", lambda r, c, h: Layout((r, c)), "number"),
    ("ordered", lambda r, c, h: Layout((h, c), (1, r)), "extent"),
    ("ordered", lambda r, c, h: Layout((c, h, r // h), (r, 1, h)), "number"),
    ("waves_read", lambda o, r, t, k: len(o) * (t[0] + t[1]) * k * 2, "bytes"),  # nothing shared
    ("waves_read", lambda o, r, t, k: waves_read(o, len(o), t, k), "bytes"),  # one wave
    ("waves_read", lambda o, r, t, k: waves_read(o[: len(o) // r * r], r, t, k), "bytes"),
    ("waves_read", lambda o, r, t, k: waves_read(o, r, t[::-1], k), "bytes"),
    ("waves_read", lambda o, r, t, k: waves_read(o, r, t, k, 4), "bytes"),
    ("waves_read", lambda o, r, t, k: waves_read(o, r, (t[0], 0), k), "bytes"),  # A alone
    ("waves_read", lambda o, r, t, k: waves_read(sorted(o), r, t, k), "bytes"),
    ("waves_read", lambda o, r, t, k: "many", "not 'many'"),
    ("height", lambda running, tile: 16, "reads least"),
    ("height", lambda running, tile: 1, "reads least"),
    ("height", lambda running, tile: running, "reads least"),
    ("height", lambda running, tile: 10**9, "reads least"),
    ("height", lambda running, tile: math.isqrt(running), "reads least"),  # square in blocks
    ("height", lambda running, tile: round(square(running, tile[::-1])), "reads least"),
    ("height", lambda running, tile: round(square(running, tile) ** 2), "reads least"),
    ("height", lambda running, tile: round(square(running, tile)) + 1, "reads least"),
    ("height", lambda running, tile: square(running, tile), "whole number"),
    ("height", lambda running, tile: True, "whole number"),
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


@pytest.mark.parametrize(("down", "across"), [(4, 4), (2, 8), (16, 2), (5, 7), (16, 13)])
def test_a_wave_that_is_a_square_reads_least(down: int, across: int) -> None:
    """No height is better than the one that other heights are judged by."""
    tile = 16 * across, 16 * down
    best = check.reads(down, down, across, tile)
    assert best == 2 * (tile[0] / across + tile[1] / down)
    for high in range(1, 2 * down * across):
        assert check.reads(high, down, across, tile) >= best


def test_heights_rounded_either_way_are_right() -> None:
    for to_whole in (math.floor, math.ceil, round):
        said = check.height.verdict(  # type: ignore[attr-defined]
            lambda r, t, whole=to_whole: max(1, whole(square(r, t)))
        )
        assert said.startswith("height: OK")


def test_whole_numbers_of_numpy_are_whole() -> None:
    def swizzle(row_bytes: int) -> list[Any]:
        bits = row_bytes.bit_length() - 5
        return [np.int64(min(3, bits)), 4, np.int32(max(3, bits))]

    assert check.swizzle.verdict(swizzle).startswith("swizzle: OK")  # type: ignore[attr-defined]
    said = check.height.verdict(  # type: ignore[attr-defined]
        lambda running, tile: np.int64(max(1, round(square(running, tile))))
    )
    assert said.startswith("height: OK")


def test_a_block_by_block_count_is_right_too() -> None:
    said = check.waves_read.verdict(waves_read)  # type: ignore[attr-defined]
    assert said.startswith("waves_read: OK")
