"""The checks of *Your own kernels* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasebit.chapters.your_own_kernels import exercises as check
from tests.book.notebooks import ROOT, solutions
from tests.chapters.answers import why_wrong

NOTEBOOK = ROOT / "book/appendix/your_own_kernels.ipynb"
BLOCK, ROTATE, SUMS = range(3)


def solution(number: int) -> object:
    scope: dict[str, object] = {}
    exec(solutions(NOTEBOOK)[number], scope)
    return scope["answer"]


@pytest.mark.parametrize("judge", [check.smallest_block, check.rotate, check.catches])
def test_an_open_exercise_is_said_to_be_open(judge: object) -> None:
    assert judge.verdict(...).endswith(": not answered yet")


@pytest.mark.nvcc
def test_the_solutions_are_right() -> None:
    for number, judge in enumerate((check.smallest_block, check.rotate, check.catches)):
        assert ": OK (" in judge.verdict(solution(number)), judge.verdict(solution(number))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (32, "with 32 nothing is found"),
        (34, "with one thread fewer as well"),
        (0, "no number of threads"),
        (257, "no number of threads"),
        ("33", "no number of threads"),
        (True, "no number of threads"),
    ],
)
def test_a_wrong_block_is_refused(answer: object, why: str) -> None:
    assert why in why_wrong(check.smallest_block, answer)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("__syncthreads();", "", "race"),
        ("__syncthreads();", "__syncwarp();", "33 threads, 1 turns: race"),
        ("(i + 1)", "(i + 2)", "are not turned"),
        ("s[i] = next;", "s[i] = next; __syncthreads();", "9 barriers, and 6 are enough"),
        ("int next", "nonsense next", "identifier"),
        ("rotate", "turn", "no kernel called 'rotate'"),
        ("x[i] = s[i];", "x[i + 1] = s[i];", "after the end"),
    ],
)
def test_a_wrong_rotation_is_refused(old: str, new: str, why: str) -> None:
    answer = str(solution(ROTATE))
    assert old in answer
    assert why in why_wrong(check.rotate, answer.replace(old, new))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[100, 300]", "[384]", "passes a kernel that reads past the end"),
        ("integers(0, 100, n)", "integers(1, 2, n)", "passes a kernel that takes one element for"),
        (".launch", ".launched", "fails for a kernel that is right"),
        ("def test_sums", "def sums", "pytest finds no test in it"),
    ],
)
def test_a_test_that_misses_a_wrong_kernel_is_refused(old: str, new: str, why: str) -> None:
    answer = str(solution(SUMS))
    assert old in answer
    assert why in why_wrong(check.catches, answer.replace(old, new))


def test_the_kernels_of_the_checks_are_those_of_the_page() -> None:
    text = Path(NOTEBOOK).read_text(encoding="utf-8").replace("\\n", "\n").replace('\\"', '"')
    page = "".join(text.split('",\n    "'))
    assert len({check.SUMS.replace(old, new) for old, new in check.WRONG_SUMS.values()}) == 5
    for line in check.SUMS.strip().splitlines():
        assert line in page, line
