"""Every interleaving of a small system.

:func:`explore` visits every state that some interleaving of the threads' steps
reaches, nearest first, so the first failure that it meets has a shortest run.
Nothing is left out by symmetry or by partial order: the systems of the book
have a few thousand states, and a search without cleverness is easy to trust.
"""

from __future__ import annotations

from dataclasses import dataclass

from phasebit.pipeline.interleaving import Interleaving
from phasebit.pipeline.moves import Broken, Event, Failure, Machine, State
from phasebit.pipeline.steps import System
from phasebit.timeline import Timeline


@dataclass(frozen=True)
class Exploration:
    """What :func:`explore` found.

    ``states``: different states seen. ``interleavings``: complete runs that
    those states stand for (counted only when nothing failed). ``shortest``: a
    failing run of the fewest steps, or None when no interleaving fails.
    """

    states: int
    interleavings: int
    shortest: Interleaving | None

    @property
    def clean(self) -> bool:
        """No interleaving fails."""
        return self.shortest is None

    @property
    def failure(self) -> Failure | None:
        """How the shortest failing run fails."""
        return None if self.shortest is None else self.shortest.failure

    @property
    def timeline(self) -> Timeline:
        """The shortest failing run, drawn. Raises :class:`ValueError` when there is none."""
        if self.shortest is None:
            raise ValueError("no interleaving fails, so there is no failing run to draw")
        return self.shortest.timeline

    def __str__(self) -> str:
        states = _few(self.states, "state")
        if self.shortest is None:
            return f"clean: {_few(self.interleavings, 'interleaving')}, {states}"
        return f"{self.shortest}\n({states} seen)"


def _few(number: int, thing: str) -> str:
    """A count in words that stay short: 1 state, 343,000 states, 3.3e+24 interleavings."""
    count = f"{number:.1e}" if number >= 10**12 else f"{number:,}"
    return f"{count} {thing}" + "s" * (number != 1)


class StateLimitError(RuntimeError):
    """The system has more states than the caller allowed."""


def explore(system: System, limit: int = 1_000_000) -> Exploration:
    """Visit every state that some interleaving of ``system`` can reach, nearest first.

    Each step takes the system one level further from its start and none leads
    back, so the search goes level by level, and a run's length is its level.
    Raises :class:`StateLimitError` when more than ``limit`` states are seen.
    """
    machine = Machine(system)
    came_from: dict[State, tuple[State, Event] | None] = {machine.start: None}
    level = {machine.start: 1}  # state -> number of runs that lead to it
    interleavings = 0

    def found(failure: Failure, state: State, *last: Event) -> Exploration:
        events = list(last)
        while (origin := came_from[state]) is not None:
            state, event = origin
            events.insert(0, event)
        return Exploration(len(came_from), 0, Interleaving(system, tuple(events), failure))

    while level:
        following: dict[State, int] = {}
        broken: tuple[Failure, State, Event] | None = None
        for state, runs in level.items():
            stuck = True
            for event, who in machine.possible(state):
                stuck = False
                try:
                    after = machine.take(state, event.step, who)
                except Broken as problem:
                    broken = broken or (problem.failure, state, event)
                    continue
                came_from.setdefault(after, (state, event))
                following[after] = following.get(after, 0) + runs
            if stuck:
                failure = machine.verdict(state)
                if failure is not None:  # one step shorter than a broken step of this level
                    return found(failure, state)
                interleavings += runs
        if broken is not None:
            return found(*broken)
        if len(came_from) > limit:
            raise StateLimitError(
                f"more than {limit:,} states: explore a smaller system, or raise the limit"
            )
        level = following
    return Exploration(len(came_from), interleavings, None)
