"""A multiplication that adds to another's sums takes over its buffer, if it is that very buffer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.tensor_core.warpgroups import Queue

LANES = np.arange(128)


@pytest.fixture
def queue() -> Any:
    return Queue(SimpleNamespace(lanes=256, keepers=[]))  # type: ignore[arg-type]


def multiplication(buffer: Any) -> Any:
    return SimpleNamespace(buffer=buffer, lanes=LANES)


@pytest.fixture
def buffer(queue: Any) -> Any:
    made = np.zeros((4, 128), np.uint32)
    queue._own(made, (multiplication(made),))
    return made


def test_its_own_rows_in_order(queue: Any, buffer: Any) -> None:
    assert queue.reusable(tuple(buffer), LANES) is buffer


@pytest.mark.parametrize("chosen", [[0, 1, 2], [1, 0, 2, 3], [0, 1, 2, 2], [1, 2, 3, 3]], ids=str)
def test_not_with_other_rows(queue: Any, buffer: Any, chosen: list[int]) -> None:
    assert queue.reusable([buffer[i] for i in chosen], LANES) is None


def test_not_with_a_row_from_elsewhere(queue: Any, buffer: Any) -> None:
    for i, other in enumerate((np.zeros(128, np.uint32), buffer[1].copy(), np.uint32(0))):
        rows = [*buffer]
        rows[1 + i] = other
        assert queue.reusable(rows, LANES) is None
    assert queue.reusable([np.uint32(0), *buffer[1:]], LANES) is None


def test_not_for_other_threads(queue: Any, buffer: Any) -> None:
    """Another warp group's registers may be held by the same array where both began together."""
    assert queue.reusable(tuple(buffer), LANES + 128) is None
    assert queue.reusable(tuple(buffer), LANES[:64]) is None


def test_not_what_two_multiplications_fill(queue: Any, buffer: Any) -> None:
    first = multiplication(buffer)
    queue._own(buffer, (first, multiplication(np.zeros((4, 128), np.uint32))))
    assert queue.reusable(tuple(buffer), LANES) is None


def test_not_a_copy_that_follows(queue: Any, buffer: Any) -> None:
    copy = buffer.copy()
    queue._own(copy, (multiplication(buffer),))
    assert queue.reusable(tuple(copy), LANES) is None


def test_not_what_nobody_fills(queue: Any) -> None:
    assert queue.reusable(tuple(np.zeros((4, 128), np.uint32)), LANES) is None
