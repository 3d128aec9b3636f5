"""The checks of *Tensor memory* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import pytest

from phasebit.chapters.tensor_memory import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTERS = [
    next(ROOT.glob(f"book/*/??_{name}.ipynb"))
    for name in ("tensor_memory", "one_thread_multiplies")
]
FUNCTIONS = ("address_for", "columns", "cell_of", "clocks_per_tile")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")
    assert check.earliest.verdict(...).endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in [text for chapter in CHAPTERS for text in solutions(chapter)]:
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])
    assert names["earliest"] == 3


@pytest.mark.parametrize(
    "wrong",
    [
        lambda base, warp, column: base + column + (warp * 32 << 16),  # right for four warps
        lambda base, warp, column: base + column + (warp % 4 << 16),
        lambda base, warp, column: column + (warp % 4 * 32 << 16),
        lambda base, warp, column: base + (column << 16) + warp % 4 * 32,
        lambda base, warp, column: True,
    ],
)
def test_address_for_refuses(wrong: object) -> None:
    assert "not right yet" in check.address_for.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, sums: n * sums,
        lambda n, sums: min(512, 1 << (n * sums - 1).bit_length()),  # 0 where they do not fit
        lambda n, sums: 1 << (n * sums - 1).bit_length(),  # at least 32
        lambda n, sums: 512,
    ],
)
def test_columns_refuses(wrong: object) -> None:
    assert "not right yet" in check.columns.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, j: (t, j),  # 32x32b
        lambda t, j: (t // 4 + 8 * (j % 2), t % 4 + 4 * (j // 2)),  # 16x128b
        lambda t, j: (t // 4, 2 * (t % 4) + j % 2 + 8 * (j // 2)),
        lambda t, j: (t // 4 + 8 * (j // 2 % 2), 2 * (t % 4) + j % 2),
        lambda t, j: (2 * (t % 4) + j % 2 + 8 * (j // 4), t // 4 + 8 * (j // 2 % 2)),
        lambda t, j: t // 4,
    ],
)
def test_cell_of_refuses(wrong: object) -> None:
    assert "not right yet" in check.cell_of.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda slices, product, epilogue, sums: slices * product + epilogue,
        lambda slices, product, epilogue, sums: max(slices * product, epilogue),
        lambda slices, product, epilogue, sums: (slices * product + epilogue) / sums,
        lambda slices, product, epilogue, sums: slices * product,
    ],
)
def test_clocks_per_tile_refuses(wrong: object) -> None:
    assert "not right yet" in check.clocks_per_tile.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("place", "says"),
    [(0, "finds race"), (1, "finds race"), (2, "finds race"), (3, "earliest: OK"),
     (4, "an earlier place"), (5, "give a number"), (True, "give a number"), ("3", "give a num")],
)  # fmt: skip
def test_earliest_runs_the_kernel(place: object, says: str) -> None:
    assert says in check.earliest.verdict(place)
