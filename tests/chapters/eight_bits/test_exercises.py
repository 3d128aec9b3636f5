"""The checks of *Eight bits* accept what is right and refuse what people write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.eight_bits import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_eight_bits.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.limit, check.losses, check.scales_of):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.consume.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    for name in ("limit", "losses", "scales_of"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda term: 8192.0,
        lambda term: 2.0**13 * term,
        lambda term: 2.0 ** (13 + math.floor(math.log2(term))),
        lambda term: 2.0 ** (13 + math.ceil(math.log2(term))),
        lambda term: 2.0 ** (24 + math.floor(math.log2(term))),
        lambda term: 2.0 ** (14 + round(math.log2(term))),
        lambda term: "8192",
    ],
)
def test_limit_refuses(wrong: Callable[[float], Any]) -> None:
    assert "not right yet" in check.limit.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, i, half, row, col: (128 * row + t // 2, 2 * col + half),
        lambda t, i, half, row, col: (128 * row + 16 * (t // 32) + t % 32 // 4, 2 * col + half),
        lambda t, i, half, row, col: (
            128 * row + 16 * (t // 32) + t % 32 // 4 + 8 * (i % 2), 2 * col + half),
        lambda t, i, half, row, col: (
            128 * row + 16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), col + half),
        lambda t, i, half, row, col: (
            16 * (t // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 2 * col + half),
        lambda t, i, half, row, col: (
            128 * row + 16 * (t % 128 // 32) + t % 32 // 4 + 8 * (i // 2 % 2), 2 * col + half),
        lambda t, i, half, row, col: (
            128 * row + 16 * (t // 32) + t % 4 + 8 * (i // 2 % 2), 2 * col + half),
    ],
)  # fmt: skip
def test_scales_of_refuses(wrong: Callable[..., Any]) -> None:
    assert "not right yet" in check.scales_of.verdict(wrong)


def line(cycles: int, *shapes: tuple[int, float]) -> tuple[float, float]:
    (few, less), (many, more) = ((n, n * cycles * (1 / part - 1)) for n, part in shapes)
    each = (more - less) / (many - few)
    return each, less - few * each


@pytest.mark.parametrize(
    "wrong",
    [
        lambda cycles, short, long: (round(cycles * (1 / long[1] - 1)), 0),
        lambda cycles, short, long: (0, round(short[0] * cycles * (1 / short[1] - 1))),
        lambda cycles, short, long: tuple(map(round, line(cycles, *(
            (steps, 1 / (2 - part)) for steps, part in (short, long))))),
        lambda cycles, short, long: tuple(reversed([*map(round, line(cycles, short, long))])),
        lambda cycles, short, long: (abs(round(line(cycles, short, long)[0])),
                                     abs(round(line(cycles, short, long)[1]))),
    ],
)  # fmt: skip
def test_losses_refuses(wrong: Callable[..., Any]) -> None:
    assert "not right yet" in check.losses.verdict(wrong)


FREE = "                    if (lane == 0) ptx::mbarrier_arrive(&ring.empty[s]);\n"
SUMS = "        Part sums[2] = {};\n"
WRONG = {
    "no wait for full": (("            ptx::mbarrier_wait(&ring.full[s], phase);\n", ""),),
    "the other parity": (("full[s], phase", "full[s], !phase"),),
    "no __syncwarp": (("                    __syncwarp();\n", ""),),
    "every lane frees the slot": (("if (lane == 0) ptx::mbarrier", "ptx::mbarrier"),),
    "never frees a slot": ((FREE, ""),),
    "frees it before the second half": (("if (half == 1)", "if (half == 0)"),),
    "no fence": (("                ptx::wgmma_fence();\n", ""),),
    "waits too loosely": (("ptx::wgmma_wait_group<0>", "ptx::wgmma_wait_group<1>"),),
    "one scale for both rows": (("below = ring.scales[s][mine + 8]", "below = scale"),),
    "the row eight below, counted in lanes": (("[mine + 8]", "[mine + 2]"),),
    "the warp's rows left out": (("mine = warp * 16 + lane / 4", "mine = lane / 4"),),
    "the left half's scales for both": (("within = half * HALF + 8", "within = 8"),),
    "a scale for two neighbours": (("(lane % 4) + i % 2", "(lane % 4)"),),
    "columns by lane": (("2 * (lane % 4)", "lane % 4"),),
    "a scale for 128 rows of B": (("b_scales[of_b * steps", "b_scales[of_b / 128 * steps"),),
    "beyond the last row of B": (("min(col * BN + within, tiles.N - 1)", "col * BN + within"),),
    "the first step's scales of B": (("of_b * steps + k]", "of_b * steps]"),),
    "scales of B as if rows were innermost": (
        ("of_b * steps + k]", "k * tiles.N + of_b]"),),
    "sums of the tile before": (
        (SUMS, ""), ("    int s = 0;\n", "    int s = 0;\n    Part sums[2] = {};\n")),
    "never advances": (("            advance<SLOTS>(s, phase);\n", ""),),
    "both halves to one place": (("col * BN + half * HALF);", "col * BN);"),),
    "the warp's rows of C": (("row * BM + warp * BOX_ROWS,", "row * BM,"),),
    "only the first tile": (("n += gridDim.x", "n += tiles.count()"),),
}  # fmt: skip


@pytest.mark.nvcc
def test_the_solution_runs() -> None:
    assert check.consume.verdict(solved(CHAPTER)["role"]) == "consume: OK (4 runs, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_consume_refuses(name: str) -> None:
    role = str(solved(CHAPTER)["role"])
    for old, new in WRONG[name]:
        role = replace_once(role, old, new)
    assert check.consume.verdict(role).startswith("consume: not right yet: ")
