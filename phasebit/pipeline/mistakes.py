"""A clinic of rings, each with one planted mistake.

Every mistake shows the lines that are wrong, in which smallest system it fails,
how, and why smaller systems do not show it. The repaired program is the ring of
:mod:`phasebit.pipeline.ring` with the same numbers.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from difflib import unified_diff
from itertools import islice

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


def expects_each(ring: Ring) -> Ring:
    """The empty barriers expect one arrival from every consumer, which is right."""
    return replace(ring, empty_count=ring.consumers)


@dataclass(frozen=True)
class Mistake:
    """One planted mistake.

    ``smallest``: the smallest ring in which it fails (fewest stages, then
    consumers, then items). ``fails``: how the shortest failing run of that ring fails.
    ``hides``: the rings in which nothing goes wrong. ``diff``: the lines that differ
    from the repaired programs.
    """

    name: str
    smallest: Ring
    fails: Kind
    hides: str
    producer: Program = right.producer
    consumer: Program = right.consumer
    init: Callable[[Ring], Ring] = expects_each
    repaired_producer: Program = right.producer
    repaired_consumer: Program = right.consumer

    def broken(self, ring: Ring | None = None) -> System:
        """The system with the mistake: ``smallest``, or another ring."""
        return self.init(ring or self.smallest).system(self.producer, self.consumer)

    def repaired(self, ring: Ring | None = None) -> System:
        """The same system without the mistake."""
        return (ring or self.smallest).system(self.repaired_producer, self.repaired_consumer)

    @property
    def diff(self) -> str:
        """What the mistake changes, from the sources: ``-`` as it should be, ``+`` as it is."""
        pairs = {
            "init": (expects_each, self.init),
            "producer": (self.repaired_producer, self.producer),
            "consumer": (self.repaired_consumer, self.consumer),
        }
        return "\n".join(
            f"{role}:\n{_changes(right, wrong)}"
            for role, (right, wrong) in pairs.items()
            if right is not wrong
        )


def _changes(right: Callable[..., object], wrong: Callable[..., object]) -> str:
    """The lines of two functions' bodies that differ, with a line around them."""
    lines = unified_diff(_body(right), _body(wrong), n=1, lineterm="")
    return "\n".join("   …" if line[0] == "@" else line for line in islice(lines, 3, None))


def _body(function: Callable[..., object]) -> list[str]:
    """A function's lines without its head and docstring."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    definition = ast.parse("\n".join(lines)).body[0]
    assert isinstance(definition, ast.FunctionDef) and ast.get_docstring(definition)
    return lines[definition.body[1].lineno - 1 :]


def never_arrives(ring: Ring) -> Iterator[Step]:
    """A consumer that forgets to give its slots back."""
    stage, phase = 0, 0
    for _ in range(ring.items):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        stage, phase = advance(stage, phase, ring.stages)


def never_reads(ring: Ring) -> Iterator[Step]:
    """A consumer that waits and arrives as it should, and reads nothing in between."""
    stage, phase = 0, 0
    for _ in range(ring.items):
        yield wait(ring.full[stage], phase)
        yield arrive(ring.empty[stage])
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
    for i in range(ring.items):
        yield wait(ring.empty[stage], phase)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def starts_at_one(ring: Ring) -> Iterator[Step]:
    """A consumer that starts with the producer's phase."""
    stage, phase = 0, 1
    for _ in range(ring.items):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        yield arrive(ring.empty[stage])
        stage, phase = advance(stage, phase, ring.stages)


def producer_never_flips(ring: Ring) -> Iterator[Step]:
    """A producer that wraps its stage and forgets its phase."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield wait(ring.empty[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage = (stage + 1) % ring.stages


def consumer_never_flips(ring: Ring) -> Iterator[Step]:
    """A consumer that wraps its stage and forgets its phase."""
    stage, phase = 0, 0
    for _ in range(ring.items):
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
    for _ in range(ring.items):
        yield wait(ring.full[stage], phase)
        begin, end = read(stage)
        yield begin
        yield arrive(ring.empty[stage])
        yield end
        stage, phase = advance(stage, phase, ring.stages)


def waits_for_full(ring: Ring) -> Iterator[Step]:
    """A producer that waits on the barrier it arrives on itself."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield wait(ring.full[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def waits_for_neighbour(ring: Ring) -> Iterator[Step]:
    """A consumer that waits for the slot before the one that it reads."""
    stage, phase = 0, 0
    for _ in range(ring.items):
        yield wait(ring.full[stage - 1], phase)
        yield from read(stage)
        yield arrive(ring.empty[stage])
        stage, phase = advance(stage, phase, ring.stages)


def arrives_on_full(ring: Ring) -> Iterator[Step]:
    """A consumer for which one barrier a slot is enough."""
    stage, phase = 0, 0
    for _ in range(ring.items):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def never_waits(ring: Ring) -> Iterator[Step]:
    """A producer that trusts in the consumer's speed."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def drains(ring: Ring) -> Iterator[Step]:
    """The producer of the ring, which then waits until every slot has been given back."""
    stage, phase = 0, 0
    for i in range(ring.items):
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
    for i in range(ring.items):
        yield wait(ring.full[stage], phase)
        yield from read(stage)
        if i < ring.items - 1:
            yield arrive(ring.empty[stage])
        stage, phase = advance(stage, phase, ring.stages)


def stops_early(ring: Ring) -> Iterator[Step]:
    """A producer whose loop ends one item too soon."""
    stage, phase = 0, 0
    for i in range(ring.items - 1):
        yield wait(ring.empty[stage], phase ^ 1)
        yield from fill(stage, item=i)
        yield arrive(ring.full[stage])
        stage, phase = advance(stage, phase, ring.stages)


def expects_one_part(ring: Ring) -> Iterator[Step]:
    """A copying producer that expects the bytes of one part, however many it copies."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield wait(ring.empty[stage], phase ^ 1)
        yield arrive_expect_tx(ring.full[stage], PART_BYTES)
        for part in range(ring.parts):
            yield copy(stage, i, ring.full[stage], PART_BYTES, part)
        stage, phase = advance(stage, phase, ring.stages)


