"""Chapters 1 and 2: right answers pass, planted wrong ones do not, the book's solutions hold."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

from phasebit.exercises import chapter1, chapter2
from phasebit.exercises.verdict import judge
from phasebit.pipeline import Doing, Slot
from tests.book.notebooks import ROOT, code, prose, source, texts

FUNCTIONS = pytest.mark.parametrize(
    "check",
    [
        chapter1.waited, chapter1.places, chapter1.longest_queue, chapter1.drained,
        chapter2.fewest_slots, chapter2.best_split, chapter2.three_stages,
    ],
    ids=lambda check: check.__name__,
)


@FUNCTIONS
def test_no_answer_is_no_answer(check) -> None:
    assert repr(check(lambda *a: None)) == "not answered yet"
    assert check(lambda *a: ...).right is None


@FUNCTIONS
def test_an_error_and_a_constant_are_wrong(check) -> None:
    assert "it raises ZeroDivisionError" in repr(check(lambda *a: 1 // 0))
    assert check(lambda *a: True).right is False
    assert check(lambda *a: 0).right is False


def test_sequences_not_given_are_no_answer() -> None:
    assert chapter2.slow_although(None, None).right is None
    assert chapter2.slow_although(..., [5]).right is None


def test_a_verdict_names_the_first_case_that_differs() -> None:
    verdict = judge(lambda a: a, [((1,), 1), ((2,), 3)], lambda a: f"case {a}", "cases")
    assert repr(verdict) == "not right yet: for case 2 it gives 2, expected is 3"
    verdict = judge(lambda a: 1 // a, [((1,), 1), ((0,), 1)], lambda a: f"case {a}", "cases")
    assert repr(verdict).startswith("not right yet: for case 0 it raises ZeroDivisionError")
    assert repr(judge(lambda a: a, [((1,), 1)] * 3, str, "cases")) == "right, in all 3 cases"


# Planted wrong answers, each a mistake that somebody makes.


@pytest.mark.parametrize(
    "wrong",
    [
        lambda run, n: sum(j.fill - j.ticket_at for j in run.jobs),
        lambda run, n: sum(j.drain - j.claim_at for j in run.jobs if j.consumer == n),
        lambda run, n: sum(j.fill > j.ticket_at for j in run.jobs if j.producer == n),
        lambda run, n: run.clocks - sum(j.filled - j.fill for j in run.jobs if j.producer == n),
        lambda run, n: [0, 0, 15, 15][n] if n < 4 else 0,  # copied off the worked example
    ],
)
def test_waited_rejects(wrong) -> None:
    assert chapter1.waited(wrong).right is False


def _places(state, *, waiting=True, kinds=(Slot.FILLING, Slot.FULL, Slot.DRAINING)):
    jobs = [s.job for s in state.slots if s.state in kinds]
    if waiting:
        jobs += [w.ticket for w in state.producers if w.doing is Doing.WAITING]
    return jobs


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: True,
        lambda s: False,
        lambda s: len(_places(s)) == s.started - s.consumed,  # counts, and misses a job twice
        lambda s: len(set(_places(s))) == len(_places(s)),  # misses a lost job
        lambda s: len(_places(s, waiting=False)) == s.started - s.consumed,
        lambda s: len(set(_places(s, kinds=(Slot.FULL,)))) == s.started - s.consumed,
        lambda s: s.produced >= s.consumed,
    ],
)
def test_places_rejects(wrong) -> None:
    assert chapter1.places(wrong).right is False


@pytest.mark.parametrize(
    "wrong",
    [
        lambda run: run.pipeline.slots,
        lambda run: max(1, run.pipeline.producers - run.pipeline.consumers),
        lambda run: max(sum(j.filled <= t < j.drain for j in run.jobs) for t in range(run.clocks)),
        lambda run: max(
            sum(j.filled + run.pipeline.see_full <= t <= j.drain for j in run.jobs)
            for t in range(run.clocks)
        ),
    ],
)
def test_longest_queue_rejects(wrong) -> None:
    assert chapter1.longest_queue(wrong).right is False


def _recursion(p, jobs, *, back=0, hand_full=True, hand_empty=True, consumer=True, fixed=False):
    ends, free, reader = [], 0, 0
    for i in range(jobs):
        before = i - p.slots - back
        fill = max(free, ends[before] + p.see_empty * hand_empty if before >= 0 else 0)
        free = fill + p.produce_of(0 if fixed else i)
        drain = max(reader * consumer, free + p.see_full * hand_full)
        reader = drain + p.consume_of(i)
        ends.append(reader)
    return ends


def test_drained_accepts_the_recursion() -> None:
    assert repr(chapter1.drained(_recursion)) == "right, in all 300 systems"


@pytest.mark.parametrize(
    "wrong",
    [
        {"back": 1}, {"hand_full": False}, {"hand_empty": False}, {"consumer": False},
        {"fixed": True},
    ],
    ids=str,
)
def test_drained_rejects(wrong) -> None:
    assert chapter1.drained(lambda p, jobs: _recursion(p, jobs, **wrong)).right is False


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
    assert chapter2.fewest_slots(wrong).right is False


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
    assert chapter2.best_split(wrong).right is False


@pytest.mark.parametrize(
    ("produce", "consume", "why"),
    [
        ([5], [5], "1 of the law's 1/6"),
        ([1, 9], [9, 1], "the rate is 1/6"),
        ([1, 9], [1, 10], "the mean of consume is 11/2, not 5"),
        ([50], [50], "the mean of produce is 50, not 5"),
        ([0, 10], [1, 9], "produce[0] is 0: give at least 1"),
        ("19", "19", "give a whole number"),
        (5.0, 5.0, "give a whole number"),
    ],
)
def test_slow_although_rejects(produce, consume, why) -> None:
    verdict = chapter2.slow_although(produce, consume)
    assert verdict.right is False and why in repr(verdict)


def _chain(a, b, c, first, second, h, *, both=True, hand_off=True, workers=True):
    h *= hand_off
    rates = [Fraction(first, a + b + h)]
    if both:
        rates.append(Fraction(second, b + c + h))
    if workers:
        rates.append(Fraction(1, max(a, b, c)))
    return min(rates)


def test_three_stages_accepts_the_five_bounds() -> None:
    assert repr(chapter2.three_stages(_chain)) == "right, in all 300 chains"


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
def test_three_stages_rejects(wrong) -> None:
    assert chapter2.three_stages(wrong).right is False


# The solutions in the book, executed where the reader would type them.

PART = ROOT / "book" / "part1_pipelines"
CHAPTERS = {"01_state_machine": chapter1, "02_how_fast": chapter2}
SOLUTION = re.compile(r"\{solution\} ([\w-]+).*?```python\n(.*?)```", re.DOTALL)


def _exercises(path: Path) -> dict[str, tuple[str, str]]:
    """Label of the exercise -> (its solution's code, the line that checks it)."""
    solutions = dict(SOLUTION.findall(prose(path)))
    checks = {}
    for cell in code(path):
        if found := re.match(r"# exercise: ([\w-]+)\n", source(cell)):
            checks[found[1]] = source(cell).strip().splitlines()[-1]
    assert solutions.keys() == checks.keys() and solutions
    return {label: (solutions[label], checks[label]) for label in solutions}


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_solutions_of_the_book_are_right(chapter) -> None:
    import phasebit

    for label, (solution, check) in _exercises(PART / f"{chapter}.ipynb").items():
        module = CHAPTERS[chapter]
        scope = {"pb": phasebit, module.__name__.rpartition(".")[2]: module}
        exec(solution, scope)
        assert eval(check, scope).right, label


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_notebook_is_shipped_unsolved(chapter) -> None:
    for cell in code(PART / f"{chapter}.ipynb"):
        if source(cell).startswith("# exercise: "):
            assert texts(cell) == ["not answered yet"]
