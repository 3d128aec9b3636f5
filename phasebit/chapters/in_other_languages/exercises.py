"""Checks of *The same in other languages*: what is read from barriers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from phasebit.chapters.in_other_languages.view import Barrier
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import judged


def product(draw: random.Random) -> tuple[list[Barrier], dict[str, Any]]:
    """The barriers of a product with two rings, shuffled, and what its roles and rings are."""
    numbers = list(range(12))
    draw.shuffle(numbers)
    load, multiply, *others = numbers
    store = tuple(sorted(others[: draw.choice((1, 2, 4))]))
    slots, sums = draw.randint(2, 6), draw.randint(1, 2)
    barriers = [Barrier("bytes", (load,), (multiply,)), Barrier("commits", (multiply,), (load,))]
    barriers = barriers * slots
    barriers += [
        Barrier("commits", (multiply,), store),
        Barrier("arrivals", store, (multiply,)),
    ] * sums
    draw.shuffle(barriers)
    return barriers, {
        "load": load,
        "multiply": multiply,
        "store": store,
        "slots": slots,
        "sums": sums,
    }


def _words(barriers: Sequence[Barrier]) -> str:
    return f"the barriers {', '.join(f'({b.told}; {b.waiters})' for b in barriers[:4])} …"


@judged
def rings(answer: Callable[[Any], tuple[int, int]]) -> str:
    """``answer(barriers)``: how many slots for slices there are, and how many sums."""
    draw = random.Random(271)

    def cases() -> Iterator[Case]:
        for _ in range(40):
            barriers, about = product(draw)
            yield (barriers,), (about["slots"], about["sums"])

    return agree(answer, cases(), _words, "kernels")


@judged
def roles(answer: Callable[[Any], tuple[int, int, Any]]) -> str:
    """``answer(barriers)``: the warp that loads, the warp that multiplies, the warps that store."""
    draw = random.Random(272)

    def cases() -> Iterator[Case]:
        for _ in range(40):
            barriers, about = product(draw)
            yield (barriers,), (about["load"], about["multiply"], about["store"])

    return agree(answer, cases(), _words, "kernels")


Ring = tuple[tuple[int, ...], tuple[int, ...], int]


def chained(draw: random.Random) -> tuple[list[Barrier], list[Ring]]:
    """The barriers of a chain of two to five rings, shuffled, and its rings in their order."""
    numbers = list(range(32))
    draw.shuffle(numbers)
    count = draw.randint(2, 5)
    roles: list[tuple[int, ...]] = [(numbers.pop(),)]
    roles += [tuple(sorted(numbers.pop() for _ in range(draw.choice((1, 1, 2, 4)))))
              for _ in range(count)]  # fmt: skip
    works = [draw.choice(("commits", "arrivals")) for _ in roles]  # by what a role reports
    barriers, rings = [], []
    for i, (producer, consumer) in enumerate(pairwise(roles)):
        slots = draw.randint(1, 6)
        full, empty = works[i] if i else "bytes", works[i + 1]
        barriers += [Barrier(full, producer, consumer), Barrier(empty, consumer, producer)] * slots
        rings.append((producer, consumer, slots))
    draw.shuffle(barriers)
    return barriers, rings


@judged
def chain(answer: Callable[[Any], Any]) -> str:
    """``answer(barriers)``: the rings, from the copy engine on."""
    draw = random.Random(273)

    def cases() -> Iterator[Case]:
        for _ in range(60):
            barriers, rings = chained(draw)
            yield (barriers,), rings

    return agree(answer, cases(), _words, "kernels")
