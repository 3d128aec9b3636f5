"""The chapter's first program: its servers see that a slot is full, and not in which round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COOKS, SERVERS, CONSUME, HANDOFF = 4, 6, 3, 1
"""Workers of each role; clocks to bring a dish out; clocks until a new state is seen."""


@dataclass
class _Worker:
    job: int | None = None  # its ticket
    busy: bool = False
    until: int = 0


@dataclass
class _Slot:
    state: str = "empty"
    seen: int = 0
    job: int = 0


def served(produce: Sequence[int], slots: int = 6) -> list[tuple[int, int]]:
    """(ticket, dish) of each service, in the order in which they begin.

    ``produce[i]``: the clocks, at least 1, that dish ``i`` takes; as many dishes as numbers.

    >>> served([5, 5])
    [(0, 0), (1, 1)]
    """
    cooks, servers = ([_Worker() for _ in range(n)] for n in (COOKS, SERVERS))
    ring = [_Slot() for _ in range(slots)]
    roles = ((cooks, "empty", "filling", "full"), (servers, "full", "draining", "empty"))
    tickets = {"full": iter(range(len(produce))), "empty": iter(range(len(produce)))}
    services: list[tuple[int, int]] = []
    done = 0
    for clock in range(sum(produce) + len(produce) * (CONSUME + 2 * HANDOFF) + 1):
        for workers, _, _, after in roles:  # finish
            for worker in workers:
                if worker.busy and worker.until == clock and worker.job is not None:
                    slot = ring[worker.job % slots]
                    slot.state, slot.seen = after, clock + HANDOFF
                    worker.job, worker.busy = None, False
                    done += workers is servers
        for workers, _, _, after in roles:  # take a ticket
            for worker in workers:
                if worker.job is None:
                    worker.job = next(tickets[after], None)
        for workers, before, meanwhile, _ in roles:  # start
            for worker in workers:
                if worker.job is None or worker.busy:
                    continue
                slot = ring[worker.job % slots]
                if slot.state != before or slot.seen > clock:
                    continue
                if workers is cooks:
                    slot.job, clocks = worker.job, produce[worker.job]
                else:
                    services.append((worker.job, slot.job))
                    clocks = CONSUME
                slot.state, worker.busy, worker.until = meanwhile, True, clock + clocks
        if done == len(produce):
            return services
    raise RuntimeError("nothing moves: the dishes are not served one by one")
