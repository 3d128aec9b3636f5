"""The reduction by itself: small random systems end in the same states as under every order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from phasebit.emulator.interleavings.reduction import Chooser, Step, Stop, conflict, orders

Program = Sequence[tuple[str, str, int]]
"""Steps: what to do, with which cell, and a number."""


End = tuple[Any, ...]
"""The cells, what each thread has read, how far it came."""

Event = tuple[Any, ...]
"""A step, by thread and number, and those that came before it in every equal order."""


class System:
    """Threads that set, read, add to and wait for cells."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.programs = programs
        self.ends: list[End] = []
        self.events: set[Event] = set()
        """Each step of any run, with its past."""

    def run(self, choose: Chooser) -> tuple[Step | None, Sequence[Step]]:
        cells: dict[str, int] = {}
        at = [0] * len(self.programs)
        seen: list[list[int]] = [[] for _ in self.programs]
        past: list[tuple[Step, Event]] = []
        step = None

        def goes(t: int) -> bool:
            do, cell, number = self.programs[t][at[t]]
            return do != "wait" or cells.get(cell, 0) == number

        left = [t for t, program in enumerate(self.programs) if program]
        whole = True
        try:
            while (step is None or not step.fatal) and (possible := [t for t in left if goes(t)]):
                t = choose(possible, step)
                assert isinstance(t, int)
                do, cell, number = self.programs[t][at[t]]
                step = Step(t, {cell: {"set": "w", "add": "adds"}.get(do, "r")})
                step.fatal = do == "fail"
                before = (e for other, e in past if e[0] == t or _orders(other, step))
                event = t, at[t], frozenset(before)
                past.append((step, event))
                self.events.add(event)
                if do == "set":
                    cells[cell] = number
                elif do == "add":
                    cells[cell] = cells.get(cell, 0) + number
                else:
                    seen[t].append(cells.get(cell, 0))
                at[t] += 1
                left = [t for t, program in enumerate(self.programs) if at[t] < len(program)]
        except Stop:
            whole = False
        if whole:
            self.ends.append((tuple(sorted(cells.items())), tuple(map(tuple, seen)), tuple(at)))
        waiting = [t for t in left if not goes(t)]
        return step, [Step(t, {self.programs[t][at[t]][1]: "r"}) for t in waiting]


def _orders(a: Step, b: Step) -> bool:
    return any(cell in b.touches and conflict(how, b.touches[cell])
               for cell, how in a.touches.items())  # fmt: skip


def ends(programs: Sequence[Program], reduced: bool) -> list[End]:
    system = System(programs)
    for tree in orders(system.run, reduced):
        assert reduced or not tree.redundant
    return system.ends


def events(programs: Sequence[Program], reduced: bool) -> tuple[set[Event], int]:
    system = System(programs)
    return system.events, len(list(orders(system.run, reduced)))


def some(seed: int, ways: Sequence[str] = ("set", "read", "add", "wait")) -> list[Program]:
    draw = random.Random(seed)
    threads = draw.choice([2, 2, 3])
    longest = 4 if threads == 2 else 3
    return [
        [(draw.choice(ways), draw.choice("ab"), draw.randrange(3))
         for _ in range(draw.randint(1, longest))]
        for _ in range(threads)
    ]  # fmt: skip


@pytest.mark.parametrize("first", range(0, 800, 200))
def test_the_same_ends_in_fewer_runs(first: int) -> None:
    fewer = 0
    for seed in range(first, first + 200):
        programs = some(seed)
        every, reduced = ends(programs, False), ends(programs, True)
        assert set(reduced) == set(every), programs
        assert len(reduced) <= len(every)
        fewer += len(reduced) < len(every)
    assert fewer > 100


@pytest.mark.parametrize("first", range(0, 800, 200))
def test_a_step_that_ends_a_run_hides_no_other(first: int) -> None:
    """Whatever is done in any order, and after whatever, is done in one of the orders that run."""
    fewer = 0
    for seed in range(first, first + 200):
        programs = some(seed, ("set", "read", "add", "wait", "fail"))
        (every, all_runs), (reduced, runs) = events(programs, False), events(programs, True)
        assert reduced == every, programs
        fewer += runs < all_runs
    assert fewer > 80


def test_what_touches_nothing_in_common_is_run_once() -> None:
    apart: list[Program] = [[("set", cell, 1), ("read", cell, 0)] for cell in "abc"]
    assert len(ends(apart, False)) == 90
    assert len(ends(apart, True)) == 1


def test_changes_of_one_class_are_run_once() -> None:
    assert len(ends([[("add", "a", 1)]] * 4, True)) == 1
    assert len(ends([[("set", "a", t)] for t in range(4)], True)) == 24


def test_who_waits_in_vain_is_asked_for_the_other_order() -> None:
    """The wait is lost where the cell has gone on to 2 before the waiter looks."""
    lapped: list[Program] = [[("set", "a", 1), ("set", "a", 2)], [("wait", "a", 1)]]
    assert {end[2] for end in ends(lapped, True)} == {(2, 0), (2, 1)}