def expects_two_parts(ring: Ring) -> Iterator[Step]:
    """A copying producer that expects the bytes of two parts, however many it copies."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield wait(ring.empty[stage], phase ^ 1)
        yield arrive_expect_tx(ring.full[stage], 2 * PART_BYTES)
        for part in range(ring.parts):
            yield copy(stage, i, ring.full[stage], PART_BYTES, part)
        stage, phase = advance(stage, phase, ring.stages)


def arrives_then_expects(ring: Ring) -> Iterator[Step]:
    """A copying producer that arrives first and says how much to expect afterwards."""
    stage, phase = 0, 0
    for i in range(ring.items):
        yield wait(ring.empty[stage], phase ^ 1)
        yield arrive(ring.full[stage])
        yield expect_tx(ring.full[stage], ring.parts * PART_BYTES)
        for part in range(ring.parts):
            yield copy(stage, i, ring.full[stage], PART_BYTES, part)
        stage, phase = advance(stage, phase, ring.stages)


MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        name="a missing arrive",
        consumer=never_arrives,
        smallest=Ring(stages=1, items=2),
        fails=Kind.DEADLOCK,
        hides="in the first round of the ring: no slot is used twice",
    ),
    Mistake(
        name="wrong count: one too many",
        init=expects_one_more,
        smallest=Ring(stages=1, items=2),
        fails=Kind.DEADLOCK,
        hides="in the first round of the ring: nobody waits for empty in earnest",
    ),
    Mistake(
        name="wrong count: one for all consumers",
        init=expects_one,
        smallest=Ring(stages=1, items=1, consumers=2),
        fails=Kind.MISUSE,
        hides="with one consumer it is right",
    ),
    Mistake(
        name="wrong initial phase: the producer's",
        producer=waits_without_flip,
        smallest=Ring(stages=1, items=1),
        fails=Kind.DEADLOCK,
        hides="nowhere",
    ),
    Mistake(
        name="wrong initial phase: the consumer's",
        consumer=starts_at_one,
        smallest=Ring(stages=1, items=1),
        fails=Kind.READ_TOO_EARLY,
        hides="nowhere",
    ),
    Mistake(
        name="parity never flipped: the producer's",
        producer=producer_never_flips,
        smallest=Ring(stages=1, items=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="parity never flipped: the consumer's",
        consumer=consumer_never_flips,
        smallest=Ring(stages=1, items=2),
        fails=Kind.WRONG_ITEM,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="index from k instead of k / BK",
        producer=producer_indexes_by_k,
        consumer=consumer_indexes_by_k,
        smallest=Ring(stages=1, items=2, BK=2),
        fails=Kind.OVERWRITTEN,
        hides="with BK = 1; and with BK = stages = 2 it is clean, but slot 1 is never used",
    ),
    Mistake(
        name="arriving before reading ends",
        consumer=arrives_early,
        smallest=Ring(stages=1, items=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="waiting on the wrong barrier: full for empty",
        producer=waits_for_full,
        smallest=Ring(stages=1, items=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="waiting on the wrong barrier: another slot's",
        consumer=waits_for_neighbour,
        smallest=Ring(stages=2, items=1),
        fails=Kind.DEADLOCK,
        hides="with one slot, and with exactly as many items as slots",
    ),
    Mistake(
        name="one barrier for both directions",
        producer=waits_for_full,
        consumer=arrives_on_full,
        smallest=Ring(stages=1, items=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring, with one consumer",
    ),
    Mistake(
        name="no wait for empty",
        producer=never_waits,
        smallest=Ring(stages=1, items=2),
        fails=Kind.OVERWRITTEN,
        hides="in the first round of the ring",
    ),
    Mistake(
        name="the last arrive dropped",
        producer=drains,
        consumer=keeps_the_last,
        repaired_producer=drains,
        smallest=Ring(stages=1, items=1),
        fails=Kind.DEADLOCK,
        hides="as long as nobody waits for the slots after the last item",
    ),
    Mistake(
        name="the producer stops one item early",
        producer=stops_early,
        smallest=Ring(stages=1, items=1),
        fails=Kind.DEADLOCK,
        hides="nowhere",
    ),
    Mistake(
        name="a consumer that never reads",
        consumer=never_reads,
        smallest=Ring(stages=1, items=1),
        fails=Kind.LOST,
        hides="from every test that looks at the barriers alone: they are used as they should be",
    ),
    Mistake(
        name="too few bytes expected",
        producer=expects_one_part,
        repaired_producer=right.copying_producer,
        smallest=Ring(stages=1, items=1, parts=2),
        fails=Kind.READ_TOO_EARLY,
        hides="with one copy a slot it is right",
    ),
    Mistake(
        name="too many bytes expected",
        producer=expects_two_parts,
        repaired_producer=right.copying_producer,
        smallest=Ring(stages=1, items=1),
        fails=Kind.DEADLOCK,
        hides="with two copies a slot it is right",
    ),
    Mistake(
        name="bytes expected after arriving",
        producer=arrives_then_expects,
        repaired_producer=right.copying_producer,
        smallest=Ring(stages=1, items=1),
        fails=Kind.READ_TOO_EARLY,
        hides="in each run in which the consumer looks only after the copy has landed",
    ),
)
"""The clinic, in the order of the book."""
