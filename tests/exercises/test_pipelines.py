"""Chapters 1 and 2: right answers pass, planted wrong ones do not, the book's solutions hold."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from pathlib import Path

import pytest

from phasebit.exercises import pipelines, rates
from phasebit.pipeline import Doing, Slot
from tests.book.notebooks import ROOT, code, prose, source, texts

PART = ROOT / "book" / "part1_pipelines"

FUNCTIONS = pytest.mark.parametrize(
    "check",
    [
        pipelines.waited, pipelines.places, pipelines.longest_queue, pipelines.handed_over,
        pipelines.drained,
        rates.fewest_slots, rates.best_split, rates.three_stages,
    ],
    ids=lambda check: check.__name__,
)


def wrong_(check, *answers) -> str:
    """Why the check refuses the answer, or "" when it does not."""
    return check.verdict(*answers).partition(": not right yet: ")[2]


@FUNCTIONS
def test_no_answer_is_no_answer(check) -> None:
    for nothing in (lambda *a: None, lambda *a: ..., None, ...):
        assert check.verdict(nothing) == f"{check.__name__}: not answered yet"


@FUNCTIONS
def test_an_error_and_a_constant_are_wrong(check) -> None:
    assert "it raises ZeroDivisionError" in wrong_(check, lambda *a: 1 // 0)
    assert wrong_(check, lambda *a: True)
    assert wrong_(check, lambda *a: 0)


def test_sequences_not_given_are_no_answer() -> None:
    assert rates.slow_although.verdict(None, None) == "slow_although: not answered yet"
    assert rates.slow_although.verdict(..., [5]) == "slow_although: not answered yet"


def test_a_verdict_names_the_first_case_that_differs() -> None:
    assert wrong_(rates.best_split, lambda w, p, c: 1) == (
        "for 3 workers, produce 2, consume 1 it gives 1, expected is 2"
    )


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
    assert wrong_(pipelines.waited, wrong)


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
    assert wrong_(pipelines.places, wrong)


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
    assert wrong_(pipelines.longest_queue, wrong)


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


def _since(s, w, producer):
    return w.until - (s.pipeline.produce_of if producer else s.pipeline.consume_of)(w.job)


def _handed_over(s, *, roles=(True, False), more=0):
    return all(
        _since(s, w, producer) >= s.slots[w.slot].seen_at + more
        for producer in roles
        for w in (s.producers if producer else s.consumers)
        if w.doing in (Doing.PRODUCING, Doing.CONSUMING)
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda s: True,
        lambda s: False,
        lambda s: _handed_over(s, roles=(True,)),
        lambda s: _handed_over(s, roles=(False,)),
        lambda s: _handed_over(s, more=1),
        lambda s: all(slot.seen_at <= s.clock for slot in s.slots),
        lambda s: all(b.seen_at <= s.clock for b in s.slots if b.state is Slot.FILLING),
    ],
)
def test_handed_over_rejects(wrong) -> None:
    assert wrong_(pipelines.handed_over, _handed_over) == ""
    assert wrong_(pipelines.handed_over, wrong)


def test_without_hand_offs_the_invariants_of_chapter_1_notice_nothing() -> None:
    """What the exercise says: 32 clocks in place of 39, and not one complaint."""
    scope: dict = {}
    for cell in code(PART / "01_state_machine.ipynb"):
        text = source(cell)
        if "class Machine" in text:
            assert " and slot.seen <= self.clock" in text
            text = text.replace(" and slot.seen <= self.clock", "")
        if "class Machine" in text or "def run(" in text or "def take_ticket" in text:
            exec(text, scope)
        elif "def invariants" in text:
            exec(text.partition("\ntry:\n    run(")[0], scope)
    assert scope["run"](check=scope["clock_by_clock"]).clock == 32


def test_a_machine_in_which_nothing_moves_ends() -> None:
    scope: dict = {}
    for cell in code(PART / "01_state_machine.ipynb"):
        if "class Machine" in source(cell):
            exec(source(cell), scope)
            scope["CONSUMERS"] = 0
        elif "def run(" in source(cell):
            with pytest.raises(RuntimeError, match="nothing moves"):
                exec(source(cell), scope)


def test_a_list_is_as_good_as_a_tuple() -> None:
    assert pipelines.drained.verdict(lambda *a: tuple(_recursion(*a))).startswith("drained: OK")


def test_drained_accepts_the_recursion() -> None:
    assert pipelines.drained.verdict(_recursion) == "drained: OK (300 systems)"


@pytest.mark.parametrize(
    "wrong",
    [
        {"back": 1}, {"hand_full": False}, {"hand_empty": False}, {"consumer": False},
        {"fixed": True},
    ],
    ids=str,
)
def test_drained_rejects(wrong) -> None:
    assert wrong_(pipelines.drained, lambda p, jobs: _recursion(p, jobs, **wrong))


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
    assert wrong_(rates.fewest_slots, wrong)


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
    assert wrong_(rates.best_split, wrong)


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
    assert why in wrong_(rates.slow_although, produce, consume)


def _chain(a, b, c, first, second, h, *, both=True, hand_off=True, workers=True):
    h *= hand_off
    rates = [Fraction(first, a + b + h)]
    if both:
        rates.append(Fraction(second, b + c + h))
    if workers:
        rates.append(Fraction(1, max(a, b, c)))
    return min(rates)


def test_three_stages_accepts_the_five_bounds() -> None:
    assert rates.three_stages.verdict(_chain) == "three_stages: OK (300 chains)"


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
    assert wrong_(rates.three_stages, wrong)


# The solutions in the book, executed where the reader would type them.

CHAPTERS = {"01_state_machine": pipelines, "02_how_fast": rates}
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
def test_solutions_of_the_book_are_right(chapter, capsys) -> None:
    import phasebit

    for label, (solution, check) in _exercises(PART / f"{chapter}.ipynb").items():
        module = CHAPTERS[chapter]
        scope = {"pb": phasebit, module.__name__.rpartition(".")[2]: module}
        exec(solution, scope)
        exec(check, scope)
        assert ": OK (" in capsys.readouterr().out, label


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_notebook_is_shipped_unsolved(chapter) -> None:
    for cell in code(PART / f"{chapter}.ipynb"):
        if source(cell).startswith("# exercise: "):
            assert "".join(texts(cell)).endswith(": not answered yet\n")
