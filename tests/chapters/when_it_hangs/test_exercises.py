"""The checks of *When it hangs, when it is wrong* accept solutions, refuse what people write."""

from __future__ import annotations

import pytest

from phasebit import bugs
from phasebit.chapters.when_it_hangs import exercises as check
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = ROOT / "book/appendix/when_it_hangs.ipynb"


def test_no_answer_yet() -> None:
    for each in (check.arrives, check.named, check.alive):
        assert each.verdict(...).endswith("not answered yet")


@pytest.mark.nvcc
def test_the_solutions_are_right() -> None:
    given = solved(CHAPTER)
    assert "alive: OK" in check.alive.verdict(given["program"])  # the last of this name
    assert "named: OK" in check.named.verdict(given["answer"])
    first = bugs.bug(check.HANGS).text("fixed").partition("#include")
    assert "arrives: OK" in check.arrives.verdict(first[1] + first[2])


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("", "", "the broken program"),
        ("ptx::mbarrier_wait(&full, 0);", "", "schedule"),
        ("ptx::mbarrier_init(&full, 1);", "ptx::mbarrier_init(&full, 32);", "schedule"),
        (
            "    ptx::mbarrier_wait(&full, 0);",
            "    ptx::mbarrier_arrive(&full);\n    ptx::mbarrier_wait(&full, 0);",
            "schedule",
        ),
    ],
)
def test_a_hang_is_not_ended_so(before: str, after: str, says: str) -> None:
    text = bugs.bug(check.HANGS).code
    said = check.arrives.verdict(text.replace(before, after) if before else text)
    assert "not right yet" in said and says in said, said


@pytest.mark.nvcc
@pytest.mark.parametrize("wrong", [("count", 21), ("phase", 27), ("reuse", 21), ("phase", "21")])
def test_another_kind_or_line_is_refused(wrong: tuple[str, int]) -> None:
    assert "not right yet" in check.named.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("    if (threadIdx.x == 32) ptx::mbarrier_inval(&empty);\n", "", "no mbarrier_inval"),
        ("ptx::mbarrier_inval", "__nanosleep(9), ptx::mbarrier_inval", "schedule"),
        (
            "if (threadIdx.x == 32) ptx::mbarrier_inval(&empty);",
            "ptx::mbarrier_wait(&empty, 0);\n"
            "    if (threadIdx.x == 32) ptx::mbarrier_inval(&empty);",
            "schedule",
        ),
    ],
)
def test_a_dead_barrier_is_not_mended_so(before: str, after: str, says: str) -> None:
    """The last one lets threads wait at a barrier that another has invalidated."""
    said = check.alive.verdict(bugs.bug(check.DEAD).code.replace(before, after))
    assert "not right yet" in said and says in said, said
