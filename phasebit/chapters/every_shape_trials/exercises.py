"""Checks of *Past the vendor: the trials*; that of ping-pong stands beside its kernel."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median

from phasebit import measure
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import judged

_AWKWARD = [5000, 5000, 5000]
"""The shape whose own plan cuts two waves; one was tried there."""


def _most(tiles: int, steps: int, workers: int) -> int:
    bounds = [tiles * steps * worker // workers for worker in range(workers + 1)]
    shares = [(a, b) for a, b in pairwise(bounds) if a < b]
    return max(
        sum(a < (tile + 1) * steps and b > tile * steps for a, b in shares) - 1
        for tile in range(tiles)
    )


@judged
def helpers(answer: Callable[[int, int, int], int]) -> str:
    """``answer(tiles, steps, workers)``: the most workers whose sums one tile's owner takes.

    Tiles of ``steps`` steps lie end to end; share w begins at step tiles · steps · w // workers.
    """
    draw = random.Random(184)

    def cases() -> Iterator[Case]:
        for case in ((4, 79, 66), (70, 79, 66), (6, 5, 4), (2, 8, 7), (1, 10, 1), (8, 3, 4)):
            yield case, _most(*case)
        for _ in range(200):
            tiles, steps = draw.randint(1, 20), draw.randint(1, 30)
            case = tiles, steps, draw.randint(1, min(70, tiles * steps))
            yield case, _most(*case)

    def words(tiles: int, steps: int, workers: int) -> str:
        return f"{tiles} tiles of {steps} steps for {workers} workers"

    tried = agree(answer, cases(), words, "lines of tiles")
    one, two = (_most(tiles, 79, 66) for tiles in (4, 4 + 66))
    row = next(each for each in measure.read("every_shape")["further"]
               if each["shape"] == _AWKWARD)  # fmt: skip
    names = row["base"], row["base"].replace("2 waves", "1 wave")
    own, cut = (median(row["times"][name]["warm_us"]) for name in names)
    more = cut / own - 1
    return (f"{tried}; at 5000³ a tile's owner takes the sums of up to {one} others with one wave "
            f"cut, of {two} with two; with one it took {more:.0%} longer, warm")  # fmt: skip
