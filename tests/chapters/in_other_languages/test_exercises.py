"""The checks of *The same in other languages* accept what is right, refuse what people write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from phasebit.chapters.in_other_languages import exercises as check
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/in_other_languages.ipynb"))
NAMES = "rings", "roles", "chain"


@pytest.mark.parametrize("name", NAMES)
def test_the_solutions_are_right_and_an_open_answer_is_said_to_be_open(name: str) -> None:
    assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])
    assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")


def signals(barriers: Any) -> list[str]:
    return [barrier.signal for barrier in barriers]


def walked(barriers: Any, *, count: Any = None, stop: Any = None, first: str = "bytes") -> Any:
    """The solution's walk, with a part of it replaced."""
    found: list[Any] = []
    here = next((b for b in barriers if b.signal == first), None)
    while here is not None and len(found) < 9:
        producer, consumer = here.tellers, here.waiters
        same = [b for b in barriers if (b.tellers, b.waiters) == (producer, consumer)]
        found.append((producer, consumer, count(barriers, here) if count else len(same)))
        here = next((b for b in barriers if b.tellers == consumer
                     and (stop(b) if stop else b.waiters != producer)), None)  # fmt: skip
    return found


def turned(rings: Any) -> Any:
    return [(consumer, producer, slots) for producer, consumer, slots in rings]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("chain", lambda barriers: walked(barriers)[::-1]),
        ("chain", lambda barriers: turned(walked(barriers))),
        ("chain", lambda barriers: walked(barriers)[:2]),
        ("chain", lambda barriers: walked(barriers)[:1]),
        ("chain", lambda barriers: sorted(walked(barriers))),
        ("chain", lambda barriers: [(p[0], c[0], n) for p, c, n in walked(barriers)]),
        ("chain", lambda barriers: [(p, c, 2 * n) for p, c, n in walked(barriers)]),
        ("chain", lambda barriers: walked(barriers, stop=lambda b: True)),
        ("chain", lambda barriers: walked(barriers, stop=lambda b: b.signal == "commits")),
        ("chain", lambda barriers: walked(barriers, stop=lambda b: b.signal == "arrivals")),
        ("chain", lambda barriers: walked(barriers, first="commits")),
        ("chain", lambda barriers: walked(
            barriers, count=lambda all_, b: sum(x.signal == b.signal for x in all_))),
        ("chain", lambda barriers: walked(
            barriers, count=lambda all_, b: sum(x.waiters == b.waiters for x in all_))),
        ("chain", lambda barriers: walked(
            barriers, count=lambda all_, b: sum(x.tellers == b.tellers for x in all_))),
        ("chain", lambda barriers: [*{(b.tellers, b.waiters, 1): 0 for b in barriers}]),
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
