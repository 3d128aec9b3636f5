"""Regions of tensor memory: how they are named, where two meet, what lies around both."""

from __future__ import annotations

import itertools

import pytest

from phasebit.emulator.tensor_core.regions import HALVES, Region, around, overlap

LANES = [slice(0, 8), slice(0, 8, 2), slice(1, 8, 2), slice(0, 2), slice(2, 4), slice(7, 8)]
COLUMNS = [slice(0, 4), slice(4, 8), slice(3, 5), slice(0, 512)]
ALL = [Region(slot, lanes, columns) for slot in (0, 1) for lanes in LANES for columns in COLUMNS]


def cells(region: Region) -> set[tuple[int, int, int]]:
    return {(region.slot, half, column) for half in range(*region.halves.indices(HALVES))
            for column in range(region.columns.start, region.columns.stop)}  # fmt: skip


def test_two_regions_meet_where_they_have_a_cell_in_common() -> None:
    some = [(each, cells(each)) for each in ALL if each.columns.stop < 512]
    for (a, mine), (b, theirs) in itertools.product(some, some):
        assert overlap(a, b) == bool(mine & theirs), (a, b)
    whole = Region(0, slice(0, 8), slice(0, 512))
    assert all(overlap(whole, each) == (each.slot == 0) for each in ALL)


def test_what_lies_around_both() -> None:
    for a, b in itertools.product(ALL[:24], ALL[:24]):
        found = around(a, b)
        assert found.slot == 0 and found.columns == slice(
            min(a.columns.start, b.columns.start), max(a.columns.stop, b.columns.stop)
        )
        if a == b:
            assert found is a
            continue
        halves = [half for each in (a, b) for half in range(*each.halves.indices(HALVES))]
        assert found.halves == slice(min(halves), max(halves) + 1)


@pytest.mark.parametrize(("region", "text"), [
    (Region(0, slice(0, 8), slice(0, 512)), "lanes 0-127, columns 0-511"),
    (Region(3, slice(1, 8, 2), slice(8, 16)), "lanes 16-127, columns 8-15"),
    (Region(0, slice(0, 8, 2), slice(0, 1)), "lanes 0-111, columns 0-0"),
    (Region(0, slice(2, 4), slice(0, 2)), "lanes 32-63, columns 0-1"),
])  # fmt: skip
def test_a_region_in_words(region: Region, text: str) -> None:
    assert str(region) == text
    assert region.key == (region.slot, region.halves, region.columns)
