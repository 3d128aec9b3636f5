"""Turns with rests: who launches when, on a torch that only notes what it is asked for."""

from __future__ import annotations

import ctypes
import types
from collections.abc import Iterator
from typing import Any

import pytest

from phasebit.instruments import rested

CYCLES, NANOSECONDS = 99_000, 50_000


class Counts(list[list[int]]):
    """The tensor that the clock's kernel fills: already filled."""

    def __getitem__(self, index: Any) -> Any:
        return types.SimpleNamespace(data_ptr=lambda: 16 * index)

    def tolist(self) -> list[list[int]]:
        return [[CYCLES, NANOSECONDS] for _ in range(len(self))]


class Gpu:
    """What happened, in order; an event is the number of launches before it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        gpu = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing

            def record(self) -> None:
                self.at = len(gpu.log)

            def elapsed_time(self, other: Event) -> float:
                return float(len([word for word in gpu.log[self.at : other.at] if word != "clock"]))

        stream = types.SimpleNamespace(cuda_stream=0)
        self.torch = types.SimpleNamespace(
            zeros=lambda rows, *_, **__: Counts([[0, 0]] * rows),
            int64=None,
            cuda=types.SimpleNamespace(
                Event=Event, current_stream=lambda: stream, synchronize=lambda: None
            ),
        )
        self.launches = {name: lambda name=name: self.log.append(name) for name in ("ours", "its")}

    def turns(self) -> Iterator[list[str]]:
        """The launches between one rest and the next."""
        turn: list[str] = []
        for word in [*self.log[1:], "rest"]:
            if word == "rest":
                yield turn
                turn = []
            else:
                turn.append(word)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    made = Gpu()
    library = types.SimpleNamespace(run=lambda *_: made.log.append("clock"))
    monkeypatch.setattr(rested, "clock", lambda: types.SimpleNamespace(program="clock"))
    monkeypatch.setattr(ctypes, "CDLL", lambda path: library)
    monkeypatch.setattr(rested.time, "sleep", lambda seconds: made.log.append("rest"))
    return made


def test_a_rest_a_launch_for_nothing_and_one_that_counts(gpu: Gpu) -> None:
    found = rested.times(gpu.torch, gpu.launches, rounds=20, rest=0.1)
    turns = list(gpu.turns())
    assert len(turns) == 40
    assert all(turn[0] == turn[1] and turn[2:] == ["clock"] for turn in turns), turns
    assert found["ours"] == found["its"] == {"times_us": [1000.0] * 20, "mhz": [1980] * 20}


def test_the_order_is_drawn_anew_for_each_round(gpu: Gpu) -> None:
    rested.times(gpu.torch, gpu.launches, rounds=40, rest=0.1)
    first = [turn[0] for turn in gpu.turns()][::2]
    assert set(first) == {"ours", "its"}, "each is first sometimes"


def test_without_drawing_it_is_the_given_one(gpu: Gpu) -> None:
    found = rested.times(gpu.torch, gpu.launches, 3, 0, each=2, drawn=False)
    assert [turn[0] for turn in gpu.turns()] == ["ours", "its"] * 3
    assert all(turn.count("clock") == 2 and len(turn) == 5 for turn in gpu.turns())
    assert len(found["its"]["mhz"]) == 6, "a clock after each launch that counts"


def test_a_sustained_contender_has_run_alone(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(1000))
    monkeypatch.setattr(rested.time, "monotonic", lambda: float(next(now)))
    found = rested.sustained(gpu.torch, gpu.launches, seconds=5, each=3)
    before, after = gpu.turns()
    assert before.count("its") == after.count("ours") == 0
    assert before.count("ours") == 4 * 4 + 1 + 3, "by fours until the time is over, then a turn"
    assert all(len(found[name]["times_us"]) == 3 for name in gpu.launches)
