"""A flushed time is none of the host's: launches that it was late for are made anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from phasebit import toolchain
from phasebit.chapters.every_shape.bench import Bench


def bench(late: int) -> tuple[Any, list[str]]:
    """A bench on a GPU that has waited long enough before the first ``late`` tries were asked."""
    tries: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool = False) -> None:
            pass

        def record(self) -> None:
            pass

        def query(self) -> bool:
            return len(tries) <= late

        def elapsed_time(self, _: Event) -> float:
            return 1.0 if len(tries) <= late else 0.008

    cuda = SimpleNamespace(
        Event=Event, _sleep=lambda _: tries.append("a try"), synchronize=lambda: None
    )
    made: Any = Bench.__new__(Bench)
    made._ahead = 1
    made._torch, made._other = SimpleNamespace(cuda=cuda), SimpleNamespace(sum=lambda: None)
    return made, tries


def test_what_the_host_was_late_for_does_not_count() -> None:
    made, tries = bench(late=2)
    assert made._flushed(lambda: None) == [8.0] * 3
    assert len(tries) == 3


def test_a_host_that_is_always_late_is_told() -> None:
    made, tries = bench(late=1000)
    with pytest.raises(toolchain.CudaError, match="is it busy"):
        made._flushed(lambda: None)
    assert len(tries) < 1000
