"""The checks of sums and of fetched banks accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import re

import pytest

from phasebit.chapters.other_forms import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/other_forms.ipynb"))
FETCH = next(text for text in solutions(CHAPTER) if "void fetch" in text).split('"""')[1]

pytestmark = pytest.mark.nvcc


def test_the_solutions_on_the_page_are_right() -> None:
    names: dict[str, object] = {}
    exec(next(text for text in solutions(CHAPTER) if "def sum_after" in text), names)
    assert "sum_after: OK" in check.sum_after.verdict(names["sum_after"])
    assert "fetch: OK" in check.fetch.verdict(FETCH)
    exec(next(text for text in solutions(CHAPTER) if "def mask" in text), names)
    assert check.mask.verdict(names["mask"]) == "mask: OK (6 masks)"


def word_by_word(lanes: list[int]) -> list[int]:
    return [sum(1 << lane % 32 for lane in lanes if lane // 32 == word) for word in range(4)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda lanes: word_by_word(lanes)[::-1],
        lambda lanes: [0xFFFFFFFF ^ word for word in word_by_word(lanes)],  # those that change
        lambda lanes: word_by_word([lane // 32 * 32 + 31 - lane % 32 for lane in lanes]),
        lambda lanes: [0, 0, 0, 0],
        lambda lanes: word_by_word(lanes)[:3],
        lambda lanes: sum(1 << lane for lane in lanes),
    ],
)
def test_mask_refuses(wrong: object) -> None:
    assert "not right yet" in check.mask.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, s: n,
        lambda n, s: n / 2**s,
        lambda n, s: sum(1 / 2 ** (s * (i + 1)) for i in range(n)),
        lambda n, s: sum(1 / (s + 1) ** i for i in range(n)),
        lambda n, s: 2 - 2 ** (1 - n),
        lambda n, s: sum(1 / 2 ** (s * i) for i in range(n + 1)),
    ],
)
def test_sum_after_refuses(wrong: object) -> None:
    assert "not right yet" in check.sum_after.verdict(wrong)


WRONGS = {
    "each lane is a row": ("row = t % HIGH, bank = t / HIGH", "row = t, bank = 0", "wrong|finds"),
    "banks are rows": (
        "row = t % HIGH, bank = t / HIGH", "row = t / BANKS, bank = t % BANKS", "C is wrong"),
    "the first quarter for all": ("(t / 32 * 32 << 16)", "0", "quarter|finds"),
    "nobody waits": ("        ptx::tcgen05_wait_ld();\n", "", "finds|wrong"),
    "the first tile alone": ("column < COLUMNS", "column < WIDTH", "C is wrong"),
    "32 columns to a sum": ("column / WIDTH * HIGH", "column / 32 * HIGH", "wrong|finds|outside"),
    "sums as wide as C": ("first = bank * WIDTH +", "first = bank * N +", "C is wrong"),
    "no edge below": ("i < m && ", "", "after the end"),
    "no edge at the right": (" && first + j < n", "", "after the end|C is wrong|finds"),
}  # fmt: skip
"""What is replaced by what in the solution, and what must be said."""


@pytest.mark.parametrize("name", WRONGS)
def test_fetch_refuses(name: str) -> None:
    old, new, says = WRONGS[name]
    assert old in FETCH
    said = check.fetch.verdict(FETCH.replace(old, new))
    assert said.startswith("fetch: not right yet") and re.search(says, said), said


def test_a_blank_function_is_not_answered_yet() -> None:
    assert check.fetch.verdict("// yours").endswith("not answered yet")
    assert check.sum_after.verdict(lambda *a: ...).endswith("not answered yet")
    assert "as a string" in check.fetch.verdict(1) and "keep the line" in check.fetch.verdict("x")
