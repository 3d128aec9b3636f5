"""The checks of *The order of blocks* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_layouts import Layout

from phasebit.chapters.block_order import exercises as check
from phasebit.chapters.block_order import orders
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/block_order.ipynb"))
FUNCTIONS = ("ordered", "waves_read", "misses", "height")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])
    assert "serpentine: OK" in check.serpentine.verdict(names["CODE"])  # type: ignore[attr-defined]


def waves_read(
    order: orders.Order, running: int, tile: tuple[int, int], k: int, element: int = 2
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


def misses(order: orders.Order, running: int, steps: int, room: int, first_in: bool = False) -> int:
    """The right answer with a list; ``first_in``: evict what came first, used or not."""
    kept: list[tuple[str, int, int]] = []
    missed = 0
    for first in range(0, len(order), running):
        for step in range(steps):
            for row, column in order[first : first + running]:
                for piece in (("A", row, step), ("B", column, step)):
                    if piece not in kept:
                        missed += 1
                    elif first_in:
                        continue
                    else:
                        kept.remove(piece)
                    kept.append(piece)
                    del kept[: max(0, len(kept) - room)]
    return missed


def square(running: int, tile: tuple[int, int]) -> float:
    """The height of a wave that is a square of elements."""
    return math.sqrt(running * tile[1] / tile[0])


WRONG: list[tuple[str, Callable[..., Any], str]] = [
    ("ordered", lambda r, c, h: Layout((r, c)), "number"),
    ("ordered", lambda r, c, w: Layout((w, r), (r, 1)), "numbers"),
    ("ordered", lambda r, c, w: Layout((r, w, c // w), (1, r, r * w)), "number"),  # down first
    ("ordered", lambda r, c, w: Layout((w, r, c // w), (1, c, w)), "number"),  # of the transpose
    ("waves_read", lambda o, r, t, k: len(o) * (t[0] + t[1]) * k * 2, "bytes"),  # nothing shared
    ("waves_read", lambda o, r, t, k: waves_read(o, len(o), t, k), "bytes"),  # one wave
    ("waves_read", lambda o, r, t, k: waves_read(o[: len(o) // r * r], r, t, k), "bytes"),
    ("waves_read", lambda o, r, t, k: waves_read(o, r, t[::-1], k), "bytes"),
    ("waves_read", lambda o, r, t, k: waves_read(o, r, t, k, 4), "bytes"),
    ("waves_read", lambda o, r, t, k: waves_read(o, r, (t[0], 0), k), "bytes"),  # A alone
    ("waves_read", lambda o, r, t, k: waves_read(sorted(o), r, t, k), "bytes"),
    ("waves_read", lambda o, r, t, k: "many", "not 'many'"),
    ("misses", lambda o, r, s, room: misses(o, r, s, 10**9), "misses"),  # nothing is evicted
    ("misses", lambda o, r, s, room: misses(o, r, s, room, first_in=True), "misses"),
    ("misses", lambda o, r, s, room: misses(o, 1, s, room), "misses"),  # block by block
    ("misses", lambda o, r, s, room: misses(o, r, 1, room) * s, "misses"),
    ("misses", lambda o, r, s, room: misses([b[::-1] for b in o], r, s, room), "misses"),
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


def test_a_block_by_block_count_is_right_too() -> None:
    said = check.waves_read.verdict(waves_read)  # type: ignore[attr-defined]
    assert said.startswith("waves_read: OK")


def test_a_height_of_numpy_is_whole() -> None:
    said = check.height.verdict(  # type: ignore[attr-defined]
        lambda running, tile: np.int64(max(1, round(square(running, tile))))
    )
    assert said.startswith("height: OK")


PART = """
__device__ Part part(int number, int rows, int cols, int height) {
    const int band = number / (height * cols);
    const int first = band * height;
    const int high = min(height, rows - first);
    const int within = number - first * cols;
    const int col = within / high;
    return {first + within % high, band % 2 ? cols - 1 - col : col};
}
"""
PLANTED = {
    "never turns": ("band % 2 ? cols - 1 - col : col", "col", "computes part"),
    "always runs back": ("band % 2 ?", "true ?", "computes part"),
    "begins on the right": ("band % 2 ?", "band % 2 == 0 ?", "computes part"),
    "one column too far": ("cols - 1 - col", "cols - col", "computes part"),
    "the last super-row is as high": ("min(height, rows - first)", "height", "computes part"),
    "rows and columns exchanged": (
        "{first + within % high, band % 2 ? cols - 1 - col : col}",
        "{band % 2 ? cols - 1 - col : col, first + within % high}", "computes part"),
    "the super-row's first row is left out": ("{first + within", "{within", "computes part"),
    "rows turn, columns do not": (
        "{first + within % high, band % 2 ? cols - 1 - col : col}",
        "{first + (band % 2 ? high - 1 - within % high : within % high), col}", "computes part"),
    "turns within every column": (
        "band % 2 ? cols - 1 - col : col", "col % 2 ? cols - 1 - col : col", "computes part"),
    "row by row within a super-row": (
        "const int col = within / high;\n    return {first + within % high",
        "const int col = within % cols;\n    return {first + within / cols", "computes part"),
    "a band of rows instead of columns": ("(height * cols)", "(height * rows)", "part"),
    "within the band by its height alone": (
        "number - first * cols", "number % (height * cols) / 1 + 1", "computes part"),
    "never ends": ("const int first = band * height;",
                   "const int first = band * height; while (rows > 0) {}", "it stops"),
    "does not compile": ("const int band", "const in band", "does not compile"),
    "returns nothing": (
        "return {first + within % high, band % 2 ? cols - 1 - col : col};", "", "part"),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_wrong_order_is_refused(mistake: str) -> None:
    right, wrong, words = PLANTED[mistake]
    said = check.serpentine.verdict(replace_once(PART, right, wrong))  # type: ignore[attr-defined]
    assert said.startswith("serpentine: not right yet") and words in said, said


@pytest.mark.nvcc
def test_what_is_no_order_yet() -> None:
    verdict = check.serpentine.verdict  # type: ignore[attr-defined]
    assert verdict("") == "serpentine: not answered yet"
    assert verdict(PART.replace("return {", "return ...; //")) == "serpentine: not answered yet"
    assert "give the CUDA code as a text" in verdict(7)
