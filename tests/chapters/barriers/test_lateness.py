"""Nobody in the ring is more than one phase late; one who waits and never arrives is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from phasebit.chapters.barriers.lateness import lateness
from phasebit.pipeline.explore import explore
from phasebit.pipeline.ring import Ring, advance, consumer, producer
from phasebit.pipeline.steps import Step, System, wait

RINGS = [Ring(stages, items, consumers)
         for stages in (1, 2, 3) for items in (1, 4, 7) for consumers in (1, 2)]  # fmt: skip


def watched(ring: Ring) -> System:
    """The ring with a thread that waits for each item and arrives nowhere."""

    def watcher() -> Iterator[Step]:
        stage, phase = 0, 0
        for _ in range(ring.items):
            yield wait(ring.full[stage], phase)
            stage, phase = advance(stage, phase, ring.stages)

    system = ring.system(producer, consumer)
    return replace(system, threads={**system.threads, "watcher": watcher()})


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_in_the_ring_nobody_is_more_than_one_phase_late(ring) -> None:
    assert lateness(ring.system(producer, consumer)).keys() <= {0, 1}


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_a_watcher_is_as_late_as_there_are_rounds(ring) -> None:
    rounds = -(-ring.items // ring.stages)
    assert max(lateness(watched(ring))) == rounds
    assert explore(watched(ring)).clean == (rounds == 1)


def test_one_slot_by_hand() -> None:
    """One item: the producer's one wait passes at once, the consumer's is open for four steps."""
    assert lateness(Ring(stages=1, items=1).system(producer, consumer)) == {0: 4, 1: 2}
