"""The checks of *To pack or not to pack* accept what is right and reject what is nearly right."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.chapters.to_pack_or_not import exercises as checks
from phasebit.nests import misses
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_to_pack_or_not.ipynb"))


def column(rows: int, ld: int) -> int:
    return len({row * ld * 4 // 4096 for row in range(rows)})


def copies(extents: dict[str, int], order: Any, index: Any, depth: int) -> int:
    return math.prod(extents[name] for name in {*order[:depth], *index})


def reused(order: Any, index: Any) -> list[int]:
    return [
        depth
        for depth, name in enumerate(order)
        if name not in index and any(inner in index for inner in order[depth + 1 :])
    ]


def cheapest(nest: Any) -> Any:
    names = [level.variable for level in nest.order]
    return min(
        itertools.permutations(names),
        key=lambda order: misses.estimate(nest.interchange(*order)).cycles,
    )


RIGHT: dict[str, Callable[..., Any]] = {
    "pages_of_column": column,
    "copied": copies,
    "depths": reused,
    "best_order": cheapest,
}

WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("pages_of_column", lambda rows, ld: -(-rows * ld * 4 // 4096)),
    ("pages_of_column", lambda rows, ld: rows),
    ("pages_of_column", lambda rows, ld: min(rows, -(-rows * ld * 4 // 4096))),
    ("pages_of_column", lambda rows, ld: len({row * ld // 4096 for row in range(rows)})),
    ("copied", lambda e, order, index, depth: math.prod(e[name] for name in index)),
    ("copied", lambda e, order, index, depth: math.prod(e[n] for n in (*order[:depth], *index))),
    ("copied", lambda e, order, index, depth: math.prod(e[n] for n in order)),
    ("depths", lambda order, index: [d for d, n in enumerate(order) if n not in index]),
    ("depths", lambda order, index: [d for d in reused(order, index) if d > 0]),
    ("depths", lambda order, index: list(range(len(order)))),
    ("best_order", lambda nest: [level.variable for level in nest.order]),
    ("best_order", lambda nest: sorted(level.variable for level in nest.order)),
    ("best_order", lambda nest: cheapest(nest)[:-1]),
    ("best_order", lambda nest: cheapest(nest)[::-1]),
    # What is no number, no list, no order at all.
    ("pages_of_column", lambda rows, ld: np.arange(2)),
    ("pages_of_column", lambda rows, ld: {row * ld * 4 // 4096 for row in range(rows)}),
    ("copied", lambda e, order, index, depth: np.arange(2)),
    ("depths", lambda order, index: set(reused(order, index))),
    ("depths", lambda order, index: [order[d] for d in reused(order, index)]),
    ("best_order", lambda nest: nest.order),
    ("best_order", lambda nest: nest.interchange(*cheapest(nest))),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_accepted(name: str) -> None:
    check = getattr(checks, name)
    assert check.verdict(RIGHT[name]).startswith(f"{name}: OK")
    assert check.verdict(lambda *given: ...) == f"{name}: not answered yet"


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, Any] = {"misses": misses}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in RIGHT:
        assert getattr(checks, name).verdict(names[name]).startswith(f"{name}: OK")


@pytest.mark.parametrize(("name", "answer"), WRONG)
def test_a_wrong_answer_is_rejected(name: str, answer: Callable[..., Any]) -> None:
    verdict = getattr(checks, name).verdict(answer)
    assert verdict.startswith(f"{name}: not right yet")
    assert len(verdict) < 300, verdict


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_no_function_is_rejected(name: str) -> None:
    said = f"{name}: not right yet: the answer is 5, and should be a function"
    assert getattr(checks, name).verdict(5) == said
