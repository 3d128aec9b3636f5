"""The checks of *Tiling on the GPU* accept what is right and reject what is nearly right."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from phasebit.chapters.tiling_on_the_gpu import exercises as checks

pytestmark = pytest.mark.nvcc

RIGHT: dict[str, Callable[..., Any]] = {
    "numbers_loaded": lambda rows, columns: (rows + columns) / (rows * columns),
    "sectors": lambda n, r, c: (n // r) * (n // c) * n * (r + c) * 4 // 32,
}
WRONG: list[tuple[str, Callable[..., Any]]] = [
    ("numbers_loaded", lambda rows, columns: 2 / rows),
    ("numbers_loaded", lambda rows, columns: 1 / rows + 1),
    ("numbers_loaded", lambda rows, columns: (rows + columns) / (rows * columns) * 4),
    ("numbers_loaded", lambda rows, columns: "few"),
    ("numbers_loaded", lambda rows, columns: float("nan")),
    ("sectors", lambda n, r, c: n * n * 2 // 8),
    ("sectors", lambda n, r, c: (n // r) * (n // c) * n * (r + c) // 8 + 1),
    ("sectors", lambda n, r, c: str(n)),
    ("sectors", lambda n, r, c: (n // r) * (n // c) * n * (r + c) * 4),
    ("sectors", lambda n, r, c: 2 * n**3 // r // 8),
    ("sectors", lambda n, r, c: n**3 // r // 8 + n**3 // c // 8 + 1),
]


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_answer_is_accepted(name: str) -> None:
    check = getattr(checks, name)
    assert check.verdict(RIGHT[name]).startswith(f"{name}: OK")
    assert check.verdict(lambda *given: ...) == f"{name}: not answered yet"


def test_sums_of_floats_are_right_too() -> None:
    """They may be off by a rounding error; one sector too many is not one."""
    said = checks.sectors.verdict(lambda n, r, c: n**3 / 8 * (1 / r + 1 / c))
    assert said.startswith("sectors: OK")
    said = checks.numbers_loaded.verdict(lambda m, n: np.float32(1 / m + 1 / n))
    assert said.startswith("numbers_loaded: OK")


def test_a_fraction_is_a_number() -> None:
    said = checks.numbers_loaded.verdict(lambda m, n: Fraction(m + n, m * n))
    assert said.startswith("numbers_loaded: OK")


@pytest.mark.parametrize(("name", "answer"), WRONG)
def test_a_wrong_answer_is_rejected(name: str, answer: Callable[..., Any]) -> None:
    assert getattr(checks, name).verdict(answer).startswith(f"{name}: not right yet")


def test_an_order_of_lanes() -> None:
    verdict = checks.lanes.verdict  # type: ignore[attr-defined]
    assert verdict("lane >> 1 & 1 | lane >> 3 & 2", "lane & 1 | lane >> 1 & 6").startswith(
        "lanes: OK"
    )
    assert verdict(..., ...) == verdict("", "") == "lanes: not answered yet"


@pytest.mark.parametrize(
    ("row", "column", "said"),
    [
        ("lane / 8", "lane % 8", "where lane / 8 needs"),
        ("lane % 4", "lane / 4", "where lane / 8 needs"),
        ("lane / 8", "lane / 4", "no longer right"),
        ("lane / 8", "lame % 8", "does not compile"),
        ("1000000", "lane % 8", "a lane leaves its tile"),
        (0, 1, "give two texts"),
    ],
)
def test_other_orders_of_lanes(row: Any, column: Any, said: str) -> None:
    assert said in checks.lanes.verdict(row, column)  # type: ignore[attr-defined]
