"""The small pair of blocks: right under every schedule, each mistake found."""

from __future__ import annotations

import pytest

from phasebit.chapters.hopper_ring import pairs

FOUND = {
    "empty counts one block's warps": "too-many-arrivals",
    "only one producer is told": "missing-mbarrier-wait",
    "its own half is announced": "missing-mbarrier-wait",
    "full counts both producers": "deadlock",
    "nobody waits for the barriers": "race",
    "the sums are read at once": "uninitialised-read",
    "a block leaves early": "block-leaves-too-early",
}


@pytest.mark.nvcc
@pytest.mark.parametrize("schedule", ["late", "eager", "random"])
def test_the_pair_is_right(schedule: str) -> None:
    assert pairs.told("as it is", schedule) == "right, no finding"


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", [name for name in pairs.BROKEN if name != "as it is"])
def test_every_mistake_is_found(mistake: str) -> None:
    rule, *place = pairs.told(mistake).split(", line ")
    assert rule == FOUND[mistake]
    lines = pairs.broken(mistake).splitlines()
    if mistake == "a block leaves early":
        assert "asm volatile" in lines[int(place[0]) - 1], "whichever line the compiler gave"


def test_the_picture_says_who_asked() -> None:
    words = str(pairs.picture())
    assert "A, rows 0–127" in words and "A, rows 128–255" in words
    assert words.count("B, rows 128–255") == 2
