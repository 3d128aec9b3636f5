"""The ring in SimPy, written as its tutorial would: the oracle, and the other side of the bench.

Two stores a slot hold the signals "empty" and "full". A signal that takes d clocks is put into
its store d clocks after the work ended.
"""

from __future__ import annotations

from itertools import count

import simpy

from phasebit.pipeline import Pipeline


def times(pipeline: Pipeline, jobs: int) -> list[tuple[int, int, int, int]]:
    """(fill, filled, drain, drained) of every job."""
    env = simpy.Environment()
    empty = [simpy.Store(env) for _ in range(pipeline.slots)]
    full = [simpy.Store(env) for _ in range(pipeline.slots)]
    started, claimed = count(), count()
    filling: list = [None] * jobs
    draining: list = [None] * jobs

    def signal(store, clocks):
        if clocks == 0:
            store.put(True)
        else:
            env.timeout(clocks).callbacks.append(lambda _: store.put(True))

    def producer():
        while (job := next(started)) < jobs:
            slot = job % pipeline.slots
            yield empty[slot].get()
            fill = env.now
            yield env.timeout(pipeline.produce_of(job))
            filling[job] = (fill, env.now)
            signal(full[slot], pipeline.see_full)

    def consumer():
        while (job := next(claimed)) < jobs:
            slot = job % pipeline.slots
            yield full[slot].get()
            drain = env.now
            yield env.timeout(pipeline.consume_of(job))
            draining[job] = (drain, env.now)
            signal(empty[slot], pipeline.see_empty)

    for store in empty:
        store.put(True)
    for _ in range(pipeline.producers):
        env.process(producer())
    for _ in range(pipeline.consumers):
        env.process(consumer())
    env.run()
    return [(*a, *b) for a, b in zip(filling, draining, strict=True)]
