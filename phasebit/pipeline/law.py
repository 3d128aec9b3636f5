"""How fast a pipeline can go: three resources, three bounds, the smallest one wins.

A producer is busy ``produce`` clocks a job, a consumer ``consume`` clocks, and a slot
``produce + see_full + consume + see_empty``. So P producers, C consumers and B slots give at
most P/produce, C/consume and B/(produce + consume + handoff) jobs a clock.

With fixed latencies the smallest bound is the steady-state rate, exactly. Let job i begin to
fill at s(i) and to drain at t(i); jobs begin and end in order, so

    s(i) = max( s(i-P) + produce,               its producer is free
                t(i-B) + consume + see_empty )  its slot is seen empty
    t(i) = max( t(i-C) + consume,               its consumer is free
                s(i) + produce + see_full )     its slot is seen full

This is linear in the max-plus algebra, and its rate is one over the greatest ratio of clocks
to jobs round a circuit of the dependency graph. That graph has two nodes, s and t, and hence
three elementary circuits: s-s, t-t and s-t-s, the three resources. Any other circuit is made
of these, and its ratio lies between theirs. (For max-plus systems: Baccelli, Cohen, Olsder and
Quadrat, Synchronization and Linearity, Wiley 1992.)

Three conditions: latencies are the same for every job, they are at least one clock (else a
resource that takes no time would divide by zero), and jobs take the slots in turn.

With latencies that vary, each bound with its mean latencies still holds, because it only
counts how busy a resource must be, but the rate may stay below all three.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapreplace
from math import lcm

from phasebit.pipeline.states import Pipeline, whole

MOST_KEPT = 20_000_000
"""Numbers that :func:`steady_rate` keeps: half a gigabyte to one."""


@dataclass(frozen=True)
class Bounds:
    """Most jobs a clock that each resource allows."""

    producers: Fraction
    consumers: Fraction
    slots: Fraction

    @property
    def rate(self) -> Fraction:
        """The smallest of the three."""
        return min(self.producers, self.consumers, self.slots)

    @property
    def limits(self) -> tuple[str, ...]:
        """The resources that set the rate: one, or several at a crossing."""
        return tuple(
            name for name in ("producers", "consumers", "slots") if getattr(self, name) == self.rate
        )


def mean(latency: int | Sequence[int]) -> Fraction:
    """Mean clocks a job, exactly."""
    if isinstance(latency, int):
        return Fraction(latency)
    return Fraction(sum(latency), len(latency))


def bounds(pipeline: Pipeline) -> Bounds:
    """The three bounds, in jobs a clock."""
    p, c = mean(pipeline.produce), mean(pipeline.consume)
    return Bounds(
        pipeline.producers / p,
        pipeline.consumers / c,
        pipeline.slots / (p + c + pipeline.handoff),
    )


def exact(pipeline: Pipeline) -> bool:
    """Whether the law claims the rate and not only a bound: both latencies are fixed."""
    return all(
        isinstance(each, int) or len(set(each)) == 1
        for each in (pipeline.produce, pipeline.consume)
    )


def slots_enough(pipeline: Pipeline) -> int:
    """The fewest slots with which the slots are no narrower than the workers.

    One slot more buys nothing when latencies are fixed. The pipeline's own ``slots`` plays no
    part.
    """
    p, c = mean(pipeline.produce), mean(pipeline.consume)
    workers = min(pipeline.producers / p, pipeline.consumers / c)
    return -int(-workers * (p + c + pipeline.handoff) // 1)


def double_buffering_is_enough(produce: int, consume: int, handoff: int) -> bool:
    """One producer, one consumer, fixed latencies: whether a third slot would buy nothing.

    2 slots allow 2/(produce + consume + handoff), the slower worker 1/max(produce, consume);
    the first is no smaller exactly when handoff <= |produce - consume|.
    """
    return handoff <= abs(produce - consume)


def steady_rate(pipeline: Pipeline, *, within: int = 1_000_000) -> Fraction:
    """Jobs a clock that the simulated ring settles to, exactly.

    Runs until everything that the future depends on (when each worker is free and each slot
    empty, counted from the start of the latest job) has been the same before. What
    happened between the two moments then happens for ever.

    Raises ``RuntimeError`` when that takes more than ``within`` jobs (long sequences of
    latencies), or more than can be kept: a state has a number for each worker and slot, of all
    states there are at most :data:`MOST_KEPT`. ``ValueError`` for a pipeline whose order is not
    the ring, and where each worker or slot could not have its turn before that.
    """
    within = whole("within", within, least=1)
    if pipeline.order != "ring":
        raise ValueError(f"order is {pipeline.order!r}: steady_rate follows the ring, give 'ring'")
    counts = pipeline.producers, pipeline.consumers, pipeline.slots
    width = sum(counts)
    if max(counts) * width > MOST_KEPT:
        raise ValueError(
            f"a state of this pipeline is {width:,} numbers, one a worker and slot, and none "
            f"repeats before each had its turn: at most {MOST_KEPT:,} numbers are kept, so give "
            "fewer; bounds needs no simulation"
        )
    within = min(within, MOST_KEPT // width)
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    for job, (clock, state) in enumerate(_ring_states(pipeline)):
        if state in seen:
            job_before, clock_before = seen[state]
            return Fraction(job - job_before, clock - clock_before)
        if job == within:
            break
        seen[state] = job, clock
    raise RuntimeError(
        f"no state repeated within {within} jobs: give a shorter sequence of latencies, "
        "or measure a long run with simulate"
    )


def _ring_states(pipeline: Pipeline) -> Iterator[tuple[int, tuple[int, ...]]]:
    """For each job: the clock at which it began to fill, and all else relative to that clock."""
    produce = [pipeline.produce] if isinstance(pipeline.produce, int) else list(pipeline.produce)
    consume = [pipeline.consume] if isinstance(pipeline.consume, int) else list(pipeline.consume)
    period, slots = lcm(len(produce), len(consume)), pipeline.slots
    producers, consumers = [0] * pipeline.producers, [0] * pipeline.consumers
    empty = [0] * slots
    job = 0
    while True:
        slot = job % slots
        fill = max(producers[0], empty[slot])
        filled = fill + produce[job % len(produce)]
        heapreplace(producers, filled)
        drained = max(consumers[0], filled + pipeline.see_full) + consume[job % len(consume)]
        heapreplace(consumers, drained)
        empty[slot] = drained + pipeline.see_empty
        job += 1
        ring = empty[job % slots :] + empty[: job % slots]
        yield fill, (
            job % period,
            *(t - fill for t in sorted(producers)),
            *(t - fill for t in sorted(consumers)),
            *(t - fill for t in ring),
        )
