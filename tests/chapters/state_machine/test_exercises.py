"""Right answers pass, planted wrong ones do not, the solutions hold."""

from __future__ import annotations

import random

import pytest

from phasebit import contents, files
from phasebit.chapters.state_machine import draft
from phasebit.chapters.state_machine import exercises as pipelines
from phasebit.pipeline import Doing, Slot
from tests.book.notebooks import code, source, texts
from tests.chapters.answers import solve, why_wrong

NOTEBOOK = contents.notebook(files.book(), "state_machine")

FUNCTIONS = pytest.mark.parametrize(
    "check",
    [
        pipelines.waited,
        pipelines.places,
        pipelines.longest_queue,
        pipelines.handed_over,
        pipelines.drained,
    ],
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
    assert why_wrong(pipelines.waited, wrong)


def _places(state, *, waiting=True, kinds=(Slot.FILLING, Slot.FULL, Slot.DRAINING)):
    jobs = [s.job for s in state.slots if s.state in kinds]
    if waiting:
        jobs += [w.ticket for w in state.producers if w.doing is Doing.WAITING]
    return jobs


@pytest.mark.drawn
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
    assert why_wrong(pipelines.places, wrong)


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
    assert why_wrong(pipelines.longest_queue, wrong)


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


@pytest.mark.drawn
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
    assert why_wrong(pipelines.handed_over, _handed_over) == ""
    assert why_wrong(pipelines.handed_over, wrong)


def machine(change: tuple[str, str] = ("", "")) -> dict:
    """What the chapter's cells define, up to the repaired machine, with some words exchanged."""
    scope: dict = {}
    cells = [source(cell) for cell in code(NOTEBOOK)]
    wanted = "class Machine", "def claim(", "def run(", "invariants(m)", "right_dish(m)", "sees(m, "
    for text in cells:
        if any(words in text for words in wanted):
            exec(text.replace(*change) if change[0] else text, scope)
    return scope


def test_without_hand_offs_the_invariants_notice_nothing() -> None:
    """What the exercise says: 32 clocks in place of 39, and not one complaint."""
    scope = machine((" and slot.seen <= m.clock\n", "\n"))
    said = scope["verdict"](6, scope["invariants"], scope["right_dish"])
    assert said == "the last at clock 32, every invariant held"


def test_without_rounds_one_invariant_of_five_notices() -> None:
    scope = machine(("            and slot.round == turn)", "            )"))
    assert scope["verdict"](4, scope["invariants"]).endswith("every invariant held")
    said = scope["verdict"](4, scope["invariants"], scope["right_dish"])
    assert said == "clock 16: consumer 2 holds ticket 8 and drains job 4"


def test_a_machine_in_which_nothing_moves_ends() -> None:
    scope: dict = {}
    for cell in code(NOTEBOOK):
        if "class Machine" in source(cell):
            exec(source(cell), scope)
            scope["CONSUMERS"] = 0
        elif "def claim(" in source(cell):
            exec(source(cell), scope)
        elif "def run(" in source(cell):
            with pytest.raises(RuntimeError, match="nothing moves"):
                exec(source(cell), scope)


def test_the_draft_serves_as_the_chapters_first_program_does() -> None:
    """Also where one dish, or several, take longer than the others, and with fewer slots."""
    scope: dict = {}
    for cell in code(NOTEBOOK):
        text = source(cell).replace('"producing", PRODUCE', '"producing", PRODUCE[worker.job]')
        if any(words in text for words in ("class Machine", "def claim(", "def run(")):
            scope["PRODUCE"] = [5] * 20
            text = text.replace("PRODUCE, CONSUME, HANDOFF = 5, 3, 1", "CONSUME, HANDOFF = 3, 1")
            exec(text, scope)
    draws = random.Random(1)
    for _ in range(40):
        produce = [draws.choice([5, 5, 5, draws.randint(1, 20)]) for _ in range(20)]
        scope["PRODUCE"] = produce
        slots = draws.choice([3, 4, 6, 8])
        log = scope["run"](slots).log
        assert draft.served(produce, slots) == [
            (ticket, job) for name, *_, ticket, job in log if name.startswith("consumer")
        ]


def test_one_dish_is_not_the_usual_ones() -> None:
    """With 6 slots the draft is right while all dishes take the same time."""
    assert all(ticket == dish for ticket, dish in draft.served([5] * 20))


@pytest.mark.parametrize(
    ("dish", "clocks", "why"),
    [
        (5, 5, "every guest gets the right one"),
        (19, 50, "every guest gets the right one"),  # nobody comes after it
        (8, 30, "every guest gets the right one"),
        (20, 5, "dish is 20: give a whole number from 0 to 19"),
        (5, 0, "clocks is 0: give a whole number from 1 to 50"),
        (5, 51, "clocks is 51"),
        (True, 20, "dish is True"),
        (5, 20.0, "clocks is 20.0"),
    ],
)
def test_one_dish_rejects(dish, clocks, why) -> None:
    assert why in why_wrong(pipelines.one_dish, dish, clocks)


def test_a_list_is_as_good_as_a_tuple() -> None:
    assert pipelines.drained.verdict(lambda *a: tuple(_recursion(*a))).startswith("drained: OK")


def test_drained_accepts_the_recursion() -> None:
    assert pipelines.drained.verdict(_recursion) == "drained: OK (300 systems)"


@pytest.mark.parametrize(
    "wrong",
    [
        {"back": 1},
        {"hand_full": False},
        {"hand_empty": False},
        {"consumer": False},
        {"fixed": True},
    ],
    ids=str,
)
def test_drained_rejects(wrong) -> None:
    assert why_wrong(pipelines.drained, lambda p, jobs: _recursion(p, jobs, **wrong))


def test_solutions_of_the_book_are_right(capsys) -> None:
    labels = solve(NOTEBOOK, "pipelines", pipelines)
    assert capsys.readouterr().out.count(": OK (") == len(labels)


def test_the_notebook_is_shipped_unsolved() -> None:
    for cell in code(NOTEBOOK):
        if source(cell).startswith("# exercise: "):
            assert "".join(texts(cell)).endswith(": not answered yet\n")
