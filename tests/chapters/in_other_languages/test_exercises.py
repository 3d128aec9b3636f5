"""The checks of *The same in Gluon and Triton* accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.in_other_languages import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/in_other_languages.ipynb"))
NAMES = "agent", "rings", "roles"


def answers() -> dict[str, Any]:
    names: dict[str, Any] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    return names


@pytest.mark.parametrize("name", NAMES)
def test_the_solutions_are_right_and_an_open_answer_is_said_to_be_open(name: str) -> None:
    assert f"{name}: OK" in getattr(check, name).verdict(answers()[name])
    assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")


def signals(barriers: Any) -> list[str]:
    return [barrier.signal for barrier in barriers]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("agent", lambda signal: "threads"),
        ("agent", lambda signal: {"bytes": "tensor core"}.get(signal, "threads")),
        ("rings", lambda barriers: (4, 2)),
        ("rings", lambda barriers: (len(barriers) // 2, 2)),
        ("rings", lambda barriers: (signals(barriers).count("commits"), 2)),
        ("rings", lambda barriers: (signals(barriers).count("bytes"),) * 2),
        ("roles", lambda barriers: (4, 5, (0, 1, 2, 3))),
        ("roles", lambda barriers: (barriers[0].tellers[0], barriers[0].waiters[0], (0, 1, 2, 3))),
        ("roles", lambda barriers: next(
            (b.waiters[0], b.tellers[0], (0, 1, 2, 3)) for b in barriers if b.signal == "bytes")),
        ("roles", lambda barriers: next(
            (b.waiters[0], b.tellers[0], b.waiters) for b in barriers if b.signal == "commits")),
    ],
)  # fmt: skip
def test_wrong_answers_are_refused(name: str, wrong: Callable[..., Any]) -> None:
    assert "not right yet" in getattr(check, name).verdict(wrong)
