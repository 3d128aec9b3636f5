"""Wrong parameters are refused in one sentence that names the thing, the value, the remedy."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.pipeline import Doing, Pipeline, Slot, State, simulate, steady_rate
from phasebit.pipeline.ring import Ring

GOOD = {"producers": 4, "consumers": 6, "slots": 6, "produce": 5, "consume": 3}


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"producers": 0}, ValueError, "producers is 0: give at least 1"),
        ({"consumers": 0}, ValueError, "consumers is 0: give at least 1"),
        ({"slots": 0}, ValueError, "slots is 0: give at least 1"),
        ({"slots": -2}, ValueError, "slots is -2: give at least 1"),
        ({"produce": -5}, ValueError, "produce is -5: give at least 1"),
        ({"produce": 0}, ValueError, "produce is 0: give at least 1"),
        ({"consume": 0}, ValueError, "consume is 0: give at least 1"),
        ({"consume": [3, -1]}, ValueError, "consume[1] is -1: give at least 1"),
        ({"consume": [3, 2.5]}, TypeError, "consume[1] is 2.5: give a whole number"),
        ({"consume": []}, ValueError, "consume is an empty sequence: give at least one latency"),
        ({"consume": "3"}, TypeError, "consume is '3': give a whole number of at least 1"),
        ({"see_full": -1}, ValueError, "see_full is -1: give at least 0"),
        ({"see_empty": -1}, ValueError, "see_empty is -1: give at least 0"),
        ({"producers": 2.0}, TypeError, "producers is 2.0: give a whole number of at least 1"),
        ({"producers": True}, TypeError, "producers is True: give a whole number"),
        ({"slots": None}, TypeError, "slots is None: give a whole number"),
        ({"order": "lifo"}, ValueError, "order is 'lifo': give 'ring' or 'any'"),
    ],
    ids=str,
)
def test_a_wrong_parameter_is_refused_in_a_sentence(change, error, sentence) -> None:
    with pytest.raises(error) as caught:
        Pipeline(**{**GOOD, **change})
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("producers", [10, 12])
def test_more_producers_than_workers_are_refused(producers) -> None:
    with pytest.raises(ValueError, match=f"producers is {producers} of 10 workers.*at most 9"):
        Pipeline.of_workers(10, producers=producers, slots=6, produce=5, consume=3)


def test_one_worker_cannot_do_both() -> None:
    with pytest.raises(ValueError, match="workers is 1: give at least 2"):
        Pipeline.of_workers(1, producers=1, slots=6, produce=5, consume=3)


def test_ten_workers_of_which_four_produce() -> None:
    assert Pipeline.of_workers(10, producers=4, slots=6, produce=5, consume=3) == Pipeline(**GOOD)


@pytest.mark.parametrize("jobs", [0, -1])
def test_no_jobs_are_refused(jobs) -> None:
    with pytest.raises(ValueError, match=f"jobs is {jobs}: give at least 1"):
        simulate(Pipeline(**GOOD), jobs)


@pytest.mark.parametrize("jobs", [2.0, True, "20"])
def test_jobs_that_are_no_number_are_refused(jobs) -> None:
    with pytest.raises(TypeError, match=r"jobs is .*: give a whole number"):
        simulate(Pipeline(**GOOD), jobs)


class TestNumbersOfOtherTypes:
    """Whole numbers of NumPy's types, as they come out of arrays, are what they are."""

    @pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
    def test_they_are_taken(self, kind) -> None:
        given = {name: kind(number) for name, number in GOOD.items()}
        made, same = Pipeline(**given, see_full=kind(0)), Pipeline(**GOOD, see_full=0)
        assert made == same and str(made) == str(same)
        assert simulate(made, kind(20)) == simulate(same, 20)
        assert all(type(getattr(made, name)) is int for name in GOOD)
        assert Pipeline.of_workers(
            kind(10), producers=kind(4), slots=kind(6), produce=kind(5), consume=[kind(3)]
        ) == Pipeline(4, 6, 6, 5, (3,))
        assert steady_rate(made, within=kind(100)) == steady_rate(made)
        assert Ring(kind(2), kind(3)) == Ring(2, 3) and type(Ring(kind(2), 3).stages) is int

    @pytest.mark.parametrize("wrong", [np.float64(3), np.bool_(True), np.array([3, 4])])
    def test_what_is_no_whole_number_is_not(self, wrong) -> None:
        with pytest.raises(TypeError, match=r"slots is .*: give a whole number"):
            Pipeline(**{**GOOD, "slots": wrong})


def test_an_unknown_way_to_simulate_is_refused() -> None:
    with pytest.raises(ValueError, match="by is 'magic': give 'events' or 'clocks'"):
        simulate(Pipeline(**GOOD), 1, by="magic")


def test_initial_state() -> None:
    state = State(Pipeline(**GOOD), 20)
    assert {w.doing for w in state.producers + state.consumers} == {Doing.FREE}
    assert {s.state for s in state.slots} == {Slot.EMPTY}
    assert (state.clock, state.started, state.claimed, state.consumed) == (0, 0, 0, 0)


def test_latencies_repeat() -> None:
    pipeline = Pipeline(1, 1, 2, [1, 2, 3], 4)
    assert [pipeline.produce_of(job) for job in range(7)] == [1, 2, 3, 1, 2, 3, 1]
    assert pipeline.consume_of(5) == 4
    assert hash(pipeline) == hash(Pipeline(1, 1, 2, (1, 2, 3), 4))


@pytest.mark.parametrize("name", ["producers", "consumers", "slots"])
def test_a_pipeline_is_no_larger_than_memory(name: str) -> None:
    sizes = {"producers": 1, "consumers": 1, "slots": 1, name: 10**9}
    with pytest.raises(ValueError, match=f"{name} is 1000000000: give at most 100,000"):
        Pipeline(**sizes, produce=1, consume=1)


def test_a_simulation_keeps_every_job() -> None:
    with pytest.raises(ValueError, match=r"jobs is 1000000000: .* give at most 5,000,000"):
        simulate(Pipeline(1, 1, 1, 1, 1), 10**9)
