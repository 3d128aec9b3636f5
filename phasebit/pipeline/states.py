"""What a pipeline is made of: workers and slots, and the states that they can be in.

Producers take a ticket for a job, wait for an empty slot and fill it. Consumers wait for a
full slot and drain it. A ``Pipeline`` says how many there are of each and how long things
take; a ``State`` is a snapshot of one run. How one state follows another is in ``rules``.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import SupportsIndex


class Doing(Enum):
    """State of a worker. A producer works by producing, a consumer by consuming."""

    FREE = "free"
    WAITING = "waiting"
    PRODUCING = "producing"
    CONSUMING = "consuming"


class Slot(Enum):
    """State of a slot."""

    EMPTY = "empty"
    FILLING = "filling"
    FULL = "full"
    DRAINING = "draining"


MOST = 100_000
"""Producers, consumers, and slots of a pipeline."""


@dataclass(frozen=True)
class Pipeline:
    """``producers`` workers fill ``slots`` buffers that ``consumers`` workers drain.

    Times are whole clocks. ``produce`` and ``consume`` are the latencies of a job, at least 1:
    one number for all jobs, or a sequence that is repeated (job i takes
    ``produce[i % len(produce)]`` clocks).

    A hand-off takes time too. ``see_full`` is how many clocks after the end of filling a
    consumer can see the slot full; ``see_empty`` is how many clocks after the end of draining
    a producer can see it empty. Both are 1 unless you say otherwise: in a clocked machine
    everybody looks at the state that the clock before has left behind. 0 is the ideal that
    no machine reaches; a slow signal costs more than 1.

    ``order`` is ``"ring"`` (job i uses slot ``i % slots``, in that order on both sides) or
    ``"any"`` (a producer takes the slot that has been empty longest, a consumer the one that
    has been full longest; of two, the older job, then the lower number).

    Raises ``TypeError`` or ``ValueError`` with a sentence that says what to change: workers and
    slots are kept one by one, so there are at most :data:`MOST` of each.
    """

    producers: int
    consumers: int
    slots: int
    produce: int | Sequence[int]
    consume: int | Sequence[int]
    see_full: int = 1
    see_empty: int = 1
    order: str = "ring"

    def __post_init__(self) -> None:
        for name in ("producers", "consumers", "slots"):
            number = whole(name, getattr(self, name), least=1)
            if number > MOST:
                raise ValueError(f"{name} is {number}: give at most {MOST:,}")
            object.__setattr__(self, name, number)
        for name in ("see_full", "see_empty"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=0))
        for name in ("produce", "consume"):
            object.__setattr__(self, name, _latencies(name, getattr(self, name)))
        if self.order not in ("ring", "any"):
            raise ValueError(f"order is {self.order!r}: give 'ring' or 'any'")

    @classmethod
    def of_workers(
        cls,
        workers: int,
        *,
        producers: int,
        slots: int,
        produce: int | Sequence[int],
        consume: int | Sequence[int],
        see_full: int = 1,
        see_empty: int = 1,
        order: str = "ring",
    ) -> Pipeline:
        """``workers`` workers of which ``producers`` produce and the others consume."""
        workers = whole("workers", workers, least=2)
        producers = whole("producers", producers, least=1)
        if producers >= workers:
            raise ValueError(
                f"producers is {producers} of {workers} workers, which leaves no consumer: "
                f"give at most {workers - 1} producers"
            )
        return cls(
            producers, workers - producers, slots, produce, consume, see_full, see_empty, order
        )

    @property
    def handoff(self) -> int:
        """Clocks that a slot spends in hand-offs, both directions together."""
        return self.see_full + self.see_empty

    def produce_of(self, job: int) -> int:
        """Clocks that producing this job takes."""
        return self.produce if isinstance(self.produce, int) else self.produce[
            job % len(self.produce)
        ]

    def consume_of(self, job: int) -> int:
        """Clocks that consuming this job takes."""
        return self.consume if isinstance(self.consume, int) else self.consume[
            job % len(self.consume)
        ]

    @property
    def in_words(self) -> str:
        """``4 producers (5 clocks), 6 slots (hand-off 1 + 1), 6 consumers (3 clocks)``."""

        def some(many: int, thing: str) -> str:
            return f"{many} {thing}{'s'[: many != 1]}"

        def takes(latency: int | Sequence[int]) -> str:
            if isinstance(latency, int):
                return some(latency, "clock")
            return f"{min(latency)} to {some(max(latency), 'clock')}"

        return (
            f"{some(self.producers, 'producer')} ({takes(self.produce)}), "
            f"{some(self.slots, 'slot')} (hand-off {self.see_full} + {self.see_empty}), "
            f"{some(self.consumers, 'consumer')} ({takes(self.consume)})"
        )

    def __str__(self) -> str:
        return "Pipeline(" + ", ".join(
            f"{f.name}={_short(getattr(self, f.name))}" for f in fields(self)
        ) + ")"


@dataclass
class Worker:
    """One worker in one moment: what it does, for which ticket, in which slot, until when."""

    number: int
    doing: Doing = Doing.FREE
    ticket: int | None = None
    job: int | None = None
    slot: int | None = None
    until: int = 0


@dataclass
class Buffer:
    """One slot in one moment: its state, since when that state can be seen, and whose job."""

    number: int
    state: Slot = Slot.EMPTY
    seen_at: int = 0
    job: int | None = None


@dataclass
class State:
    """A whole pipeline in one moment. Everybody starts free, every slot empty."""

    pipeline: Pipeline
    jobs: int
    clock: int = 0
    started: int = 0
    """Tickets taken by producers so far; the next ticket has this number."""
    claimed: int = 0
    """Tickets taken by consumers so far."""
    produced: int = 0
    consumed: int = 0
    producers: list[Worker] = field(default_factory=list)
    consumers: list[Worker] = field(default_factory=list)
    slots: list[Buffer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producers = [Worker(n) for n in range(self.pipeline.producers)]
        self.consumers = [Worker(n) for n in range(self.pipeline.consumers)]
        self.slots = [Buffer(n) for n in range(self.pipeline.slots)]

    @property
    def done(self) -> bool:
        """Every job that was asked for has been consumed."""
        return self.consumed >= self.jobs


def whole(name: str, value: object, *, least: int) -> int:
    """``value`` if it is a whole number of at least ``least``, else one sentence of refusal."""
    number = index(value)
    if number is None:
        raise TypeError(f"{name} is {value!r}: give a whole number of at least {least}")
    if number < least:
        raise ValueError(f"{name} is {number}: give at least {least}")
    return number


def index(value: object) -> int | None:
    """``value`` as an ``int`` if it is a whole number of any type, NumPy's too, else ``None``."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array, say
        return None


def _latencies(name: str, value: object) -> int | tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return whole(name, value, least=1)
    if not value:
        raise ValueError(f"{name} is an empty sequence: give at least one latency")
    return tuple(whole(f"{name}[{i}]", each, least=1) for i, each in enumerate(value))


def _short(value: object) -> str:
    if isinstance(value, tuple) and len(value) > 6:
        return f"({', '.join(map(str, value[:4]))}, … {len(value)} latencies)"
    return repr(value)
