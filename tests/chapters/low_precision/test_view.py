"""What the picture of two sums that overlap says."""

from __future__ import annotations

import re

import pytest

from phasebit.chapters.low_precision import view


@pytest.mark.nvcc
def test_a_tile_begins_when_the_columns_that_both_sums_have_are_fetched() -> None:
    events = view.overlap().alt.splitlines()[1:]
    begins = [i for i, event in enumerate(events) if event.startswith("tile ")]
    assert [events[i] for i in begins] == [
        "tile 0 begins in 0 to 255", "tile 1 begins in 112 to 367", "tile 2 begins in 0 to 255",
    ]  # fmt: skip
    fetched: set[int] = set()
    for event in events[begins[0] : begins[1]]:
        if found := re.fullmatch(r"fetched: (\d+) to (\d+)", event):
            fetched |= {*range(int(found[1]), int(found[2]) + 1)}
    assert {*range(112, 256)} <= fetched and 0 not in fetched
