"""How many phases late a waiter can be, over all states of a system."""

from __future__ import annotations

from collections import Counter

from phasebit.pipeline.moves import Broken, Machine, State
from phasebit.pipeline.steps import System


def lateness(system: System) -> dict[int, int]:
    """Phases that are over since the one before the phase meant -> how often that occurs.

    Counted are pairs of a state that some interleaving reaches and a thread that stands at a
    wait in it. 0: the phase that it waits for is still open. 1: it is over, and the next one is
    open. From 2 on one bit of the phase's number tells the waiter the wrong thing, or the right
    one by luck. A thread's n-th wait on a barrier means phase n; where its first wait there has
    parity 1, phase n - 1. A run that breaks a rule is followed up to there.
    """
    machine = Machine(system)
    barriers = list(system.barriers)

    def late(state: State, thread: int) -> int | None:
        steps, at = machine.programs[thread], state.at[thread]
        if at == len(steps) or steps[at].do != "wait":
            return None
        waits = [step.value for step in steps[: at + 1] if step[:2] == steps[at][:2]]
        meant = len(waits) - 1 - waits[0]
        return int(state.barriers[barriers.index(str(steps[at].on))][1]) - meant

    counts: Counter[int] = Counter()
    seen, todo = {machine.start}, [machine.start]
    while todo:
        state = todo.pop()
        of_threads = (late(state, thread) for thread in range(len(machine.programs)))
        counts.update(phases for phases in of_threads if phases is not None)
        for event, who in machine.possible(state):
            try:
                after = machine.take(state, event.step, who)
            except Broken:
                continue
            if after not in seen:
                seen.add(after)
                todo.append(after)
    return dict(sorted(counts.items()))
