"""The law against the simulator: equal fractions where it claims to be exact."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasebit.pipeline import (
    Pipeline,
    bounds,
    double_buffering_is_enough,
    exact,
    law,
    simulate,
    slots_enough,
    steady_rate,
)

from .systems import WORKED, grid, latency, pipelines

THOROUGH = settings(max_examples=120, deadline=None)


def test_worked_example_is_bound_by_its_slots() -> None:
    b = bounds(WORKED)
    assert (b.producers, b.consumers, b.slots) == (Fraction(4, 5), 2, Fraction(3, 5))
    assert b.limits == ("slots",)
    assert steady_rate(WORKED) == b.rate == Fraction(3, 5)
    assert slots_enough(WORKED) == 8


def test_law_is_the_simulated_rate_on_the_grid() -> None:
    for pipeline in grid():
        assert steady_rate(pipeline) == bounds(pipeline).rate, pipeline


@THOROUGH
@given(pipelines(order="ring", latencies=latency))
def test_law_is_the_simulated_rate(pipeline) -> None:
    assert exact(pipeline)
    assert steady_rate(pipeline) == bounds(pipeline).rate


def test_the_comparison_can_fail() -> None:
    """A law that forgets the hand-off is wrong somewhere on the grid."""
    wrong = [
        pipeline
        for pipeline in grid()
        if bounds(replace(pipeline, see_full=0, see_empty=0)).rate != steady_rate(pipeline)
    ]
    assert wrong


@THOROUGH
@given(pipelines(order="ring"))
def test_law_is_an_upper_bound_when_latencies_vary(pipeline) -> None:
    assert steady_rate(pipeline) <= bounds(pipeline).rate


def test_variance_beats_the_law_down() -> None:
    steady = Pipeline(1, 1, 2, 5, 5)
    varying = Pipeline(1, 1, 2, [1, 9], [1, 9])
    assert bounds(varying) == bounds(steady) and not exact(varying)
    assert bounds(varying).rate == steady_rate(steady) == Fraction(1, 6)
    assert steady_rate(varying) == Fraction(1, 10)


@THOROUGH
@given(pipelines(order="ring"), st.integers(1, 3))
def test_steady_rate_is_what_a_long_run_tends_to(pipeline, stretch) -> None:
    jobs = 400 * stretch
    run = simulate(pipeline, jobs)
    slack = 200  # clocks of start and end, generously
    assert abs(jobs / steady_rate(pipeline) - run.clocks) <= slack


@pytest.mark.parametrize("handoff", range(6))
def test_when_double_buffering_is_enough(handoff) -> None:
    for p, c in product(range(1, 9), repeat=2):
        two, many = (
            steady_rate(Pipeline(1, 1, slots, p, c, see_full=handoff, see_empty=0))
            for slots in (2, 20)
        )
        assert double_buffering_is_enough(p, c, handoff) == (two == many)
        assert double_buffering_is_enough(p, c, handoff) == (handoff <= abs(p - c))


def test_only_the_sum_of_the_hand_offs_matters_for_the_rate() -> None:
    rates = {steady_rate(Pipeline(2, 3, 3, 4, 5, full, 6 - full)) for full in range(7)}
    assert len(rates) == 1


def test_the_fewest_slots_that_are_enough() -> None:
    for pipeline in grid():
        enough = slots_enough(pipeline)
        best = steady_rate(replace(pipeline, slots=enough + 3))
        assert steady_rate(replace(pipeline, slots=enough)) == best
        if enough > 1:
            assert steady_rate(replace(pipeline, slots=enough - 1)) < best


def test_limits_at_a_crossing() -> None:
    assert bounds(replace(WORKED, slots=8)).limits == ("producers", "slots")


def test_steady_rate_refuses_what_it_cannot_follow() -> None:
    with pytest.raises(ValueError, match="order is 'any'"):
        steady_rate(replace(WORKED, order="any"))
    with pytest.raises(RuntimeError, match="no state repeated within 3 jobs"):
        steady_rate(WORKED, within=3)
    begin = time.monotonic()
    with pytest.raises(ValueError, match="a state of this pipeline is 299,990 numbers"):
        steady_rate(Pipeline(99_999, 99_991, 100_000, 99_989, 99_971))
    assert time.monotonic() - begin < 1


def test_steady_rate_keeps_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    width = WORKED.producers + WORKED.consumers + WORKED.slots
    monkeypatch.setattr(law, "MOST_KEPT", 8 * width)
    with pytest.raises(RuntimeError, match="no state repeated within 8 jobs"):
        steady_rate(replace(WORKED, produce=[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]))
