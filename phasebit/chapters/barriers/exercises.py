"""Checks of *Barriers*."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

from phasebit.chapters.barriers.meetings import Meeting, Threads
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown
from phasebit.pipeline import ring as rings
from phasebit.pipeline.explore import Exploration, explore
from phasebit.pipeline.mistakes import MISTAKES
from phasebit.pipeline.moves import Machine
from phasebit.pipeline.ring import Program, Ring, advance
from phasebit.pipeline.steps import System


@judged
def stage_and_phase(answer: Callable[[int, int], tuple[int, int]]) -> str:
    """``answer(i, stages)``: slot and phase bit of item i, without walking there."""
    for stages in range(1, 8):
        stage, phase = 0, 0
        for i in range(100):
            got = ask(answer, i, stages)
            if not same(got, (stage, phase)):
                raise Wrong(
                    f"for item {i} in a ring of {stages} it gives {shown(got)}, "
                    f"walking there gives {(stage, phase)}"
                )
            stage, phase = advance(stage, phase, stages)
    return "100 items in rings of 1 to 7 slots"


@judged
def counts(answer: Callable[[int, int, int, int, int, int], tuple[int, int, int]]) -> str:
    """``answer(warps, lanes, BM, BN, BK, itemsize)`` -> full's count, empty's count, bytes."""
    draw = random.Random(3)
    cases = [(1, 1, 16, 16, 16, 4), (8, 32, 128, 256, 64, 2)]
    cases += [
        (
            draw.randint(1, 12),
            draw.choice((1, 32)),
            16 * draw.randint(1, 8),
            16 * draw.randint(1, 16),
            8 * draw.randint(1, 8),
            draw.choice((1, 2, 4)),
        )
        for _ in range(20)
    ]
    for case in cases:
        warps, lanes, BM, BN, BK, itemsize = case
        right = (1, warps * lanes, (BM * BK + BK * BN) * itemsize)
        got = ask(answer, *case)
        if not isinstance(got, (tuple, list)) or len(got) != 3:
            raise Wrong(f"give three numbers, (full, empty, bytes), not {shown(got)}")
        for name, mine, theirs in zip(("full", "empty", "bytes"), right, got, strict=True):
            if not same(theirs, mine):
                raise Wrong(
                    f"for warps={warps}, lanes={lanes}, BM={BM}, BN={BN}, BK={BK}, "
                    f"itemsize={itemsize} the {name} should be {mine}, not {shown(theirs)}"
                )
    return f"{len(cases)} kernels"


@judged
def one_test(answer: Ring) -> str:
    """One ring in which every mistake of the clinic without copies fails."""
    if not isinstance(answer, Ring):
        raise Wrong("give a Ring(stages=…, items=…, consumers=…, BK=…)")
    if answer.items > 12 or answer.stages > 4 or answer.consumers > 2:
        raise Wrong("at most 4 stages, 12 items and 2 consumers, so that the search stays short")
    if answer != Ring(answer.stages, answer.items, answer.consumers, BK=answer.BK):
        raise Wrong("choose only stages, items, consumers and BK")
    caught = [m for m in MISTAKES if "bytes" not in m.name]
    for mistake in caught:
        if explore(mistake.broken(answer)).clean:
            raise Wrong(f"it lets {mistake.name!r} pass")
    return f"{len(caught)} mistakes, all caught"


CASES = {
    "A": "waiting on the wrong barrier: full for empty",
    "B": "a missing arrive",
    "C": "index from k instead of k / BK",
    "D": "wrong initial phase: the consumer's",
    "E": "wrong initial phase: the producer's",
    "F": "waiting on the wrong barrier: another slot's",
    "G": "arriving before reading ends",
}
"""The failing runs of the exercise: a letter, and the mistake."""

CHOICES = tuple(sorted({*CASES.values(), "wrong count: one too many"}))
"""What a failing run may be of: the mistakes of :data:`CASES`, and one more."""


def failing_run(letter: str) -> Exploration:
    """The shortest failing run of one of :data:`CASES`, in the smallest ring that has one.

    Raises ``ValueError`` for a letter that none has.
    """
    if letter not in CASES:
        raise ValueError(f"there is no run {letter!r}: choose from {', '.join(CASES)}")
    return explore(next(it for it in MISTAKES if it.name == CASES[letter]).broken())


@judged
def seven_runs(answer: dict[str, Any]) -> str:
    """Letter -> the name of the mistake, one of :data:`CHOICES`."""
    if not isinstance(answer, dict) or set(answer) != set(CASES):
        raise Wrong(f"give a dictionary with the letters {', '.join(CASES)}")
    if all(name is ... or name is None for name in answer.values()):
        raise NotAnswered
    strange = [name for name in answer.values() if name not in CHOICES and name is not ...]
    if strange:
        raise Wrong(f"{shown(strange[0])} is none of barriers.CHOICES")
    wrong = [letter for letter, name in CASES.items() if answer[letter] != name]
    if wrong:
        raise Wrong(f"{len(CASES) - len(wrong)} of {len(CASES)} are right; not {', '.join(wrong)}")
    return f"{len(CASES)} runs"


@judged
def whole_ring(producer: Program, consumer: Program) -> str:
    """A producer and a consumer: clean in every small ring, and all slots in use."""
    checked = 0
    for stages, consumers, items in product((1, 2, 3), (1, 2), range(1, 8)):
        ring = Ring(stages, items, consumers)
        system = ask(_system, ring, producer, consumer)
        found = explore(system)
        where = f"stages={stages}, items={items}, consumers={consumers}"
        if not found.clean:
            raise Wrong(f"with {where}: {found.shortest}")
        if _most_full(system) < min(stages, items):
            raise Wrong(f"with {where} it is clean, but never are all slots full at once")
        checked += 1
    return f"{checked} rings, every interleaving"


@judged
def works_ahead(consumer: Program) -> str:
    """A consumer that begins each read before it ends the one before: clean in every small ring."""
    checked = 0
    for stages, consumers, items in product((2, 3), (1, 2), range(1, 8)):
        ring = Ring(stages, items, consumers)
        found = explore(ask(_system, ring, rings.producer, consumer))
        where = f"stages={stages}, items={items}, consumers={consumers}"
        if not found.clean:
            raise Wrong(f"with {where}: {found.shortest}")
        reads = [step.do for step in consumer(ring) if step.do in ("read", "done")]
        if reads.count("done") < items:
            raise Wrong(f"with {where} it is clean, but a read never ends")
        if reads != ["read", *["read", "done"] * (items - 1), "done"]:
            raise Wrong(
                f"with {where} it is clean, but a read does not end right after the next one begins"
            )
        checked += 1
    return f"{checked} rings, every interleaving"


def _system(ring: Ring, producer: Callable[[Ring], Any], consumer: Callable[[Ring], Any]) -> System:
    if any(program(ring) in (None, ...) for program in (producer, consumer)):
        raise NotAnswered
    return ring.system(producer, consumer)


def _most_full(system: System) -> int:
    """The largest number of slots that hold an unread item at once."""
    machine = Machine(system)
    seen, todo, most = {machine.start}, [machine.start], 0
    while todo:
        state = todo.pop()
        most = max(most, sum(part.filled and part.unread > 0 for part in state.parts))
        for event, who in machine.possible(state):
            after = machine.take(state, event.step, who)
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return most


@judged
def meeting(answer: Meeting) -> str:
    """A barrier built from the shared variables ``count`` and ``phase``, both 0 at first.

    Explored for 2 threads that meet up to 4 times, 3 up to 3 times, 4 up to twice, and 5 once.
    """
    sizes = [(threads, often) for threads in range(2, 6) for often in range(1, 7 - threads)]
    states = sum(Threads(answer, *size).explore() for size in sizes)
    return f"2 to 5 threads, every interleaving, {states:,} states"
