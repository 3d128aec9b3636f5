"""Right answers pass, planted wrong ones do not, the solutions hold."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from phasebit import contents, files
from phasebit.chapters.how_fast import exercises as rates
from tests.book.notebooks import code, source, texts
from tests.chapters.answers import solve, why_wrong

NOTEBOOK = contents.notebook(files.book(), "how_fast")

FUNCTIONS = pytest.mark.parametrize(
    "check",
    [rates.fewest_slots, rates.best_split, rates.three_workers],
    ids=lambda check: check.__name__,
)


@FUNCTIONS
def test_no_answer_is_no_answer(check) -> None:
    for nothing in (lambda *a: None, lambda *a: ..., None, ...):
        assert check.verdict(nothing) == f"{check.__name__}: not answered yet"


@FUNCTIONS
def test_an_error_and_a_constant_are_wrong(check) -> None:
    assert "it raises ZeroDivisionError" in why_wrong(check, lambda *a: 1 // 0)
    assert why_wrong(check, lambda *a: True)
    assert why_wrong(check, lambda *a: 0)


def test_sequences_not_given_are_no_answer() -> None:
    assert rates.slow_although.verdict(None, None) == "slow_although: not answered yet"
    assert rates.slow_although.verdict(..., [5]) == "slow_although: not answered yet"


def test_a_verdict_names_the_first_case_that_differs() -> None:
    assert why_wrong(rates.best_split, lambda w, p, c: 1) == (
        "for 3 workers, produce 2, consume 1 it gives 1, expected is 2"
    )


# Planted wrong answers, each a mistake that somebody makes.


@pytest.mark.parametrize(
    "wrong",
    [
        lambda p, c, h: 2,
        lambda p, c, h: 2 if h <= abs(p - c) else 3,
        lambda p, c, h: (p + c + h) // max(p, c),
        lambda p, c, h: (p + c + h) // max(p, c) + 1,
        lambda p, c, h: ceil((p + c) / max(p, c)),
        lambda p, c, h: ceil((p + c + h) / min(p, c)),
    ],
)
def test_fewest_slots_rejects(wrong) -> None:
    assert why_wrong(rates.fewest_slots, wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda w, p, c: w // 2,
        lambda w, p, c: max(1, w * p // (p + c)),
        lambda w, p, c: min(w - 1, max(1, round(w * p / (p + c)))),
        lambda w, p, c: min(w - 1, max(1, w * c // (p + c))),
        lambda w, p, c: 6,
    ],
)
def test_best_split_rejects(wrong) -> None:
    assert why_wrong(rates.best_split, wrong)


@pytest.mark.parametrize(
    ("produce", "consume", "why"),
    [
        ([5], [5], "1 of the law's 1/6"),
        ([1, 9], [9, 1], "every latency is 1 or 9"),
        ([1, 9], [1, 9, 1, 9], "every latency is 1 or 9"),
        ([2, 8], [8, 2], "the rate is 1/6"),
        ([1] * 8 + [37], [1] * 8 + [37], "54/89 of the law's"),
        ([1, 9], [1, 10], "the mean of consume is 11/2, not 5"),
        ([50], [50], "the mean of produce is 50, not 5"),
        ([0, 10], [1, 9], "produce[0] is 0: give at least 1"),
        ("19", "19", "give a whole number"),
        (5.0, 5.0, "give a whole number"),
    ],
)
def test_slow_although_rejects(produce, consume, why) -> None:
    assert why in why_wrong(rates.slow_although, produce, consume)


def _chain(a, b, c, first, second, h, *, both=True, hand_off=True, workers=True):
    h *= hand_off
    rates = [Fraction(first, a + b + h)]
    if both:
        rates.append(Fraction(second, b + c + h))
    if workers:
        rates.append(Fraction(1, max(a, b, c)))
    return min(rates)


def test_three_workers_accepts_the_five_bounds() -> None:
    assert rates.three_workers.verdict(_chain) == "three_workers: OK (300 chains)"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda *a: _chain(*a, both=False),
        lambda *a: _chain(*a, hand_off=False),
        lambda *a: _chain(*a, workers=False),
        lambda a, b, c, m, n, h: Fraction(min(m, n), a + b + c + 2 * h),
        lambda a, b, c, m, n, h: min(Fraction(1, max(a, b, c)), Fraction(m + n, a + 2 * b + c + h)),
    ],
)
def test_three_workers_rejects(wrong) -> None:
    assert why_wrong(rates.three_workers, wrong)


def test_solutions_of_the_book_are_right(capsys) -> None:
    labels = solve(NOTEBOOK, "rates", rates)
    assert capsys.readouterr().out.count(": OK (") == len(labels)


def test_the_notebook_is_shipped_unsolved() -> None:
    for cell in code(NOTEBOOK):
        if source(cell).startswith("# exercise: "):
            assert "".join(texts(cell)).endswith(": not answered yet\n")
