"""The ring of slots with one parity bit, in the words that CUDA kernels use.

Slots are numbered from 0; item ``i`` lives in slot ``i % stages``. Each slot has
two barriers: *full* (the consumer may read) and *empty* (the producer may
write). A producer or consumer carries two numbers around the ring: the stage it
is at, and a phase bit that flips whenever it wraps.

The programs below are for :func:`phasebit.pipeline.explore.explore`, which runs
them in every interleaving.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from phasebit.pipeline.states import index
from phasebit.pipeline.steps import (
    Step,
    System,
    arrive,
    arrive_expect_tx,
    copy,
    fill,
    read,
    wait,
)


def advance(stage: int, phase: int, stages: int) -> tuple[int, int]:
    """The next (stage, phase): one slot further; at the end wrap, and flip the bit.

    >>> advance(0, 0, stages=2), advance(1, 0, stages=2), advance(1, 1, stages=2)
    ((1, 0), (0, 1), (0, 0))
    """
    stage += 1
    if stage == stages:
        stage = 0
        phase ^= 1
    return stage, phase


class Names(tuple[str, ...]):
    """The names of a ring's full or empty barriers, by slot."""

    __slots__ = ()

    def __getitem__(self, slot: Any) -> Any:
        """Raises :class:`IndexError` with the slots that there are."""
        try:
            return super().__getitem__(slot)
        except IndexError:
            kind = self[0].partition("[")[0]
            raise IndexError(
                f"{kind}[{slot}]: the ring has slots 0 to {len(self) - 1}"
            ) from None


@dataclass(frozen=True)
class Ring:
    """A ring of ``stages`` slots through which ``items`` items pass.

    Every consumer reads every item, as the warps of a matrix product all read
    every tile. ``full_count`` and ``empty_count`` are the arrivals that the two
    kinds of barrier expect: by default one from the producer, one from each
    consumer. A slot has ``parts`` that are filled separately (a tile of A and a
    tile of B). ``BK`` is how far ``k`` moves from one item to the next, so that
    programs may count in ``range(0, ring.K, ring.BK)``. Raises
    :class:`TypeError` when one of these is no whole number, and
    :class:`ValueError` when it is less than 1.
    """

    stages: int
    items: int
    consumers: int = 1
    full_count: int = 1
    empty_count: int | None = None
    parts: int = 1
    BK: int = 1

    def __post_init__(self) -> None:
        for name in ("stages", "items", "consumers", "parts", "BK"):
            value = getattr(self, name)
            number = index(value)
            if number is None:
                raise TypeError(f"a ring needs {name} as a whole number, not {value!r}")
            if number < 1:
                raise ValueError(f"a ring needs {name} of at least 1, not {number}")
            object.__setattr__(self, name, number)

    @property
    def K(self) -> int:
        """The end of the loop over ``k``."""
        return self.items * self.BK

    @property
    def full(self) -> Names:
        """The names of the full barriers, by slot."""
        return Names(f"full[{s}]" for s in range(self.stages))

    @property
    def empty(self) -> Names:
        """The names of the empty barriers, by slot."""
        return Names(f"empty[{s}]" for s in range(self.stages))

    def system(self, producer: Program, consumer: Program) -> System:
        """One thread that runs ``producer`` and ``consumers`` threads that run ``consumer``."""
        consumers = (
            {"consumer": consumer(self)}
            if self.consumers == 1
            else {f"consumer {c}": consumer(self) for c in range(self.consumers)}
        )
        empty_count = self.consumers if self.empty_count is None else self.empty_count
        return System(
            threads={"producer": producer(self), **consumers},
            slots=self.stages,
            items=self.items,
            barriers={
                **dict.fromkeys(self.full, self.full_count),
                **dict.fromkeys(self.empty, empty_count),
            },
            parts=self.parts,
            readers=tuple(consumers),
        )


Program = Callable[[Ring], Iterator[Step]]
"""What a thread does, given the ring."""


def producer(ring: Ring) -> Iterator[Step]:
    """Fill the slots in turn. The first wait on each passes at once: phase ^ 1."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield wait(ring.empty[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def consumer(ring: Ring) -> Iterator[Step]:
    """Read the slots in turn."""
    stage, phase = 0, 0
    for _ in range(ring.items):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        yield arrive(ring.empty[stage])
        stage, phase = advance(stage, phase, ring.stages)


PART_BYTES = 64
"""What one asynchronous copy of these programs moves."""


def copying_producer(ring: Ring) -> Iterator[Step]:
    """Let the copy engine fill them: expect the bytes, start the copies, go on."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield wait(ring.empty[stage], phase ^ 1)
        yield arrive_expect_tx(ring.full[stage], ring.parts * PART_BYTES)
        for part in range(ring.parts):
            yield copy(stage, i, ring.full[stage], PART_BYTES, part)
        stage, phase = advance(stage, phase, ring.stages)
