"""Tasks that wait for tasks, on workers that do one at a time and share a unit.

For systems that are no ring or row of rings: each task says which others must have ended before it.
The task that can begin first does; the shared unit serves tasks in the order in which they begin,
and a task ends when its clocks are over and the unit has done its part.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple


class Task(NamedTuple):
    """What a worker does next, as soon as what it needs has ended."""

    worker: int
    clocks: int
    shared: int
    """What it asks of the shared unit."""
    needs: Sequence[tuple[Hashable, int]]
    """Tasks by their names, and clocks from the end of each until it can be seen."""


class Span(NamedTuple):
    """When a task was worked on."""

    begin: int
    end: int


def spans(queues: Sequence[Mapping[Any, Task]], shared_a_clock: int) -> dict[Any, Span]:
    """When each task begins and ends. A queue's begin in its order; a worker may serve several.

    ``shared_a_clock``: what the shared unit does in a clock.

    >>> one = {"a": Task(0, 4, 0, []), "b": Task(0, 4, 0, [])}
    >>> two = {"c": Task(1, 1, 6, [("a", 1)])}
    >>> spans([one, two], 2)["c"]
    Span(begin=5, end=8)
    """
    done: dict[Any, Span] = {}
    workers = {task.worker for queue in queues for task in queue.values()}
    free, unit = dict.fromkeys(workers, 0), Fraction(0)
    waiting = [list(queue.items()) for queue in queues]
    while any(waiting):
        ready = []
        for at, queue in enumerate(waiting):
            if queue and all(need in done for need, _ in queue[0][1].needs):
                task = queue[0][1]
                seen = max([done[need].end + after for need, after in task.needs], default=0)
                ready.append((max(seen, free[task.worker]), task.worker, seen, at))
        begin, worker, _, at = min(ready)
        name, task = waiting[at].pop(0)
        end = begin + task.clocks
        if task.shared:
            unit = max(unit, Fraction(begin)) + Fraction(task.shared, shared_a_clock)
            end = max(end, -(-unit.numerator // unit.denominator))
        done[name] = Span(begin, end)
        free[worker] = end
    return done
