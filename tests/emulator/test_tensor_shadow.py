"""What is remembered of cells of tensor memory: who was there last, and who is not done."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.checker.tensor_shadow import Last, Reading, TensorShadow, Waiting
from phasebit.emulator.tensor_core.regions import HALVES, Region


def region(
    columns: tuple[int, int], slot: int = 0, halves: tuple[int, int] = (0, HALVES)
) -> Region:
    return Region(slot, slice(*halves), slice(*columns))


def test_who_was_there_last_and_is_not_known() -> None:
    last = Last(2)
    last.note(region((8, 16), 1, (2, 4)), 3, 50, 7)
    last.note(region((12, 14), 1, (3, 4)), 2, 60, 9)
    known = np.array([0, 0, 59, 50])
    everything = region((0, 32), 1)
    assert last.some_late(everything, known) and last.late(everything, known) == (2, 9, 60)
    assert last.late(region((8, 12), 1), known) is None
    assert not last.some_late(region((8, 12), 1), known)
    assert last.late(region((14, 16), 1), np.array([0, 0, 59, 49])) == (3, 7, 50)
    for elsewhere in (region((0, 32), 0), region((0, 8), 1), region((16, 99), 1),
                      region((8, 16), 1, (0, 2)), region((8, 16), 1, (4, HALVES))):  # fmt: skip
        assert not last.some_late(elsewhere, np.zeros(4))
    known[2] = 60
    assert last.late(everything, known) is None and not last.some_late(everything, known)
    known[3] = 49
    assert last.late(everything, known) == (3, 7, 50)


def test_what_warps_have_begun_and_not_waited_for() -> None:
    waiting = Waiting()
    first, second, third = region((0, 8)), region((16, 24)), region((4, 6), 1)
    for lane, where, access in ((32, first, 1), (0, second, 2), (32, third, 3), (32, second, 4)):
        waiting.add(lane, where, access)
    assert waiting.meeting(region((0, 64))) == [(32, first, 1), (0, second, 2), (32, second, 4)]
    assert waiting.meeting(region((0, 64)), 32) == [(0, second, 2)]
    assert waiting.meeting(region((0, 64)), 0) == [(32, first, 1), (32, second, 4)]
    assert waiting.meeting(region((0, 64), 1)) == [(32, third, 3)]
    assert waiting.meeting(region((0, 64), 1), 32) == []
    assert waiting.meeting(region((8, 16))) == []  # between the two of one warp
    assert waiting.meeting(region((7, 16))) == [(32, first, 1)]
    assert [(where, access) for _, where, access in waiting.ended(32)] == [
        (first, 1), (third, 3), (second, 4)
    ]  # fmt: skip
    assert waiting.meeting(region((0, 64), 1)) == []
    assert waiting.meeting(region((0, 64))) == [(0, second, 2)]
    assert waiting.ended(32) == [] and waiting.ended(64) == []
    waiting.add(32, first, 5)
    assert waiting.meeting(region((0, 64))) == [(0, second, 2), (32, first, 5)]


def test_words_that_an_operation_reads() -> None:
    reading = Reading(np.array([3, 5, 9]), 64, 70, 11, 2)
    assert (reading.low, reading.high) == (3, 9)
    assert (reading.lane, reading.column, reading.time, reading.access) == (64, 70, 11, 2)


@pytest.mark.parametrize(("steps", "forms"), [
    ([((0, 4), 7)], [7, 7, 7]), ([((0, 4), 7), ((4, 8), 7)], [7, 7, 7]),
    ([((0, 4), 7), ((4, 8), 9)], [7, 9, 7]), ([((0, 4), 7), ((4, 8), 9), ((2, 8), 7)], [7, 7, 7]),
    ([((0, 4), 7), ((4, 8), 9), ((0, 4), 9)], [9, 9, 7]),
    ([((0, 4), 7), ((4, 8), 9), ((0, 8), 3)], [3, 3, 7]),
])  # fmt: skip
def test_the_form_of_what_wrote_last(
    steps: list[tuple[tuple[int, int], int]], forms: list[int]
) -> None:
    """While there is one form only, it is that of all cells: none is looked up then."""
    shadow = TensorShadow(2)
    for columns, form in steps:
        shadow.formed(region(columns, 1), form)
    assert [int(shadow.form[1, 0, column]) for column in (0, 5, 9)] == forms
    assert shadow.forms == {form for _, form in steps}
    assert int(shadow.form[0, 0, 0]) == steps[0][1]
