"""Checks of *The same in Gluon and Triton*: what is read from barriers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from phasebit.chapters.in_other_languages.view import Barrier
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import judged

AGENTS = {"bytes": "copy engine", "commits": "tensor core", "arrivals": "threads"}


def chain(draw: random.Random) -> tuple[list[Barrier], dict[str, Any]]:
    """The barriers of a chain of two rings, shuffled, and what its roles and rings are."""
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
def agent(answer: Callable[[str], str]) -> str:
    """``answer(signal)``: whose work a signal reports, one of :data:`AGENTS`' values."""

    def cases() -> Iterator[Case]:
        for signal, who in AGENTS.items():
            yield (signal,), who

    return agree(answer, cases(), lambda signal: signal, "signals")


@judged
def rings(answer: Callable[[Any], tuple[int, int]]) -> str:
    """``answer(barriers)``: how many slots for slices there are, and how many sums."""
    draw = random.Random(271)

    def cases() -> Iterator[Case]:
        for _ in range(40):
            barriers, about = chain(draw)
            yield (barriers,), (about["slots"], about["sums"])

    return agree(answer, cases(), _words, "kernels")


@judged
def roles(answer: Callable[[Any], tuple[int, int, Any]]) -> str:
    """``answer(barriers)``: the warp that loads, the warp that multiplies, the warps that store."""
    draw = random.Random(272)

    def cases() -> Iterator[Case]:
        for _ in range(40):
            barriers, about = chain(draw)
            yield (barriers,), (about["load"], about["multiply"], about["store"])

    return agree(answer, cases(), _words, "kernels")
