"""Every interleaving of threads that meet at a barrier made from shared variables.

A program of these may branch on what it reads, so it cannot be unrolled. But given the same values
it takes the same steps: where a thread is, is found by running its program again with them. Two
threads are in one place when their generators are, with equal variables, and were last given the
same. Threads run one program, so states in which they have only changed places are one.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from types import GeneratorType
from typing import Any, NamedTuple

from phasebit.exercises.judge import NotAnswered, Wrong, ask, shown
from phasebit.pipeline.steps import RELATIONS, Step

Meeting = Callable[[int], Generator[Step, int, None]]
"""``meet(n)``: ends when all n threads have called it; may be called again at once."""

CELLS = ("count", "phase")
DOINGS = ("come", "load", "store", "add", *RELATIONS)
"""The shared variables, both 0 at first."""

STATES = 10_000
"""So many states are explored; a right answer with few variables has a few thousand."""

LAST = 2
"""So many of the values that a thread was given last belong to its place: an expression with
several ``yield`` keeps them where nobody sees them."""

Given = tuple[int | None, ...]
"""What a thread was given, a value for each step that it has taken."""


def load(cell: str) -> Step:
    """Read a shared variable: ``value = yield load(cell)``."""
    return Step("load", cell)


class Place(NamedTuple):
    """Where a thread is: its next step (``None``: it has ended), how often it came and left."""

    step: Step | None
    came: int
    left: int
    frames: tuple[Any, ...]  # of the meeting's generators: the instruction and the variables
    last: Given


Alike = tuple[tuple[int, ...], tuple[int, ...]]


class State(NamedTuple):
    cells: tuple[int, ...]  # as in CELLS
    given: tuple[Given, ...]  # a thread each


@dataclass
class Threads:
    """``threads`` threads that meet so many times, and all that can become of them."""

    meet: Meeting
    threads: int
    meetings: int
    places: dict[Given, Place] = field(default_factory=dict)
    numbers: dict[Place, int] = field(default_factory=dict)
    came_from: dict[State, tuple[State, int]] = field(default_factory=dict)

    def explore(self) -> int:
        """How many states there are; raises :class:`Wrong` with a shortest run that fails."""
        start = State((0,) * len(CELLS), ((),) * self.threads)
        seen, todo = {self.alike(start): start}, deque([start])
        before: dict[Alike, set[Alike]] = {self.alike(start): set()}
        ended = []
        while todo:
            state = todo.popleft()
            self.judge(state)
            steps = [self.place(given).step for given in state.given]
            ended += [] if any(steps) else [self.alike(state)]
            going = False
            for thread in range(self.threads):
                after = self.after(state, thread)
                if after is None:
                    continue
                alike = self.alike(after)
                going |= alike != self.alike(state)  # a loop around one load goes nowhere
                if alike not in seen:
                    seen[alike] = after
                    before[alike] = set()
                    self.came_from[after] = state, thread
                    todo.append(after)
                before[alike].add(self.alike(state))
            if not going and any(steps):
                stuck = [f"thread {n} at {words(step)}" for n, step in enumerate(steps) if step]
                raise Wrong(f"{self}: deadlock, {', '.join(stuck)}{self.run(state)}")
            if len(seen) > STATES:
                raise Wrong(f"{self}: more than {STATES:,} states: does a variable grow for ever?")
        hopeful = set(ended)
        while ended:
            ended += (earlier := before[ended.pop()] - hopeful)
            hopeful |= earlier
        for alike, state in seen.items():
            if alike not in hopeful:
                raise Wrong(f"{self}: from here on the threads never end{self.run(state)}")
        return len(seen)

    def alike(self, state: State) -> Alike:
        """The same for all states in which threads have only changed places."""
        places = (self.place(given) for given in state.given)
        numbers = (self.numbers.setdefault(place, len(self.numbers)) for place in places)
        return state.cells, tuple(sorted(numbers))

    def place(self, given: Given) -> Place:
        """Where the values that a thread was given have led it."""
        if given not in self.places:
            self.places[given] = self._run(given)
        return self.places[given]

    def _run(self, given: Given) -> Place:
        came = left = 0
        meeting: Any = None

        def program() -> Generator[Step, Any, None]:
            nonlocal came, left, meeting
            for _ in range(self.meetings):
                yield Step("come", CELLS[0])  # so that others may come first
                came += 1
                meeting = ask(self.meet, self.threads)
                if not isinstance(meeting, Generator):
                    raise Wrong("meet is a generator: its steps are yielded")
                yield from meeting
                left += 1

        running = program()
        step: Step | None = next(running)
        try:
            for value in given:
                step = running.send(value)
        except StopIteration:
            step = None
        except (NotAnswered, Wrong):
            raise
        except Exception as error:
            raise Wrong(f"{self}: it raises {type(error).__name__}: {error}") from error
        if step is not None and (
            not isinstance(step, Step) or step.on not in CELLS or step.do not in DOINGS
        ):
            raise Wrong(
                f"yield load, store, add or until on {' or '.join(CELLS)}, not {shown(step)}"
            )
        frames = []
        while isinstance(meeting, GeneratorType) and meeting.gi_frame is not None:
            variables = sorted(meeting.gi_frame.f_locals.items())
            frames.append((meeting.gi_frame.f_lasti, repr(variables)))
            meeting = meeting.gi_yieldfrom
        if meeting is not None and not isinstance(meeting, GeneratorType):  # yield from a list
            frames.append((operator.length_hint(meeting, 0), ""))
        return Place(step, came, left, tuple(frames), given[-LAST:])

    def after(self, state: State, thread: int) -> State | None:
        """The state after a step of a thread; ``None`` when it cannot take one."""
        given = state.given[thread]
        place = self.place(given)
        if place.step is None:
            return None
        cell = CELLS.index(str(place.step.on))
        old, cells, told = state.cells[cell], list(state.cells), None
        match place.step.do:
            case "load":
                told = old
            case "add":
                told, cells[cell] = old, old + place.step.value
            case "store":
                cells[cell] = place.step.value
            case "come":
                pass
            case relation if not RELATIONS[relation](old, place.step.value):
                return None
        return State(
            tuple(cells),
            (*state.given[:thread], (*given, told), *state.given[thread + 1 :]),
        )

    def judge(self, state: State) -> None:
        """Nobody may have left a meeting before all have come."""
        places = list(map(self.place, state.given))
        came = [place.came for place in places]
        for thread, place in enumerate(places):
            if place.left > min(came):
                raise Wrong(
                    f"{self}: thread {thread} leaves meeting {place.left - 1} before thread "
                    f"{came.index(min(came))} has come{self.run(state)}"
                )

    def run(self, state: State) -> str:
        """How a state was reached, as the end of a sentence."""
        steps: list[str] = []
        while state in self.came_from:
            last = state
            state, thread = self.came_from[state]
            step = self.place(state.given[thread]).step
            if step is None or step.do == "come":
                continue
            told = last.given[thread][-1]
            value = "" if told is None else f" ({told})"
            steps.insert(0, f"{thread}: {words(step)}{value}")
        return f"; a shortest run, thread: step (value read): {', '.join(steps)}" if steps else ""

    def __str__(self) -> str:
        return f"{self.threads} threads, {self.meetings} meeting{'s'[: self.meetings != 1]}"


def words(step: Step) -> str:
    """A step in words.

    >>> words(load("phase"))
    'load phase'
    """
    return f"load {step.on}" if step.do == "load" else str(step)
