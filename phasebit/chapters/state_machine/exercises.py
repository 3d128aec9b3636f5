"""Checks of *Producers, consumers, buffers*."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from phasebit.chapters.state_machine.draft import served
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import Wrong, judged, shown, whole
from phasebit.pipeline import Doing, Pipeline, Simulation, Slot, State, simulate, step


def systems(many: int, seed: int, most: int = 5) -> Iterator[tuple[Pipeline, int]]:
    """Pipelines and numbers of jobs, small and different, the same each time."""
    draw = random.Random(seed)
    for _ in range(many):
        pipeline = Pipeline(
            producers=draw.randint(1, most),
            consumers=draw.randint(1, most),
            slots=draw.randint(1, most),
            produce=draw.randint(1, 9),
            consume=draw.randint(1, 9),
            see_full=draw.randint(0, 3),
            see_empty=draw.randint(0, 3),
        )
        yield pipeline, draw.randint(1, 30)


@judged
def waited(answer: Callable[[Simulation, int], int]) -> str:
    """``answer(run, producer)``: how many clocks the producer waited for a slot."""

    def cases() -> Iterator[Case]:
        for pipeline, jobs in [(Pipeline(4, 6, 6, 5, 3), 20), *systems(200, seed=1)]:
            run = simulate(pipeline, jobs)
            for producer in range(pipeline.producers):
                clocks = sum(j.fill - j.ticket_at for j in run.jobs if j.producer == producer)
                yield (run, producer), clocks

    return agree(answer, cases(), lambda run, n: f"{_run(run)}, producer {n}", "producers")


@judged
def places(answer: Callable[[State], bool]) -> str:
    """``answer(state)``: every job that was started and not yet consumed has exactly one place.

    A place is a waiting producer's ticket or a slot that is not empty.
    """
    cases: list[Case] = [((state,), True) for state in _states()]
    cases += [((state,), False) for state in _harmed()]
    random.Random(2).shuffle(cases)
    return agree(answer, cases, _words, "states")


def _states() -> Iterator[State]:
    for pipeline, jobs in [(Pipeline(4, 6, 6, 5, 3), 20), *systems(30, seed=3)]:
        state = State(pipeline, jobs)
        while not state.done:
            for _ in step(state):
                pass
            yield copy.deepcopy(state)
            state.clock += 1


def _harmed() -> Iterator[State]:
    """States that no run reaches: a job lost, a job twice, a slot that holds nobody's job."""
    for number, state in enumerate(_states()):
        held = [s for s in state.slots if s.state is not Slot.EMPTY]
        waiting = [w for w in state.producers if w.doing is Doing.WAITING]
        if held and number % 5 == 0:
            held[0].state, held[0].job = Slot.EMPTY, None
        elif held and number % 5 == 1 and state.started > state.consumed:
            state.consumed += 1
        elif waiting and number % 5 == 2:
            waiting[0].doing, waiting[0].ticket = Doing.FREE, None
        elif len(held) > 1 and number % 5 == 3:
            held[1].job = held[0].job
        elif len(held) < len(state.slots) and number % 5 == 4:
            spare = next(s for s in state.slots if s.state is Slot.EMPTY)
            spare.state, spare.job = Slot.FULL, state.started
        else:
            continue
        yield state


def _run(run: Simulation) -> str:
    return f"{len(run.jobs)} jobs through {run.pipeline}"


def _words(state: State) -> str:
    slots = " ".join(
        s.state.value if s.job is None else f"{s.state.value}({s.job})" for s in state.slots
    )
    tickets = [w.ticket for w in state.producers if w.doing is Doing.WAITING]
    return (
        f"started {state.started}, consumed {state.consumed}, slots {slots}, "
        f"waiting producers' tickets {tickets}"
    )


