"""The specification, the event-driven run and SimPy tell the same story."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasebit.pipeline import (
    INVARIANTS,
    RULES,
    Doing,
    InvariantBroken,
    Pipeline,
    Slot,
    State,
    by_clocks,
    simulate,
    step,
)

from .simpy_model import times as simpy_times
from .systems import WORKED, grid, latency, pipelines

THOROUGH = settings(max_examples=150, deadline=None)


def same(pipeline: Pipeline, jobs: int) -> bool:
    events, clocks = simulate(pipeline, jobs), simulate(pipeline, jobs, by="clocks")
    return (events.jobs, events.clocks, events.trace) == (clocks.jobs, clocks.clocks, clocks.trace)


def times(run) -> list[tuple[int, int, int, int]]:
    return [(j.fill, j.filled, j.drain, j.drained) for j in run.jobs]


# The worked example.


def test_worked_example() -> None:
    run = simulate(WORKED, 20)
    assert run.clocks == 39
    assert str(run) == "20 jobs in 39 clocks"
    assert [j.fill for j in run.jobs[:8]] == [0, 0, 0, 0, 5, 5, 10, 10]


def test_first_events_of_the_worked_example() -> None:
    trace = simulate(WORKED, 20).trace
    assert str(trace[0]) == "clock   0  producer 0  take a ticket  (ticket 0)"
    assert str(trace[10]) == "clock   0  producer 0  start producing  (job 0, slot 0)"
    assert len(trace) == 6 * 20


def test_without_hand_off_the_second_job_is_back_to_back() -> None:
    run = simulate(Pipeline(1, 1, 1, 2, 3, see_full=0, see_empty=0), 2)
    assert times(run) == [(0, 2, 2, 5), (5, 7, 7, 10)]


def test_hand_offs_are_counted_from_the_end_of_the_work() -> None:
    run = simulate(Pipeline(1, 1, 1, 2, 3, see_full=4, see_empty=7), 2)
    assert times(run) == [(0, 2, 6, 9), (16, 18, 22, 25)]


# Two ways to run.


@pytest.mark.drawn
@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_clock_by_clock_is_event_driven_on_the_grid(slots: int) -> None:
    assert all(same(pipeline, 9) for pipeline in grid() if pipeline.slots == slots)


@THOROUGH
@given(pipelines(), st.integers(1, 25))
def test_clock_by_clock_is_event_driven(pipeline, jobs) -> None:
    assert same(pipeline, jobs)


def test_the_comparison_can_fail() -> None:
    late = tuple(
        replace(rule, guard=lambda s, w: s.clock % 2 == 0 and s.started < s.jobs)
        if rule.name == "take a ticket" else rule
        for rule in RULES
    )
    assert by_clocks(WORKED, 20, late).jobs != simulate(WORKED, 20).jobs


# What every run has in common.


@THOROUGH
@given(pipelines(), st.integers(1, 25))
def test_every_job_is_done_once_and_in_time(pipeline, jobs) -> None:
    run = simulate(pipeline, jobs)
    assert [j.number for j in run.jobs] == list(range(jobs))
    assert sorted(j.claim for j in run.jobs) == list(range(jobs))
    assert run.clocks == max(j.drained for j in run.jobs)
    for j in run.jobs:
        assert j.filled - j.fill == pipeline.produce_of(j.number)
        assert j.drained - j.drain == pipeline.consume_of(j.number)
        assert j.drain >= j.filled + pipeline.see_full
        assert j.ticket_at <= j.fill and j.claim_at <= j.drain
        if pipeline.order == "ring":
            assert j.slot == j.number % pipeline.slots and j.claim == j.number


@THOROUGH
@given(pipelines(), st.integers(1, 25))
def test_a_worker_and_a_slot_do_one_thing_at_a_time(pipeline, jobs) -> None:
    run = simulate(pipeline, jobs)
    for busy in (
        lambda j: (j.producer, j.fill, j.filled),
        lambda j: (j.consumer, j.drain, j.drained),
        lambda j: (j.slot, j.fill, j.drained + pipeline.see_empty),
    ):
        spans = sorted(map(busy, run.jobs))
        for (who, _, end), (next_who, start, _) in pairwise(spans):
            assert who != next_who or end <= start


@THOROUGH
@given(pipelines(order="ring", latencies=latency))
def test_order_does_not_matter_when_latencies_are_fixed(pipeline) -> None:
    free = replace(pipeline, order="any")
    assert times(simulate(pipeline, 25)) == times(simulate(free, 25))


# The invariants catch what they should.


def changed(name: str, **change):
    return tuple(replace(rule, **change) if rule.name == name else rule for rule in RULES)


def test_naive_draft_takes_tickets_for_ever() -> None:
    naive = changed("take a ticket", guard=lambda state, worker: True)
    with pytest.raises(InvariantBroken, match="clock 30: invariant broken: tickets: no more jobs"):
        by_clocks(WORKED, 20, naive)
    unchecked = by_clocks(WORKED, 20, naive, check=False)
    assert unchecked.clocks == simulate(WORKED, 20).clocks  # and nothing else looks wrong


def test_two_in_one_slot_break_exclusivity() -> None:
    def barge_in(state, worker):
        worker.job, worker.slot = worker.ticket, 0
        worker.until = state.clock + 5
        state.slots[0].state = Slot.FILLING

    rules = changed("start producing", guard=lambda state, worker: True, effect=barge_in)
    with pytest.raises(InvariantBroken, match="clock 0: invariant broken: exclusive"):
        by_clocks(WORKED, 20, rules)


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("exclusive", lambda s: (_work(s.producers[0], 0), _work(s.producers[1], 0))),
        ("filling", lambda s: setattr(s.slots[0], "state", Slot.FILLING)),
        ("draining", lambda s: setattr(s.slots[0], "state", Slot.DRAINING)),
        ("tickets", lambda s: setattr(s, "started", 21)),
        ("tickets", lambda s: setattr(s, "claimed", 21)),
        ("conserved", lambda s: setattr(s, "produced", 3)),
        ("in time", lambda s: _work(s.producers[0], 0, until=-1)),
    ],
)
def test_each_invariant_can_fail(name, harm) -> None:
    state = State(WORKED, 20)
    holds = next(holds for text, holds in INVARIANTS.items() if text.startswith(name))
    assert holds(state)
    harm(state)
    assert not holds(state)


def _work(worker, slot, until=5):
    worker.doing, worker.slot, worker.until = Doing.PRODUCING, slot, until


def test_a_rule_that_never_fires_is_reported_and_does_not_hang() -> None:
    rules = changed("start consuming", guard=lambda state, worker: False)
    with pytest.raises(RuntimeError, match="clock 11: stuck with 0 of 20 jobs consumed"):
        by_clocks(WORKED, 20, rules)


def test_invariants_hold_in_every_clock_of_a_run() -> None:
    state = State(WORKED, 20)
    while not state.done:
        for _ in step(state):
            pass
        assert all(holds(state) for holds in INVARIANTS.values())
        state.clock += 1


# SimPy as the oracle.


def test_simpy_agrees_on_the_grid() -> None:
    for pipeline in list(grid())[::3]:
        assert times(simulate(pipeline, 9)) == simpy_times(pipeline, 9), pipeline


@THOROUGH
@given(pipelines(order="ring"), st.integers(1, 40))
def test_simpy_agrees(pipeline, jobs) -> None:
    assert times(simulate(pipeline, jobs)) == simpy_times(pipeline, jobs)


# Pictures.


def test_timeline_shows_every_job_in_its_worker_and_in_its_slot() -> None:
    run = simulate(WORKED, 20)
    for kind in ("produce", "consume"):
        labels = [s.label for s in run.timeline.spans if s.kind == kind]
        assert sorted(labels, key=int) == [str(n) for n in range(20) for _ in range(2)]
    assert str(run.timeline).splitlines()[2] == "producer 0  0####4####8####10###14###16###"
