"""The copies with stamps and tables compute what they should, and their stamps are read right."""

from typing import Any

import numpy as np
import pytest

from phasebit.chapters.every_shape import early_controls, on_emulator, plans
from phasebit.chapters.every_shape.early_controls import Stamp
from phasebit.chapters.every_shape.plans import Plan

SMALL = Plan(plans.EARLY, 1, 16, 2)  # four tiles of 70 × 24


def room() -> "np.ndarray[Any, Any]":
    return np.zeros((64, 256, 8), np.uint64)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "way", [early_controls.EARLY, early_controls.NOT_EARLY, early_controls.LATE]
)
def test_with_stamps(way: str) -> None:
    stamps = room()
    done = on_emulator.multiply(early_controls.stamped(way, SMALL), 70, 24, 264, more=[stamps])
    assert done.exact and not done.run.findings, done.run.findings
    seen = early_controls.read(stamps[0, :4].tolist())
    assert [each.unit for each in seen] == [0, 1, 2, 3]
    for each in seen:
        assert each.comes <= each.goes_on <= each.ends
        assert 0 < each.to_full < each.clocks


@pytest.mark.nvcc
@pytest.mark.parametrize("way", [early_controls.EARLY, early_controls.NOT_EARLY])
def test_by_a_table(way: str) -> None:
    """Six blocks, of which four make a tile; on the emulator block i is on multiprocessor i."""
    places = np.full(early_controls.UNITS, -1, np.int32)
    places[[1, 2, 4, 5]] = [2, 0, 3, 1]
    stamps, counts = room(), np.zeros(2, np.uint32)
    done = on_emulator.multiply(
        early_controls.placed(way, SMALL), 70, 24, 264, more=[stamps, places, counts], grid=6
    )
    assert done.exact and not done.run.findings, done.run.findings
    assert not counts.any()
    seen = early_controls.read(stamps[0, :4].tolist())
    assert early_controls.table(seen) == places.tolist()


@pytest.mark.nvcc
def test_the_word_at_the_end() -> None:
    done = on_emulator.multiply(early_controls.late(SMALL), 70, 24, 264)
    assert done.exact and not done.run.findings, done.run.findings


def test_told() -> None:
    """Two launches on two of four multiprocessors; the second has one place of the first."""
    first = [Stamp(0, 10, 1010, 5, 900, 0), Stamp(0, 20, 2010, 6, 1900, 1)]
    second = [Stamp(500, 3010, 4010, 7, 901, 1), Stamp(500, 3110, 5010, 8, 1801, 2)]
    found = early_controls.told([first, second], {0: 0, 1: 0, 2: 1, 3: 1})
    assert found["us"] == 3.0 and found["gap_us"] == 1.0 and found["spread_us"] == 0.1
    assert found["slowest_us"] == 2.0 and found["fastest_us"] == 1.0
    assert found["units"] == 2 and found["again"] == 1 and found["both"] == 0
    assert found["most"] == 1 and found["came_before_us"] == 1.51


def test_no_table_of_two_tiles_at_one_place() -> None:
    with pytest.raises(ValueError, match="made two tiles"):
        early_controls.table([Stamp(0, 0, 0, 0, 0, 7), Stamp(0, 0, 0, 0, 0, 7)])
