"""Who makes which tile, and what the page says of it."""

from __future__ import annotations

import random

import pytest

from phasebit.chapters.pairs_and_launch import hand_outs
from phasebit.chapters.pairs_and_launch.hand_outs import FREE, LENGTHS, last, on_demand, static


@pytest.mark.parametrize("ahead", range(5))
def test_every_tile_is_made_once_and_nobody_makes_two_at_a_time(ahead: int) -> None:
    draw = random.Random(ahead)
    for _ in range(40):
        lengths = [draw.randint(1, 9) for _ in range(draw.randint(0, 20))]
        free = [draw.randint(0, 12) for _ in range(draw.randint(1, 5))]
        for made in (on_demand(lengths, free, ahead), static(lengths, free)):
            tiles = sorted(tile for each in made for tile, _, _ in each)
            assert tiles == [*range(len(lengths))]
            for each, begin in zip(made, free, strict=True):
                for tile, start, end in each:
                    assert start == begin and end == start + lengths[tile]
                    begin = end


def test_on_demand_the_next_tile_goes_to_whoever_is_free_first() -> None:
    made = on_demand([5, 1, 1, 1, 9], [0, 0])
    assert made == [[(0, 0, 5)], [(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 3, 12)]]


def test_who_asks_ahead_takes_tiles_that_an_idle_one_could_make() -> None:
    made = on_demand([5, 1, 1], [0, 1], ahead=2)
    assert [*map(len, made)] == [3, 0] and last(made) == 7
    assert last(on_demand([5, 1, 1], [0, 1])) == 5


def test_what_the_page_and_its_solution_say() -> None:
    lines = hand_outs.said().splitlines()
    assert lines[0].endswith("28384 clocks; tiles each made: [4, 4, 4, 4]")
    assert lines[1].endswith("20480 clocks; tiles each made: [5, 5, 4, 2]")
    made = on_demand(LENGTHS, FREE)
    idle = [last(made) - each[-1][2] for each in made]
    assert max(idle) <= LENGTHS[0], "nobody stands idle for longer than a tile takes"
    ends = [last(on_demand(LENGTHS, FREE, ahead)) for ahead in range(4)]
    assert ends == [20_480] * 3 + [24_576]
    assert [*map(len, on_demand(LENGTHS, FREE, 3))] == [6, 5, 5, 0]


def test_the_picture_has_every_tile_in_both_ways() -> None:
    drawn = hand_outs.drawn()
    assert len(drawn.spans) == 2 * (len(LENGTHS) + 1) and len(drawn.rows) == 2 * len(FREE)
