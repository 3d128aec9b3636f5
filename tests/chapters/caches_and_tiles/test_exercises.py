"""The checks of *Caches and tiles* accept what is right and reject what is nearly right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit import caches
from phasebit.chapters.caches_and_tiles import exercises as checks

pytestmark = pytest.mark.nvcc


def walk(count: int, stride: int, times: int, ways: int) -> int:
    lines: dict[int, int] = {}
    for step in range(count):
        line = step * stride // 64
        lines[line % 64] = lines.get(line % 64, 0) + 1
    return sum(each if each <= ways else times * each for each in lines.values())


def pad(n: int, block: int) -> int:
    while caches.crowding(caches.TYPICAL[0], block, block, n).max() > 6:
        n += 1
    return n


RIGHT: dict[str, Callable[..., Any]] = {
    "which_set": lambda address, line, sets: address // line % sets,
    "misses_of_a_walk": walk,
    "padding": pad,
}

WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("which_set", lambda address, line, sets: address % sets),
    ("which_set", lambda address, line, sets: address // (line * sets)),
    ("which_set", lambda address, line, sets: address // line & (sets - 1)),
    ("misses_of_a_walk", lambda count, stride, times, ways: count),
    ("misses_of_a_walk", lambda count, stride, times, ways: count * times),
    ("misses_of_a_walk", lambda c, s, t, w: c if c <= 64 * w else c * t),
    ("padding", lambda n, block: n),
    ("padding", lambda n, block: n + 16),
    ("padding", lambda n, block: pad(n, block) + 1),
    ("padding", lambda n, block: float(pad(n, block))),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_accepted(name: str) -> None:
    check = getattr(checks, name)
    assert check.verdict(RIGHT[name]).startswith(f"{name}: OK")
    assert check.verdict(lambda *given: ...) == f"{name}: not answered yet"


def test_a_whole_number_of_numpy_is_a_number() -> None:
    answer = checks.padding.verdict(lambda n, block: np.int64(pad(n, block)))
    assert answer.startswith("padding: OK")


def test_the_number_in_the_solution() -> None:
    assert pad(256, 48) == 259


@pytest.mark.parametrize(("name", "answer"), WRONG)
def test_a_wrong_answer_is_rejected(name: str, answer: Callable[..., Any]) -> None:
    assert getattr(checks, name).verdict(answer).startswith(f"{name}: not right yet")
