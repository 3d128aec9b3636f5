"""Checks of *Past the vendor: the trials*; that of ping-pong stands beside its kernel."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import median

from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import judged

WORDS = ("faster", "slower", "the same")


def _became(before: list[float], after: list[float], level: float) -> str:
    change = median(after) / median(before) - 1
    return "the same" if abs(change) < level else "slower" if change > 0 else "faster"


@judged
def came_true(answer: Callable[[str, list[float], list[float], float], bool]) -> str:
    """``answer(expected, before, after, level)``: whether the times are as they were expected.

    By medians; a change by less than ``level``, as a part of the time before, is "the same".
    """
    draw = random.Random(183)

    def cases() -> Iterator[Case]:
        for word in WORDS:
            yield (word, [9.0, 8.0, 30.0], [8.9, 1.0, 9.1], 0.02), word == "the same"
        for _ in range(40):
            level = draw.choice((0.01, 0.02, 0.1))
            near = draw.uniform(-0.9, 0.9) * level  # clearly within, or clearly without
            change = draw.choice((near, near, level + draw.random(), -level - 0.4 * draw.random()))
            middle, count = draw.uniform(1, 1000), draw.choice((3, 5, 7))
            before, after = (
                draw.sample([m, *(m * draw.uniform(0.5, 1) for _ in range(count // 2)),
                             *(m * draw.uniform(1, 3) for _ in range(count // 2))], count)
                for m in (middle, middle * (1 + change))
            )  # fmt: skip
            for word in WORDS:
                yield (word, before, after, level), word == _became(before, after, level)

    def words(expected: str, before: list[float], after: list[float], level: float) -> str:
        one, two = (", ".join(f"{each:.4g}" for each in times) for times in (before, after))
        return f'"{expected}", {one} µs before and {two} µs after, level {level}'

    return agree(answer, cases(), words, "trials")


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

    return agree(answer, cases(), words, "lines of tiles")
