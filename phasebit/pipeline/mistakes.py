"""A clinic of rings, each with one planted mistake.

Every mistake says what it looks like in the code, in which smallest system it
fails, how, and why smaller systems do not show it. The repaired program is the
ring of :mod:`phasebit.pipeline.ring` with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from phasebit.pipeline import ring as right
from phasebit.pipeline.moves import Kind
from phasebit.pipeline.ring import PART_BYTES, Program, Ring, advance
from phasebit.pipeline.steps import (
    Step,
    System,
    arrive,
    arrive_expect_tx,
    copy,
    expect_tx,
    fill,
    read,
    wait,
)


@dataclass(frozen=True)
class Mistake:
    """One planted mistake.

    ``smallest``: the smallest ring in which it fails (fewest stages, then
    consumers, then steps). ``fails``: how the shortest failing run of that ring fails.
    ``line``: the line that is wrong, and what it should be. ``hides``: the rings
    in which nothing goes wrong.
    """

    name: str
    line: str
    smallest: Ring
    fails: Kind
    hides: str
    producer: Program = right.producer
    consumer: Program = right.consumer
    init: Callable[[Ring], Ring] = field(default=lambda ring: ring)
    repaired_producer: Program = right.producer
    repaired_consumer: Program = right.consumer

    def broken(self, ring: Ring | None = None) -> System:
        """The system with the mistake: ``smallest``, or another ring."""
        return self.init(ring or self.smallest).system(self.producer, self.consumer)

    def repaired(self, ring: Ring | None = None) -> System:
        """The same system without the mistake."""
        return (ring or self.smallest).system(self.repaired_producer, self.repaired_consumer)


def never_arrives(ring: Ring) -> Iterator[Step]:
    """A consumer that forgets to give its slots back."""
    stage, phase = 0, 0
    for _ in range(ring.steps):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        stage, phase = advance(stage, phase, ring.stages)


def expects_one_more(ring: Ring) -> Ring:
    """The empty barriers count the producer too."""
    return replace(ring, empty_count=ring.consumers + 1)


def expects_one(ring: Ring) -> Ring:
    """The empty barriers expect one arrival, however many consumers there are."""
    return replace(ring, empty_count=1)


def waits_without_flip(ring: Ring) -> Iterator[Step]:
    """A producer whose first wait is for phase 0, which nobody has completed."""
    stage, phase = 0, 0
    for i in range(ring.steps):
        yield wait(ring.empty[stage], phase)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def starts_at_one(ring: Ring) -> Iterator[Step]:
    """A consumer that starts with the producer's phase."""
    stage, phase = 0, 1
    for _ in range(ring.steps):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        yield arrive(ring.empty[stage])
        stage, phase = advance(stage, phase, ring.stages)


