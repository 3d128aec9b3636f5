"""Checks of *How fast can it go?*."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged
from phasebit.pipeline import Pipeline, bounds, steady_rate
from phasebit.pipeline.law import mean


@judged
def fewest_slots(answer: Callable[[int, int, int], int]) -> str:
    """``answer(produce, consume, handoff)``: fewest slots for full speed, one worker each."""

    def cases() -> Iterator[Case]:
        for produce, consume, handoff in product(range(1, 8), range(1, 8), range(0, 12, 2)):
            rates = [
                steady_rate(Pipeline(1, 1, slots, produce, consume, handoff // 2, handoff // 2))
                for slots in range(1, 15)
            ]
            yield (produce, consume, handoff), 1 + rates.index(max(rates))

    return agree(
        answer, cases(), lambda p, c, h: f"produce {p}, consume {c}, hand-off {h}", "systems"
    )


@judged
def best_split(answer: Callable[[int, int, int], int]) -> str:
    """``answer(workers, produce, consume)``: how many should produce, given slots enough."""

    def cases() -> Iterator[Case]:
        for workers, produce, consume in product(range(2, 17), range(1, 10), range(1, 10)):
            rates = [
                min(Fraction(p, produce), Fraction(workers - p, consume))
                for p in range(1, workers)
            ]
            yield (workers, produce, consume), 1 + rates.index(max(rates))

    return agree(
        answer, cases(), lambda w, p, c: f"{w} workers, produce {p}, consume {c}", "teams"
    )


@judged
def slow_although(produce: Any, consume: Any) -> str:
    """Two sequences of latencies with mean 5 that keep two slots at 3/5 of the law or less.

    The chapter's own pair, of 1 and 9, does not count.
    """
    try:
        pipeline = Pipeline(1, 1, 2, *map(_sequence, (produce, consume)))
        rate, law = steady_rate(pipeline, within=200_000), bounds(pipeline).rate
    except (TypeError, ValueError, RuntimeError) as error:
        raise Wrong(str(error)) from error
    for name, latency in (("produce", pipeline.produce), ("consume", pipeline.consume)):
        if mean(latency) != 5:
            raise Wrong(f"the mean of {name} is {mean(latency)}, not 5")
    if {*_sequence(pipeline.produce), *_sequence(pipeline.consume)} <= {1, 9}:
        raise Wrong("every latency is 1 or 9, as in the chapter")
    share = f"the rate is {rate}, {rate / law} of the law's {law}"
    if rate > law * Fraction(3, 5):
        raise Wrong(share)
    return share


def _sequence(latencies: Any) -> Any:
    return [latencies] if isinstance(latencies, int) else latencies


@judged
def three_workers(answer: Callable[..., Fraction]) -> str:
    """``answer(load, compute, store, first, second, handoff)``: jobs a clock, as a Fraction.

    ``first`` slots between the first two workers, ``second`` between the
    last two; ``handoff`` clocks a slot, for each of the two rings.
    """

    def cases() -> Iterator[Case]:
        draw = random.Random(6)
        for _ in range(300):
            clocks = [draw.randint(1, 9) for _ in range(3)]
            system = (*clocks, draw.randint(1, 4), draw.randint(1, 4), 2 * draw.randint(0, 3))
            yield system, three_worker_rate(*system)

    names = ("load", "compute", "store", "first", "second", "handoff")
    return agree(
        answer,
        cases(),
        lambda *system: ", ".join(f"{n} {v}" for n, v in zip(names, system, strict=True)),
        "chains",
    )


def three_worker_rate(
    load: int, compute: int, store: int, first: int, second: int, handoff: int
) -> Fraction:
    """The same by simulation: until the times of all recent jobs repeat, relative to the last."""
    half = handoff // 2
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    loads: list[int] = []
    computes: list[int] = []
    stores: list[int] = []

    def after(times: list[int], back: int, clocks: int) -> int:
        return times[-back] + clocks if len(times) >= back else 0

    for job in range(100_000):
        begin = max(after(loads, 1, load), after(computes, first, compute + half))
        middle = max(
            after(computes, 1, compute), begin + load + half, after(stores, second, store + half)
        )
        end = max(after(stores, 1, store), middle + compute + half)
        loads.append(begin)
        computes.append(middle)
        stores.append(end)
        recent = (*loads[-1:], *computes[-first:], *stores[-second:])
        state = tuple(time - begin for time in recent)
        if len(loads) > max(first, second):
            if state in seen:
                job_before, begin_before = seen[state]
                return Fraction(job - job_before, begin - begin_before)
            seen[state] = job, begin
    raise RuntimeError("the three workers did not settle")

