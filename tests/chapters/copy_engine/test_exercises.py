"""The checks of *The copy engine* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.copy_engine import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_copy_engine.ipynb"))
FUNCTIONS = ("expected_bytes", "arrivals", "place_of", "registers")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")
    assert check.give_back.verdict(...).endswith("not answered yet")


@pytest.mark.nvcc
def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])
    assert "give_back: OK" in check.give_back.verdict(names["line"])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows, cols, h, w, x, y: h * w,  # elements
        lambda rows, cols, h, w, x, y: 2 * min(h, rows) * min(w, cols),
        lambda rows, cols, h, w, x, y: 2 * max(0, min(h, rows - y)) * max(0, min(w, cols - x)),
        lambda rows, cols, h, w, x, y: True,
    ],
)
def test_expected_bytes_refuses(wrong: object) -> None:
    assert "not right yet" in check.expected_bytes.verdict(wrong)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda groups, blocks: (1, 4 * groups), "others still read"),
        (lambda groups, blocks: (1, groups * blocks), "others still read"),
        (lambda groups, blocks: (1, 128 * groups * blocks), "empty still waits"),
        (lambda groups, blocks: (blocks, 4 * groups * blocks), "full still waits"),
        (lambda groups, blocks: 8, "two counts"),
        (lambda groups, blocks: (1, 0), "from 1"),
    ],
)
def test_arrivals_refuses(wrong: object, words: str) -> None:
    assert words in check.arrivals.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda span, row, piece: row * span + piece * 16,
        lambda span, row, piece: row * span + (piece ^ row % 8) * 16,
        lambda span, row, piece: row * span + (piece ^ row % (span // 16)) * 16,
    ],
)
def test_place_of_refuses(wrong: object) -> None:
    assert "not right yet" in check.place_of.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda groups, kept: 240,
        lambda groups, kept: (512 - kept) // groups // 8 * 8,  # as if all 65,536 were launched
        lambda groups, kept: 65536 // (128 * (groups + 1)) // 8 * 8,
    ],
)
def test_registers_refuses(wrong: object) -> None:
    assert "not right yet" in check.registers.verdict(wrong)


EMPTY = "ptx::mbarrier_arrive(&ring.empty[{}]);"
BEFORE = "(s + SLOTS - 1) % SLOTS"


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "wrong",
    [
        "if (threadIdx.x % 32 == 0) " + EMPTY.format("s"),  # still being read
        "if (threadIdx.x % 32 == 0) " + EMPTY.format(BEFORE),  # in step 0 too
        "if (tile > 0) " + EMPTY.format(BEFORE),  # every lane
        "if (tile > 0 && threadIdx.x == 0) " + EMPTY.format(BEFORE),  # one warp for all
        "ptx::wgmma_wait_group<0>(); if (threadIdx.x % 32 == 0) " + EMPTY.format("s"),
        ";",
        "one more thing",
    ],
)
def test_give_back_refuses(wrong: str) -> None:
    assert "give_back: not right yet" in check.give_back.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize("shape", [(128, 256, 448), (130, 264, 72)])
@pytest.mark.parametrize("kernel", ["copy_engine/a_one_stage", "copy_engine/b_ring"])
def test_the_kernels_are_right(kernel: str, shape: tuple[int, int, int]) -> None:
    assert check.verdict(files.kernel(kernel), shape) == "right, no finding"