def producer_never_flips(ring: Ring) -> Iterator[Step]:
    """A producer that wraps its stage and forgets its phase."""
    stage, phase = 0, 0
    for i in range(ring.steps):
        yield wait(ring.empty[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage = (stage + 1) % ring.stages


def consumer_never_flips(ring: Ring) -> Iterator[Step]:
    """A consumer that wraps its stage and forgets its phase."""
    stage, phase = 0, 0
    for _ in range(ring.steps):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        yield arrive(ring.empty[stage])
        stage = (stage + 1) % ring.stages


def producer_indexes_by_k(ring: Ring) -> Iterator[Step]:
    """A producer that takes stage and phase from k, which moves by BK, not by 1."""
    for k in range(0, ring.K, ring.BK):
        stage, phase = k % ring.stages, k // ring.stages & 1
        yield wait(ring.empty[stage], phase ^ 1)
        yield from fill(stage, item=k // ring.BK)
        yield arrive(ring.full[stage])


def consumer_indexes_by_k(ring: Ring) -> Iterator[Step]:
    """A consumer that takes stage and phase from k."""
    for k in range(0, ring.K, ring.BK):
        stage, phase = k % ring.stages, k // ring.stages & 1
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        yield arrive(ring.empty[stage])


def arrives_early(ring: Ring) -> Iterator[Step]:
    """A consumer that gives the slot back while it is still reading."""
    stage, phase = 0, 0
    for _ in range(ring.steps):
        yield wait(ring.full[stage], phase)
        begin, end = read(stage)
        yield begin
        yield arrive(ring.empty[stage])
        yield end
        stage, phase = advance(stage, phase, ring.stages)


def waits_for_full(ring: Ring) -> Iterator[Step]:
    """A producer that waits on the barrier it arrives on itself."""
    stage, phase = 0, 0
    for i in range(ring.steps):
        yield wait(ring.full[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def waits_for_neighbour(ring: Ring) -> Iterator[Step]:
    """A consumer that waits for the slot before the one that it reads."""
    stage, phase = 0, 0
    for _ in range(ring.steps):
        yield wait(ring.full[stage - 1], phase)
        yield from read(stage)
        yield arrive(ring.empty[stage])
        stage, phase = advance(stage, phase, ring.stages)


def arrives_on_full(ring: Ring) -> Iterator[Step]:
    """A consumer for which one barrier a slot is enough."""
    stage, phase = 0, 0
    for _ in range(ring.steps):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def never_waits(ring: Ring) -> Iterator[Step]:
    """A producer that trusts in the consumer's speed."""
    stage, phase = 0, 0
    for i in range(ring.steps):
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def drains(ring: Ring) -> Iterator[Step]:
    """The producer of the ring, which then waits until every slot has been given back."""
    stage, phase = 0, 0
    for i in range(ring.steps):
        yield wait(ring.empty[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)
    for _ in range(ring.stages):
        yield wait(ring.empty[stage], phase ^ 1)
        stage, phase = advance(stage, phase, ring.stages)


def keeps_the_last(ring: Ring) -> Iterator[Step]:
    """A consumer that sees no point in giving the last slot back."""
    stage, phase = 0, 0
    for i in range(ring.steps):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        if i < ring.steps - 1:
            yield arrive(ring.empty[stage])
        stage, phase = advance(stage, phase, ring.stages)


def stops_early(ring: Ring) -> Iterator[Step]:
    """A producer whose loop ends one item too soon."""
    stage, phase = 0, 0
    for i in range(ring.steps - 1):
        yield wait(ring.empty[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def expects_bytes(per_slot: Callable[[Ring], int]) -> Program:
    """A copying producer that expects ``per_slot(ring)`` bytes in each slot."""

    def producer(ring: Ring) -> Iterator[Step]:
        stage, phase = 0, 0
        for i in range(ring.steps):
            yield wait(ring.empty[stage], phase ^ 1)
            yield arrive_expect_tx(ring.full[stage], per_slot(ring))
            for part in range(ring.parts):
                yield copy(stage, i, ring.full[stage], PART_BYTES, part)
            stage, phase = advance(stage, phase, ring.stages)

    return producer


def arrives_then_expects(ring: Ring) -> Iterator[Step]:
    """A copying producer that arrives first and says how much to expect afterwards."""
    stage, phase = 0, 0
    for i in range(ring.steps):
        yield wait(ring.empty[stage], phase ^ 1)
        yield arrive(ring.full[stage])
        yield expect_tx(ring.full[stage], ring.parts * PART_BYTES)
        for part in range(ring.parts):
            yield copy(stage, i, ring.full[stage], PART_BYTES, part)
        stage, phase = advance(stage, phase, ring.stages)


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        name="a missing arrive",
        line="the consumer never arrives on empty[stage]",
        consumer=never_arrives,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.DEADLOCK,
        hides="in the first round of the ring: no slot is used twice",
    ),
    Mistake(
        name="wrong count: one too many",
        line="init(empty[stage], consumers + 1), as if the producer arrived there too",
        init=expects_one_more,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.DEADLOCK,
        hides="in the first round of the ring: nobody waits for empty in earnest",
    ),
    Mistake(
        name="wrong count: one for all consumers",
        line="init(empty[stage], 1) with two consumers",
        init=expects_one,
        smallest=Ring(stages=1, steps=1, consumers=2),
        fails=Kind.MISUSE,
        hides="with one consumer it is right",
    ),
    Mistake(
        name="wrong initial phase: the producer's",
        line="wait(empty[stage], phase) where phase ^ 1 belongs",
        producer=waits_without_flip,
        smallest=Ring(stages=1, steps=1),
        fails=Kind.DEADLOCK,
        hides="nowhere",
    ),
    Mistake(
        name="wrong initial phase: the consumer's",
        line="stage, phase = 0, 1 in the consumer",
        consumer=starts_at_one,
        smallest=Ring(stages=1, steps=1),
        fails=Kind.READ_TOO_EARLY,
        hides="nowhere",
    ),
    Mistake(
        name="parity never flipped: the producer's",
        line="stage = (stage + 1) % stages, and phase stays",
        producer=producer_never_flips,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="parity never flipped: the consumer's",
        line="stage = (stage + 1) % stages, and phase stays",
        consumer=consumer_never_flips,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.WRONG_ITEM,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="index from k instead of k / BK",
        line="stage, phase = k % stages, k / stages & 1, where k moves by BK",
        producer=producer_indexes_by_k,
        consumer=consumer_indexes_by_k,
        smallest=Ring(stages=1, steps=2, BK=2),
        fails=Kind.OVERWRITTEN,
        hides="with BK = 1; and with BK = stages = 2 it is clean, but slot 1 is never used",
    ),
    Mistake(
        name="arriving before reading ends",
        line="arrive(empty[stage]) above the last use of the slot",
        consumer=arrives_early,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="waiting on the wrong barrier: full for empty",
        line="wait(full[stage], phase ^ 1) in the producer",
        producer=waits_for_full,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="waiting on the wrong barrier: another slot's",
        line="wait(full[stage - 1], phase) in the consumer",
        consumer=waits_for_neighbour,
        smallest=Ring(stages=2, steps=1),
        fails=Kind.DEADLOCK,
        hides="with one slot, and with exactly as many items as slots",
    ),
    Mistake(
        name="one barrier for both directions",
        line="both sides wait and arrive on full[stage]",
        producer=waits_for_full,
        consumer=arrives_on_full,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring, with one consumer",
    ),
    Mistake(
        name="no wait for empty",
        line="the producer trusts that the consumer is fast enough",
        producer=never_waits,
        smallest=Ring(stages=1, steps=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="the last arrive dropped",
        line="if not last: arrive(empty[stage]); a producer that waits for all slots at the end",
        producer=drains,
        consumer=keeps_the_last,
        repaired_producer=drains,
        smallest=Ring(stages=1, steps=1),
        fails=Kind.DEADLOCK,
        hides="as long as nobody waits for the slots after the last item",
    ),
    Mistake(
        name="the producer stops one item early",
        line="range(steps - 1) in the producer",
        producer=stops_early,
        smallest=Ring(stages=1, steps=1),
        fails=Kind.DEADLOCK,
        hides="nowhere",
    ),
    Mistake(
        name="too few bytes expected",
        line="expect the bytes of one tile, copy two",
        producer=expects_bytes(lambda ring: PART_BYTES),
        repaired_producer=right.copying_producer,
        smallest=Ring(stages=1, steps=1, parts=2),
        fails=Kind.READ_TOO_EARLY,
        hides="with one copy a slot it is right",
    ),
    Mistake(
        name="too many bytes expected",
        line="expect the bytes of two tiles, copy one",
        producer=expects_bytes(lambda ring: 2 * PART_BYTES),
        repaired_producer=right.copying_producer,
        smallest=Ring(stages=1, steps=1),
        fails=Kind.DEADLOCK,
        hides="with two copies a slot it is right",
    ),
    Mistake(
        name="bytes expected after arriving",
        line="arrive(full[stage]), and only then expect_tx(full[stage], bytes)",
        producer=arrives_then_expects,
        repaired_producer=right.copying_producer,
        smallest=Ring(stages=1, steps=1),
        fails=Kind.READ_TOO_EARLY,
        hides="in no ring, but in every run in which the consumer looks a little later",
    ),
)
"""The clinic, in the order of the book."""