@judged
def handed_over(answer: Callable[[State], bool]) -> str:
    """``answer(state)``: nobody works in a slot before it could see that slot's state."""

    def cases() -> Iterator[Case]:
        for state in _states():
            yield (state,), True
        for state in _hasty():
            yield (state,), all(since >= seen for *_, since, seen in _work(state))

    def words(state: State) -> str:
        work = [
            f"{who} in slot {slot} since clock {since}, seen from {seen}"
            for who, slot, since, seen in _work(state)
        ]
        return f"clock {state.clock}: {'; '.join(work)}"

    return agree(answer, cases(), words, "states")


def _work(state: State) -> Iterator[tuple[str, int, int, int]]:
    """Who works: in which slot, since when, and from when its state could be seen."""
    for role, workers, clocks in (
        ("producer", state.producers, state.pipeline.produce_of),
        ("consumer", state.consumers, state.pipeline.consume_of),
    ):
        for w in workers:
            if w.job is not None and w.slot is not None:
                yield (
                    f"{role} {w.number}", w.slot, w.until - clocks(w.job),
                    state.slots[w.slot].seen_at,
                )  # fmt: skip


def _hasty() -> Iterator[State]:
    """States of runs in which nobody waits for a hand-off."""
    for pipeline, jobs in [(Pipeline(4, 6, 6, 5, 3), 20), *systems(30, seed=7)]:
        state = State(replace(pipeline, see_full=0, see_empty=0), jobs)
        while not state.done:
            for _ in step(state):
                pass
            shown = copy.deepcopy(state)
            shown.pipeline = pipeline
            for slot in shown.slots:
                if slot.state in (Slot.FULL, Slot.DRAINING):
                    slot.seen_at += pipeline.see_full
                elif slot.seen_at:  # it has been used before
                    slot.seen_at += pipeline.see_empty
            yield shown
            state.clock += 1


@judged
def drained(answer: Callable[[Pipeline, int], list[int]]) -> str:
    """``answer(pipeline, jobs)``: when each job is consumed; one producer, one consumer."""

    def cases() -> Iterator[Case]:
        draw = random.Random(4)
        for number in range(300):
            produce: Any = draw.randint(1, 9)
            consume: Any = draw.randint(1, 9)
            if number % 2:
                produce = [draw.randint(1, 9) for _ in range(draw.randint(1, 5))]
                consume = [draw.randint(1, 9) for _ in range(draw.randint(1, 5))]
            pipeline = Pipeline(
                1, 1, draw.randint(1, 5), produce, consume, draw.randint(0, 3), draw.randint(0, 3)
            )
            jobs = draw.randint(1, 25)
            yield (pipeline, jobs), [j.drained for j in simulate(pipeline, jobs).jobs]

    return agree(answer, cases(), lambda p, jobs: f"{jobs} jobs through {p}", "systems")


@judged
def longest_queue(answer: Callable[[Simulation], int]) -> str:
    """``answer(run)``: the most slots that were full and seen full at one moment, unread."""

    def cases() -> Iterator[Case]:
        for pipeline, jobs in systems(200, seed=5, most=7):
            run = simulate(pipeline, jobs)
            seen = [(j.filled + pipeline.see_full, j.drain) for j in run.jobs]
            yield (run,), max(sum(a <= clock < b for a, b in seen) for clock in range(run.clocks))

    return agree(answer, cases(), _run, "runs")


DISHES, USUAL, LONGEST = 20, 5, 50
"""How many dishes are cooked; the clocks of one, as a rule and at most."""


@judged
def one_dish(dish: Any, clocks: Any) -> str:
    """With which dish, and how many clocks for it, the draft with 6 slots serves a wrong one."""
    for name, value, least, most in (("dish", dish, 0, DISHES - 1), ("clocks", clocks, 1, LONGEST)):
        if not whole(value) or not least <= value <= most:
            raise Wrong(f"{name} is {shown(value)}: give a whole number from {least} to {most}")
    services = served([clocks if each == dish else USUAL for each in range(DISHES)])
    wrong = [(ticket, got) for ticket, got in services if ticket != got]
    if not wrong:
        raise Wrong(f"with {clocks} clocks for dish {dish} every guest gets the right one")
    ticket, got = wrong[0]
    return f"{len(wrong)} guests get another dish, the first of them dish {got} on ticket {ticket}"
