"""The checks of the page of trials accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean, median
from typing import Any

import pytest

from phasebit.chapters.every_shape.exercises import turns
from phasebit.chapters.every_shape_trials import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

PAGE = ROOT / "book/part5_hopper/every_shape_trials.ipynb"


def test_no_answer_yet() -> None:
    for each in (check.came_true, check.helpers):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert turns.verdict("// yours").endswith("not answered yet")


def test_the_solutions_of_arithmetic_are_right() -> None:
    for name in ("came_true", "helpers"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(PAGE)[name])


def judged_by(
    change: Callable[[list[float], list[float]], float]
) -> Callable[[str, list[float], list[float], float], bool]:
    def answer(expected: str, before: list[float], after: list[float], level: float) -> bool:
        by = change(before, after)
        return expected == ("the same" if abs(by) < level else "slower" if by > 0 else "faster")

    return answer


@pytest.mark.parametrize(
    "wrong",
    [
        judged_by(lambda a, b: fmean(b) / fmean(a) - 1),
        judged_by(lambda a, b: min(b) / min(a) - 1),
        judged_by(lambda a, b: b[0] / a[0] - 1),
        judged_by(lambda a, b: median(b) - median(a)),  # microseconds
        judged_by(lambda a, b: 100 * (median(b) / median(a) - 1)),  # per cent
        judged_by(lambda a, b: median(a) / median(b) - 1),  # the other way round
        lambda e, a, b, level: e == ("slower" if median(b) > median(a) else "faster"),
        lambda e, a, b, level: e != "the same",
    ],
)
def test_came_true_refuses(wrong: Callable[..., bool]) -> None:
    assert "not right yet" in check.came_true.verdict(wrong)


def begun(tiles: int, steps: int, workers: int) -> list[int]:
    return [tiles * steps * w // workers for w in range(workers)]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda t, s, w: -(-w // t),
        lambda t, s, w: w // t,
        lambda t, s, w: w // t - 1,
        lambda t, s, w: 1,
        lambda t, s, w: max(sum(i * s <= b < (i + 1) * s for b in begun(t, s, w))
                            for i in range(t)),  # the owner too
        lambda t, s, w: sum(0 < b < s for b in begun(t, s, w)),  # of the first tile
        lambda t, s, w: min(sum(i * s < b < (i + 1) * s for b in begun(t, s, w))
                            for i in range(t)),
    ],
)  # fmt: skip
def test_helpers_refuses(wrong: Callable[..., Any]) -> None:
    assert "not right yet" in check.helpers.verdict(wrong)


def test_one_wave_at_5000_has_sixteen_helpers() -> None:
    assert solved(PAGE)["helpers"](4, 79, 66) == 16


@pytest.mark.nvcc
def test_the_turns_of_the_page_are_right() -> None:
    assert "turns: OK (3 products" in turns.verdict(solved(PAGE)["two_turns"])


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("(made / 2 + group + 1) % 2", "(made / 2 + group) % 2"),
        ("(made / 2 + group + 1) % 2", "(made / 2 + 1) % 2"),  # both alike
        ("(made / 2 + group + 1) % 2", "(made + group + 1) % 2"),
        ("ring.turn[1 - group]", "ring.turn[group]"),
        ("if (threadIdx.x % 32 == 0) ", ""),
        ("if (threadIdx.x % 32 == 0)", "if (threadIdx.x % 128 == 0)"),
    ],
)
def test_the_turns_refuse(right: str, wrong: str) -> None:
    text = replace_once(str(solved(PAGE)["two_turns"]), right, wrong)
    said = turns.verdict(text)
    assert "not right yet" in said, said
