"""The checks of *The ring at full width* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import pytest

from phasebit import files
from phasebit.chapters.hopper_ring import exercises as check
from phasebit.edits import replace_each
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_hopper_ring.ipynb"))
FUNCTIONS = ("arrivals", "registers")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")
    assert check.give_back.verdict(...).endswith("not answered yet")
    assert check.two_producers.verdict("// yours").endswith("not answered yet")
    assert check.shares.verdict("// yours").endswith("not answered yet")


@pytest.mark.nvcc
def test_the_solutions_in_the_chapter_are_right() -> None:
    names = solved(CHAPTER)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])
    assert "give_back: OK" in check.give_back.verdict(names["line"])
    assert "two_producers: OK" in check.two_producers.verdict(names["producers"])
    assert "shares: OK" in check.shares.verdict(names["end"])


WAIT = "        ptx::mbarrier_wait(&ring.empty[s], !phase);\n"
ANNOUNCE = (
    "        ptx::mbarrier_arrive_expect_tx(&ring.full[s], of_a ? sizeof stage.a : "
    "sizeof stage.b);\n"
)
PRODUCERS = {
    "full counts one": (("full[s], 2)", "full[s], 1)"),),
    "full counts the warps": (("full[s], 2)", "full[s], CONSUMERS / 32)"),),
    "empty counts for both": (("CONSUMERS / 32", "2 * CONSUMERS / 32"),),
    "empty counts threads": (("CONSUMERS / 32", "CONSUMERS"),),
    "each announces all": (("of_a ? sizeof stage.a : sizeof stage.b", "sizeof stage"),),
    "the bytes of A": (("of_a ? sizeof stage.a : sizeof stage.b", "sizeof stage.a"),),
    "nobody waits": ((WAIT, ""),),
    "only A waits": ((WAIT, "        if (of_a) ptx::mbarrier_wait(&ring.empty[s], !phase);\n"),),
    "the other parity": (("empty[s], !phase", "empty[s], phase"),),
    "B into A": (("of_a ? stage.a : stage.b, map", "stage.a, map"),),
    "k in tiles": (("tile * BK, first", "tile, first"),),
    "coordinates exchanged": (("tile * BK, first", "first, tile * BK"),),
    "an arrival too many": (
        (ANNOUNCE, ANNOUNCE + "        ptx::mbarrier_arrive(&ring.full[s]);\n"),
    ),
    "slot 0": (("advance<SLOTS>(s, phase)", "phase = !phase"),),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", PRODUCERS)
def test_two_producers_refuses(mistake: str) -> None:
    text = replace_each(solved(CHAPTER)["producers"], PRODUCERS[mistake], "producers")
    assert "two_producers: not right yet" in check.two_producers.verdict(text)


MEET = "    ptx::cluster_arrive();  // {}\n    ptx::cluster_wait();\n"
ENDS = {
    "the sums are read at once": ((MEET.format("all sums are there"), ""),),
    "the block's own threads meet": (
        (MEET.format("all sums are there"), "    __syncthreads();\n"),),
    "a block leaves early": ((MEET.format("a block stays while others read in it"), ""),),
    "two blocks only": (("block < PAIR", "block < 2"),),
    "its own sums only": (("there(&ring.sums[col], block)", "ring.sums[col]"),),
    "block 0 for all": (("rank * share", "0"),),
    "all for all": (("rank * share + threadIdx.x", "threadIdx.x"), ("< share", "< COLS")),
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", ENDS)
def test_shares_refuses(mistake: str) -> None:
    text = replace_each(solved(CHAPTER)["end"], ENDS[mistake], "end")
    assert "shares: not right yet" in check.shares.verdict(text)


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
@pytest.mark.parametrize("kernel", ["hopper_ring/a_one_stage", "hopper_ring/b_ring"])
def test_the_kernels_are_right(kernel: str, shape: tuple[int, int, int]) -> None:
    assert check.verdict(files.kernel(kernel), shape) == "right, no finding"
