"""Every state of a small ring and every move between them, as data for a page.

On that page the reader is the scheduler: chooses who takes the next step, and sees what becomes
of it. All that can happen is worked out beforehand, by the rules of
:mod:`phasebit.pipeline.moves`; the page only looks it up.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any

from phasebit.pipeline import ring as right
from phasebit.pipeline.explore import StateLimitError
from phasebit.pipeline.mistakes import MISTAKES
from phasebit.pipeline.moves import COPY_ENGINE, Broken, Machine, State
from phasebit.pipeline.ring import Program, Ring
from phasebit.pipeline.steps import Step

MOST = 5_000
"""The most states of one ring: a page loads them all."""


def source(program: Program) -> list[str]:
    """The lines of a program without its docstring and its types."""
    lines = textwrap.dedent(inspect.getsource(program)).rstrip().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("def "))
    body = first + 1
    if lines[body].lstrip().startswith('"""'):
        body = next(i for i in range(body, len(lines)) if lines[i].rstrip().endswith('"""')) + 1
    return [f"def {program.__name__}(ring):", *lines[body:]]


def by_line(program: Program, ring: Ring) -> Iterator[tuple[int, Step]]:
    """The steps of a program, each with the number of its line in :func:`source`, from 0."""
    lines, first = inspect.getsourcelines(program)
    left_out = len("".join(lines).rstrip().splitlines()) - len(source(program))
    running = program(ring)
    for step in running:
        assert inspect.isgenerator(running) and running.gi_frame is not None
        yield running.gi_frame.f_lineno - first - left_out, step


def walk(
    ring: Ring, producer: Program = right.producer, consumer: Program = right.consumer
) -> dict[str, Any]:
    """A ring's threads, states and moves.

    ``threads``: for each its ``name``, the ``lines`` of its program and its ``steps``, each the
    number of a line, the step in words, and for a wait the number of the barrier and the parity.
    ``states``: for each how far the threads are, the barriers (phase, arrivals pending, arrivals
    expected, bytes outstanding), the parts of the slots (item, filled?, a bit for each thread that
    has yet to read it) and the copies in flight. ``moves``: for each state who can move, by the
    number of the thread, or -1 for the copy engine and its first copy, -2 for its second; and the
    state that follows, or in words what breaks. ``ends``: what is wrong with a state in which
    nobody can move, ``""`` when nothing is.

    Raises :class:`phasebit.pipeline.explore.StateLimitError` beyond :data:`MOST` states.
    """
    system = ring.system(producer, consumer)
    machine = Machine(system)
    number: dict[State, int] = {machine.start: 0}
    moves: list[list[list[Any]]] = []
    ends: dict[int, str] = {}
    for state in (waiting := [machine.start]):
        here: list[list[Any]] = []
        for event, who in machine.possible(state):
            mover = -1 - who if event.thread == COPY_ENGINE else who
            try:
                after = machine.take(state, event.step, who)
            except Broken as problem:
                here.append([mover, problem.failure.what])
                continue
            if after not in number:
                number[after] = len(number)
                waiting.append(after)
            here.append([mover, number[after]])
        if not here:
            failure = machine.verdict(state)
            ends[number[state]] = failure.what if failure else ""
        moves.append(here)
        if len(number) > MOST:
            raise StateLimitError(f"{ring} has more than {MOST:,} states: walk a smaller ring")
    programs = [producer, *[consumer] * ring.consumers]
    return {
        "threads": [
            {"name": name, "lines": source(program), "steps": _steps(program, ring, machine)}
            for name, program in zip(machine.names, programs, strict=True)
        ],
        "slots": ring.stages,
        "parts": ring.parts,
        "barriers": list(system.barriers),
        "states": [_plain(state) for state in waiting],
        "moves": moves,
        "ends": ends,
    }


def _steps(program: Program, ring: Ring, machine: Machine) -> list[list[Any]]:
    told: list[list[Any]] = []
    for line, step in by_line(program, ring):
        on = [machine.barrier_index[str(step.on)], step.value] if step.do == "wait" else []
        told.append([line, str(step), *on])
    return told


def _plain(state: State) -> list[Any]:
    barriers = [list(barrier[1:5]) for barrier in state.barriers]
    parts = [[part.item, int(part.filled), part.unread] for part in state.parts]
    return [
        list(state.at),
        barriers,
        parts,
        [str(step._replace(do="land")) for step in state.flight],
    ]


@cache
def rings() -> dict[str, dict[str, Any]]:
    """What a reader can choose: rings that are right, and each mistake in its smallest ring."""
    found = {
        "right: two slots": walk(Ring(stages=2, items=3)),
        "right: one slot": walk(Ring(stages=1, items=3)),
        "right: two consumers": walk(Ring(stages=2, items=3, consumers=2)),
        "right: the copy engine fills": walk(Ring(stages=2, items=3), right.copying_producer),
    }
    for mistake in MISTAKES:
        ring = mistake.init(mistake.smallest)
        found[mistake.name] = walk(ring, mistake.producer, mistake.consumer)
    return found


@cache
def larger() -> dict[str, dict[str, Any]]:
    """Rings with the numbers of later kernels: each is loaded only where it is shown."""
    return {
        "right: four slots": walk(Ring(stages=4, items=6)),
        "right: four slots, the copy engine fills": walk(
            Ring(stages=4, items=6), right.copying_producer
        ),
        "right: the copy engine fills for two consumers": walk(
            Ring(stages=2, items=4, consumers=2), right.copying_producer
        ),
    }


__all__ = ["MOST", "by_line", "larger", "rings", "source", "walk"]
