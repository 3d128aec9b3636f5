"""The checks of *The copy engine* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import pytest

from phasebit import measure
from phasebit.chapters.copy_engine import exercises as check
from phasebit.edits import replace_each
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_copy_engine.ipynb"))
FUNCTIONS = ("copies_under_way", "endings", "place_of")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")
    assert check.patches.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rate, ns, units, piece: rate * ns // (units * piece),  # some too few
        lambda rate, ns, units, piece: rate * ns // (units * piece) + 1,  # one too many at times
        lambda rate, ns, units, piece: -(-rate * ns // piece),  # of the whole GPU
        lambda rate, ns, units, piece: -(-rate * ns // units),  # bytes
    ],
)
def test_copies_under_way_refuses(wrong: object) -> None:
    assert "not right yet" in check.copies_under_way.verdict(wrong)


@pytest.mark.nvcc
def test_the_kernel_in_the_chapter_is_right() -> None:
    assert "patches: OK" in check.patches.verdict(solved(CHAPTER)["patches"])


ASK = "            ptx::mbarrier_arrive_expect_tx(&full[i % 2], sizeof slot[0]);\n"
WAIT = "            ptx::mbarrier_wait(&full[i % 2], i / 2 % 2);\n"
READ = "                ptx::cp_async_bulk_wait_group_read<0>();  // patch i - 1 has been read\n"
LAST = "        }\n        ptx::cp_async_bulk_wait_group_read<0>();\n"
WRONG = {
    "no fence": (("        ptx::fence_mbarrier_init();\n", ""),),
    "no expect": ((ASK, ""),),
    "both slots' bytes": (("sizeof slot[0]", "sizeof slot"),),
    "elements": (("sizeof slot[0]", "ROWS * COLS"),),
    "parity stays": (("i / 2 % 2", "0"),),
    "parity of i": (("i / 2 % 2", "i % 2"),),
    "no wait": ((WAIT, ""),),
    "refilled too early": ((READ, ""),),
    "one too many pending": (
        ("wait_group_read<0>();  // patch", "wait_group_read<1>();  // patch"),
    ),
    "no commit": (("            ptx::cp_async_bulk_commit_group();\n", ""),),
    "leaves early": ((LAST, "        }\n"),),
    "rows for columns": (("corners[i].x, corners[i].y", "corners[i].y, corners[i].x"),),
    "stack by patch": (("0, ROWS * i", "0, i"),),
    "stack to the right": (("0, ROWS * i", "COLS * i, 0"),),
    "everybody": (("    if (threadIdx.x == 0) {\n", "    {\n"),),
    "count 32": (("mbarrier_init(&barrier, 1)", "mbarrier_init(&barrier, 32)"),),
    "slot 0": (("stack, 0, ROWS * i, slot[i % 2]", "stack, 0, ROWS * i, slot[0]"),),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", WRONG)
def test_patches_refuses(mistake: str) -> None:
    text = replace_each(solved(CHAPTER)["patches"], WRONG[mistake], "patches")
    assert "patches: not right yet" in check.patches.verdict(text)


def whole_copies(first: list[int], second: list[int], announced: int) -> set[str]:
    return ends([sum(first)], [sum(second)], announced)


def ends(first: list[int], second: list[int], announced: int) -> set[str]:
    return set(check._ends(first, second, announced))


@pytest.mark.parametrize(
    "wrong",
    [
        whole_copies,
        lambda a, b, said: {"complete"} if said == sum(a) + sum(b) else {"never"},
        lambda a, b, said: ends([*a, *b], [], said),  # one copy after the other
        lambda a, b, said: ends(a, b, said) - ({"complete"} if said < sum(a + b) else set()),
        lambda a, b, said: ends(a, b, said) - {"never"} or {"never"},
        lambda a, b, said: ends(a, b, said) | {"too early"},
        lambda a, b, said: {"complete", "too early", "never"},
    ],
)
def test_endings_refuses(wrong: object) -> None:
    assert "not right yet" in check.endings.verdict(wrong)


def test_equal_pieces_do_not_end_as_the_blocks_of_the_record() -> None:
    said = check.endings.verdict(solved(CHAPTER)["endings"])
    assert "0 of 9 sizes can end in never" in said and "8 sizes always do" in said
    blocks = {(case["copies"], case["more"]): case["blocks"]
              for case in measure.read("copy_engine")["announced"]}  # fmt: skip
    assert min(blocks[2, -4096].values()) > 0 and blocks[2, -16]["never"] == 2112


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
