"""What units publish and learn by memory: lessons, and the later of two times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from phasebit.emulator.checker.messages import Knowledge, Lesson, _strike, add, merge

SHADOW: Any = SimpleNamespace(threads=lambda lanes: lanes % 8)


def lesson(lanes: list[int], time: int) -> Lesson:
    return Lesson(np.array(lanes), time, {time: np.array([time])})


def test_lessons_that_come_before_what_is_said() -> None:
    knowledge = Knowledge()
    assert knowledge.known_to(SHADOW, np.zeros(8)) == []
    first, second, third = lesson([8, 9], 5), lesson([11], 7), lesson([9, 15], 9)
    knowledge.lessons += [first, second, third]
    said = np.zeros(8, int)

    def known(**times: int) -> list[Lesson]:
        now = said.copy()
        for name, time in times.items():
            now[int(name[1:])] = time
        return knowledge.known_to(SHADOW, now)

    assert known() == []
    for _ in range(2):  # once worked out, and once kept
        assert known(t0=5) == [first] and known(t0=4) == [] and known(t1=5) == [first]
        assert known(t3=7) == [second] and known(t3=6, t7=8) == []
        assert known(t7=9) == [third] and known(t1=9) == [first, third]
        assert known(t0=9, t3=9, t7=9) == [first, second, third]
        assert knowledge.table is not None
    knowledge.lessons.append(lesson([10], 2))
    knowledge.table = None
    assert known(t2=2) == knowledge.lessons[3:]


def test_the_later_time_of_each_thread_counts() -> None:
    one, two = np.array([1, 5, 3]), np.array([2, 4, 3])
    clocks: dict[Any, Any] = {}
    add(clocks, 0, one)
    assert clocks[0] is one
    add(clocks, 0, two)
    assert clocks[0].tolist() == [2, 5, 3] and one.tolist() == [1, 5, 3]
    later = np.array([2, 5, 4])
    add(clocks, 0, later)
    assert clocks[0] is later  # where all is later, or the same, nothing is made anew
    add(clocks, 0, np.array([9, 5, 0]))
    add(clocks, 1, one)
    other = {0: np.array([0, 7, 0]), 2: two}
    merge(clocks, other)
    assert {key: said.tolist() for key, said in clocks.items()} == {
        0: [9, 7, 4], 1: [1, 5, 3], 2: [2, 4, 3],
    }  # fmt: skip


def test_what_clocks_cover_is_no_longer_bad() -> None:
    times, who = np.array([5, 6, 5, 5, 9]), np.array([0, 1, 4, 5, 6])
    theirs = who // 4
    bad, here = np.ones(5, bool), np.array([True, True, True, False, True])
    clocks: dict[Any, Any] = {0: np.array([5, 5, 0, 0]), 1: np.array([4, 5, 9, 0])}
    _strike(bad, here, times, who % 4, theirs, clocks)
    assert bad.tolist() == [False, True, True, True, False]
    bad = np.ones(5, bool)
    _strike(bad, np.ones(5, bool), times, who % 4, theirs, {1: clocks[1]})
    assert bad.tolist() == [True, True, True, False, False]
