"""Checks of *Pairs, and who hands out the tiles*; those that run its kernels stand beside them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from phasebit.chapters.pairs_and_launch import hand_outs
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import judged


@judged
def done(answer: Callable[[list[int], list[int], int], int]) -> str:
    """``answer(lengths, free, ahead)``: when the last tile is done, of :func:`on_demand`."""
    draw = random.Random(1823)

    def cases() -> Iterator[Case]:
        for ahead in range(4):
            given = [*hand_outs.LENGTHS], [*hand_outs.FREE], ahead
            yield given, hand_outs.last(hand_outs.on_demand(*given))
        for _ in range(60):
            lengths = [draw.randint(1, 9) for _ in range(draw.randint(1, 14))]
            free = [draw.randint(0, 12) for _ in range(draw.randint(1, 4))]
            ahead = draw.randint(0, 3)
            yield (lengths, free, ahead), hand_outs.last(
                hand_outs.on_demand(lengths, free, ahead)
            )

    def words(lengths: list[int], free: list[int], ahead: int) -> str:
        return f"tiles of {lengths}, multiprocessors free from {free} on, {ahead} ahead"

    return agree(answer, cases(), words, "launches")
