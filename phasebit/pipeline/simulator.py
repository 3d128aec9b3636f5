"""Two ways to run a pipeline that tell the same story.

``by_clocks`` executes the specification: it visits every clock, offers every rule to every
worker and checks every invariant. ``by_events`` never visits a clock in which nothing happens:
it asks of each job when its worker is free and when its slot is ready, and takes the later of
the two. ``simulate`` is the fast one; tests hold the two equal, event for event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush, heapreplace
from itertools import cycle, islice
from operator import itemgetter
from typing import NamedTuple

from phasebit.pipeline.ring_drawing import RingDrawing
from phasebit.pipeline.rules import RULES, InvariantBroken, Rule, broken
from phasebit.pipeline.states import Pipeline, State, Worker, whole
from phasebit.timeline import RING_LEGEND, Timeline

MOST_JOBS = 5_000_000
"""Of one simulation: about 2 GiB of memory."""


class Event(NamedTuple):
    """A rule that fired."""

    clock: int
    rule: str
    worker: int
    ticket: int
    job: int | None = None
    slot: int | None = None

    def __str__(self) -> str:
        role = "consumer" if self.rule in _CONSUMER_RULES else "producer"
        what = f"ticket {self.ticket}" if self.job is None else f"job {self.job}"
        where = "" if self.slot is None else f", slot {self.slot}"
        return f"clock {self.clock:>3}  {role} {self.worker}  {self.rule}  ({what}{where})"


_CONSUMER_RULES = {rule.name for rule in RULES if rule.role == "consumer"}


class Job(NamedTuple):
    """The life of one job: who, where, when. Times are clocks from the start of the run."""

    number: int
    slot: int
    producer: int
    ticket_at: int
    """When the producer was free and took the ticket."""
    fill: int
    """When filling began; it ended at ``filled``."""
    filled: int
    claim: int
    """Number of the consumer's claim (in ring order the job's own number)."""
    consumer: int
    claim_at: int
    drain: int
    """When draining began; it ended at ``drained``."""
    drained: int


@dataclass
class Simulation:
    """What happened: ``clocks`` in all, one ``Job`` each, the ``trace`` and the ``timeline``."""

    pipeline: Pipeline
    jobs: list[Job]
    clocks: int
    _trace: list[Event] | None = field(default=None, repr=False)

    @cached_property
    def trace(self) -> list[Event]:
        """Every rule that fired, in order."""
        return self._trace if self._trace is not None else _trace_of(self.jobs)

    @cached_property
    def timeline(self) -> Timeline:
        """The run as a picture: a row for each producer, slot and consumer."""
        return _timeline_of(self)

    def __str__(self) -> str:
        jobs, clocks = len(self.jobs), self.clocks
        return f"{jobs} job{'s'[: jobs != 1]} in {clocks} clocks"


def simulate(pipeline: Pipeline, jobs: int, *, by: str = "events") -> Simulation:
    """Run ``jobs`` jobs (at least 1) through the pipeline.

    ``by="events"`` is fast; ``by="clocks"`` executes the specification and checks its
    invariants in every clock. Both give the same ``Simulation``, which keeps every job: at most
    :data:`MOST_JOBS` of them. Raises ``TypeError`` or ``ValueError``.
    """
    jobs = whole("jobs", jobs, least=1)
    if jobs > MOST_JOBS:
        raise ValueError(
            f"jobs is {jobs}: a simulation keeps every job, give at most {MOST_JOBS:,}; "
            "steady_rate needs no more"
        )
    if by == "clocks":
        return by_clocks(pipeline, jobs)
    if by == "events":
        return by_events(pipeline, jobs)
    raise ValueError(f"by is {by!r}: give 'events' or 'clocks'")


# Clock by clock: the specification.


def step(state: State, rules: Sequence[Rule] = RULES) -> Iterator[Event]:
    """One clock: offer every rule to every worker, oldest ticket first."""
    for rule in rules:
        workers = state.producers if rule.role == "producer" else state.consumers
        for worker in sorted(workers, key=_age):
            if worker.doing is rule.before and rule.guard(state, worker):
                rule.effect(state, worker)
                worker.doing = rule.after
                assert worker.ticket is not None
                yield Event(
                    state.clock, rule.name, worker.number, worker.ticket, worker.job, worker.slot
                )
                if rule.after.value == "free":
                    worker.ticket = worker.job = worker.slot = None


def by_clocks(
    pipeline: Pipeline, jobs: int, rules: Sequence[Rule] = RULES, *, check: bool = True
) -> Simulation:
    """Run by executing ``rules``, clock by clock, until every job is consumed.

    Raises ``InvariantBroken`` in the first clock after which an invariant does not hold, and
    ``RuntimeError`` when nobody can ever move again.
    """
    state, trace = State(pipeline, jobs), []
    while True:
        fired = list(step(state, rules))
        trace += fired
        if check and (names := list(broken(state))):
            raise InvariantBroken(
                f"clock {state.clock}: invariant broken: {names[0]} "
                f"(asked for {state.jobs}, started {state.started}, claimed {state.claimed}, "
                f"consumed {state.consumed})"
            )
        if state.done:
            return Simulation(pipeline, _jobs_of(trace), state.clock, trace)
        if not fired and not _more_to_come(state):
            raise RuntimeError(
                f"clock {state.clock}: stuck with {state.consumed} of {jobs} jobs consumed, "
                "nobody works and no rule can fire: compare the guards with phasebit.pipeline.RULES"
            )
        state.clock += 1


def _age(worker: Worker) -> tuple[int, int]:
    return (-1 if worker.ticket is None else worker.ticket, worker.number)


def _more_to_come(state: State) -> bool:
    due = [w.until for w in state.producers + state.consumers]
    return max(due + [s.seen_at for s in state.slots]) > state.clock


def _jobs_of(trace: list[Event]) -> list[Job]:
    ticket_at, claim_at, life = {}, {}, {}
    for event in trace:
        if event.rule == "take a ticket":
            ticket_at[event.ticket] = event.clock
        elif event.rule == "claim":
            claim_at[event.ticket] = event.clock
        else:
            life[event.job, event.rule] = event
    done = sorted(job for job, rule in life if rule == "finish consuming")  # type: ignore[type-var]
    jobs = []
    for job in done:
        fill, drain = life[job, "start producing"], life[job, "start consuming"]
        assert job is not None and fill.slot is not None
        jobs.append(
            Job(
                job, fill.slot,
                fill.worker, ticket_at[job], fill.clock, life[job, "finish producing"].clock,
                drain.ticket, drain.worker, claim_at[drain.ticket], drain.clock,
                life[job, "finish consuming"].clock,
            )
        )
    return jobs


# From event to event.


def by_events(pipeline: Pipeline, jobs: int) -> Simulation:
    """The same run without visiting the clocks in which nothing happens."""
    engine = _ring if pipeline.order == "ring" else _any
    lives = list(engine(pipeline, jobs))
    lives.sort()
    return Simulation(pipeline, lives, max(map(itemgetter(10), lives)))


def latencies(pipeline: Pipeline, jobs: int) -> tuple[list[int], list[int]]:
    """Clocks of producing and of consuming, one number a job."""
    produce, consume = (
        [each] if isinstance(each, int) else each for each in (pipeline.produce, pipeline.consume)
    )
    return list(islice(cycle(produce), jobs)), list(islice(cycle(consume), jobs))


def _ring(pipeline: Pipeline, jobs: int) -> Iterator[Job]:
    """Job i waits for a free producer and for job i - slots to have left slot i % slots."""
    slots, see_full, see_empty = pipeline.slots, pipeline.see_full, pipeline.see_empty
    producers = [(0, n) for n in range(pipeline.producers)]  # (free at, number), a heap
    consumers = [(0, n) for n in range(pipeline.consumers)]
    empty = [0] * slots  # when a producer can see the slot empty
    for i, (produce, consume) in enumerate(zip(*latencies(pipeline, jobs), strict=True)):
        slot = i % slots
        ticket_at, producer = producers[0]
        fill = empty[slot]
        if fill < ticket_at:
            fill = ticket_at
        filled = fill + produce
        heapreplace(producers, (filled, producer))

        claim_at, consumer = consumers[0]
        drain = filled + see_full
        if drain < claim_at:
            drain = claim_at
        drained = drain + consume
        heapreplace(consumers, (drained, consumer))

        empty[slot] = drained + see_empty
        yield Job(
            i, slot, producer, ticket_at, fill, filled,
            i, consumer, claim_at, drain, drained,
        )


def _any(pipeline: Pipeline, jobs: int) -> Iterator[Job]:
    """Whoever can start first does: four queues, each sorted by when its head is available."""
    produce, consume = latencies(pipeline, jobs)
    producers = [(0, n) for n in range(pipeline.producers)]
    consumers = [(0, n) for n in range(pipeline.consumers)]
    empty = [(0, n) for n in range(pipeline.slots)]  # (seen at, slot)
    full: list[tuple[int, int, int]] = []  # (seen at, job, slot)
    inside: dict[int, tuple[int, int, int, int]] = {}  # job -> the first half of its life
    started = claimed = 0
    while claimed < jobs:
        start = max(producers[0][0], empty[0][0]) if started < jobs and empty else None
        if full and (start is None or max(consumers[0][0], full[0][0]) <= start):
            seen_at, job, slot = heappop(full)
            claim_at, consumer = consumers[0]
            producer, ticket_at, fill, filled = inside.pop(job)
            drain = max(claim_at, seen_at)
            drained = drain + consume[job]
            heapreplace(consumers, (drained, consumer))
            heappush(empty, (drained + pipeline.see_empty, slot))
            yield Job(
                job, slot, producer, ticket_at, fill, filled,
                claimed, consumer, claim_at, drain, drained,
            )
            claimed += 1
        else:
            assert start is not None
            _, slot = heappop(empty)
            ticket_at, producer = producers[0]
            filled = start + produce[started]
            heapreplace(producers, (filled, producer))
            heappush(full, (filled + pipeline.see_full, started, slot))
            inside[started] = (producer, ticket_at, start, filled)
            started += 1


def _trace_of(jobs: list[Job]) -> list[Event]:
    """The rules that fired, in the order in which the specification fires them."""
    ranked: list[tuple[int, int, int, Event]] = []
    for j in jobs:
        for rank, clock, worker, ticket, where in (
            (0, j.filled, j.producer, j.number, (j.number, j.slot)),
            (1, j.drained, j.consumer, j.claim, (j.number, j.slot)),
            (2, j.ticket_at, j.producer, j.number, ()),
            (3, j.claim_at, j.consumer, j.claim, ()),
            (4, j.fill, j.producer, j.number, (j.number, j.slot)),
            (5, j.drain, j.consumer, j.claim, (j.number, j.slot)),
        ):
            event = Event(clock, RULES[rank].name, worker, ticket, *where)
            ranked.append((clock, rank, ticket, event))
    ranked.sort(key=itemgetter(0, 1, 2))
    return [event for *_, event in ranked]


# The picture.


def _timeline_of(run: Simulation) -> Timeline:
    see = run.pipeline.see_full, run.pipeline.see_empty
    drawing = RingDrawing()
    for j in run.jobs:
        label, slot = str(j.number), f"slot {j.slot}"
        who = f"producer {j.producer}", f"consumer {j.consumer}"
        drawing.work(who[0], j.ticket_at, j.fill, j.filled, "produce", label, slot)
        drawing.turn(slot, j.fill, j.filled, j.drain, j.drained, label, *see)
        drawing.work(who[1], j.claim_at, j.drain, j.drained, "consume", label, slot)
    rows = [
        f"{role} {n}"
        for role, many in (
            ("producer", run.pipeline.producers),
            ("slot", run.pipeline.slots),
            ("consumer", run.pipeline.consumers),
        )
        for n in range(many)
    ]
    return Timeline(
        rows, drawing.spans, unit="clock",
        title=f"{run}: {run.pipeline.in_words}",
        legend=RING_LEGEND,
    )
