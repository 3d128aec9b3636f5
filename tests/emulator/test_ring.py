"""The drawing of a ring: order and overlap from a trace, in the words of Part I."""

from __future__ import annotations

import pytest

from phasebit.emulator.machine.trace import Event, Signal, Trace
from phasebit.launching.ring_timeline import jobs, timeline

FULL, EMPTY = ["full0", "full1"], ["empty0", "empty1"]


def trace() -> Trace:
    """Two slots, three tiles: a wait before the third is written, and before the first is read."""
    signals = [
        *[(8, 1, "empty0"), (8, 1, "empty1")],  # before the loop
        *[(0, 2, "empty0"), (0, 10, "full0"), (0, 11, "empty1"), (0, 20, "full1")],
        *[(0, 21, "empty0"), (0, 50, "full0")],
        *[(8, 3, "full0"), (8, 40, "empty0"), (8, 41, "full1"), (8, 80, "empty1")],
        *[(8, 81, "full0"), (8, 120, "empty0")],
    ]
    waits = [Event(0, (8,), 3, 10, "wait", ""), Event(0, (0,), 21, 40, "wait", "")]
    return Trace(events=waits, signals=[Signal(0, (w,), at, name) for w, at, name in signals])


def test_jobs_begin_after_their_wait() -> None:
    filled = list(jobs(trace(), 0, EMPTY, FULL))
    assert [(j.slot, j.begin, j.end) for j in filled] == [(0, 0, 10), (1, 10, 20), (0, 40, 50)]
    drained = list(jobs(trace(), 8, FULL, EMPTY))
    assert [(j.slot, j.begin, j.end) for j in drained] == [(0, 10, 40), (1, 40, 80), (0, 80, 120)]


def test_the_drawing() -> None:
    rows = str(timeline(trace(), 0, 8, FULL, EMPTY)).splitlines()[2:6]
    assert [row.split() for row in rows] == [
        ["producer", "0##1##...2##"],
        ["slot", "0", "0##0=====2##ooo2=="],
        ["slot", "1", "1##ooo1====="],
        ["consumer", "...0=====1=====2=="],
    ]


def test_warps_that_hand_nothing_over() -> None:
    with pytest.raises(ValueError, match="arrivals at empty0, empty1, full0, full1"):
        timeline(trace(), 0, 9, FULL, EMPTY)


def test_jobs_with_parity_need_no_arrival_of_the_waiter() -> None:
    signals = [(4, 10, "full0"), (4, 20, "full1"), (0, 30, "empty0"), (4, 45, "full0")]
    waits = [Event(0, (0,), 2, 12, "wait", ""), Event(0, (4,), 21, 30, "wait", "")]
    parity = Trace(events=waits, signals=[Signal(0, (w,), at, b) for w, at, b in signals])
    filled = [(j.slot, j.begin, j.end) for j in jobs(parity, 4, EMPTY, FULL)]
    assert filled == [(0, 0, 10), (1, 10, 20), (0, 30, 45)]
    assert [(j.slot, j.begin, j.end) for j in jobs(parity, 0, FULL, EMPTY)] == [(0, 12, 30)]
