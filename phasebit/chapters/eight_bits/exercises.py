"""Checks of *Eight bits*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np

from phasebit.chapters.eight_bits import product
from phasebit.chapters.eight_bits import scale_slips as slips
from phasebit.chapters.eight_bits import sum_errors as errors
from phasebit.chapters.eight_bits.scaled import ROWS
from phasebit.emulator import Schedule
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.exercises.written import clean, compiling, running, written


def survives(term: float, sum_: float) -> bool:
    """Whether one product ``term`` changes a ``sum_``, asked of the emulator's tensor core."""
    return errors.one_more(term, sum_) != sum_


@judged
def limit(answer: Callable[[float], float]) -> str:
    """``answer(term)``: the least power of two to which a product ``term`` adds nothing."""

    def cases() -> Iterator[Case]:
        for term in (0.75, 1.0, 1.75, 2.0**-6, 0.0146484375, 120.0, 448.0, 3.5):
            right = next(2.0**e for e in range(-20, 40) if not survives(term, 2.0**e))
            yield (term,), right

    return agree(answer, cases(), lambda term: f"a term of {term:g}", "terms")


@judged
def scales_of(answer: Callable[[int, int, int, int, int], tuple[int, int]]) -> str:
    """``answer(t, i, half, row, col)``: the row of A and the 128 rows of B whose scales it needs.

    Thread t of 256 has ``part[i]`` of a half of the tile (row, col) of C.
    """

    def cases() -> Iterator[Case]:
        yield (0, 0, 0, 0, 0), (0, 0)
        yield (5, 2, 1, 0, 3), (9, 7)
        draw = random.Random(20)
        for _ in range(100):
            t, i, half, row, col = (draw.randrange(n) for n in (256, 64, 2, 9, 9))
            yield (
                (t, i, half, row, col),
                (
                    128 * row
                    + 64 * (t // 128)
                    + 16 * (t % 128 // 32)
                    + t % 32 // 4
                    + 8 * (i & 2) // 2,
                    2 * col + half,
                ),
            )

    def words(t: int, i: int, half: int, row: int, col: int) -> str:
        return f"thread {t}, part[{i}], half {half} of tile ({row}, {col})"

    return agree(answer, cases(), words, "sums")


@judged
def losses(answer: Callable[..., tuple[int, int]]) -> str:
    """``answer(cycles, short, long)``: the cycles that a kernel loses a step, and once a tile.

    Its rival needs ``cycles`` a step, all included. ``short`` and ``long`` are shapes: the steps of
    a tile, and our rate over the rival's.
    """

    def share(cycles: int, steps: int, each: int, once: int) -> float:
        return steps * cycles / (steps * (cycles + each) + once)

    def cases() -> Iterator[Case]:
        draw = random.Random(1170)
        for each, once in ((20, 0), (0, 400), (15, 250), (-4, 300), (30, -90)):
            cycles = draw.randrange(900, 1400)
            few, many = draw.randrange(8, 24), draw.randrange(32, 99)
            shapes = [(steps, share(cycles, steps, each, once)) for steps in (few, many)]
            yield (cycles, *shapes), (each, once)

    def words(cycles: int, short: tuple[int, float], long: tuple[int, float]) -> str:
        rates = [f"{part:.4f} with {steps} steps" for steps, part in (short, long)]
        return f"a rival of {cycles} cycles a step, {' and '.join(rates)}"

    return agree(answer, cases(), words, "kernels")


_HEAD = "__device__ void consume(Ring& ring, const CUtensorMap& C, const float* b_scales,"
SHAPES = slips.SHAPE, (1, 8, 16)


def with_consume(answer: str) -> str:
    """The kernel with the reader's role in place of its own, and two slots."""
    text = slips.fewer_slots(product.source(product.BLOCK_SCALES))
    own = product.function(text, "consume")
    return text.replace(own, answer.strip())


@judged
def consume(answer: str) -> str:
    """The role that multiplies, promotes and stores, with scales of rows of B, too: run with every
    check.
    """
    role = written(answer, [_HEAD], "role")
    with compiling():
        (kernel,) = product.kernels({"yours": with_consume(role)}).values()
    schedules: tuple[Schedule, ...] = ("late", "eager")
    runs = [(shape, schedule) for shape in SHAPES for schedule in schedules]
    for (m, n, k), schedule in runs:
        where = f"{m} × {n} × {k}, {schedule} copies and products"
        a, b = product.plain(m, k, 1, blocks=ROWS), product.plain(n, k, 2, blocks=ROWS)
        with running(where):
            run, c = product.multiply(a, b, kernel, schedule=schedule, blocks=1)
        clean(run, where)
        if not np.array_equal(c, product.right(a, b)):
            raise Wrong(f"{where}: C is wrong")
    return f"{len(runs)} runs, no finding"


__all__ = ["consume", "limit", "losses", "scales_of", "survives", "with_consume"]
