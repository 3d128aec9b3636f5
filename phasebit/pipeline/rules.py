"""The specification of the pipeline: six rules that move it and the invariants that hold.

A rule belongs to a producer or to a consumer. It may fire when the worker is in the state
``before`` and its guard holds; firing it does what ``effect`` says and leaves the worker in
the state ``after``. In every clock each rule of the table, top to bottom, is offered to every
worker once. That is the whole machine: ``simulator.by_clocks`` executes exactly this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from phasebit.pipeline.states import Buffer, Doing, Slot, State, Worker


@dataclass(frozen=True)
class Rule:
    """One transition of one worker."""

    name: str
    role: str
    before: Doing
    after: Doing
    says: str
    """Guard and effect in words, for the table in the book."""
    guard: Callable[[State, Worker], bool]
    effect: Callable[[State, Worker], None]


# Which slot a worker that holds a ticket may use now, if any.


def empty_slot(state: State, worker: Worker) -> Buffer | None:
    """The slot that this waiting producer may fill, or None while it has to wait."""
    return _visible(state, worker, Slot.EMPTY)


def full_slot(state: State, worker: Worker) -> Buffer | None:
    """The slot that this waiting consumer may drain, or None while it has to wait."""
    return _visible(state, worker, Slot.FULL)


def _visible(state: State, worker: Worker, wanted: Slot) -> Buffer | None:
    assert worker.ticket is not None
    choice = state.slots
    if state.pipeline.order == "ring":
        choice = [state.slots[worker.ticket % state.pipeline.slots]]
    seen = [s for s in choice if s.state is wanted and s.seen_at <= state.clock]
    return min(seen, key=lambda s: (s.seen_at, s.job or 0, s.number), default=None)


# What the rules do.


def _finish_producing(state: State, worker: Worker) -> None:
    slot = state.slots[worker.slot]  # type: ignore[index]
    slot.state, slot.seen_at = Slot.FULL, state.clock + state.pipeline.see_full
    state.produced += 1


def _finish_consuming(state: State, worker: Worker) -> None:
    slot = state.slots[worker.slot]  # type: ignore[index]
    slot.state, slot.seen_at = Slot.EMPTY, state.clock + state.pipeline.see_empty
    slot.job = None
    state.consumed += 1


def _take_ticket(state: State, worker: Worker) -> None:
    worker.ticket, state.started = state.started, state.started + 1


def _claim(state: State, worker: Worker) -> None:
    worker.ticket, state.claimed = state.claimed, state.claimed + 1


def _start_producing(state: State, worker: Worker) -> None:
    slot = empty_slot(state, worker)
    assert slot is not None and worker.ticket is not None
    worker.job, worker.slot = worker.ticket, slot.number
    worker.until = state.clock + state.pipeline.produce_of(worker.job)
    slot.state, slot.job = Slot.FILLING, worker.job


def _start_consuming(state: State, worker: Worker) -> None:
    slot = full_slot(state, worker)
    assert slot is not None and slot.job is not None
    worker.job, worker.slot = slot.job, slot.number
    worker.until = state.clock + state.pipeline.consume_of(worker.job)
    slot.state = Slot.DRAINING


RULES: tuple[Rule, ...] = (
    Rule(
        "finish producing", "producer", Doing.PRODUCING, Doing.FREE,
        "its clocks are over: the slot becomes full",
        guard=lambda state, worker: worker.until == state.clock,
        effect=_finish_producing,
    ),
    Rule(
        "finish consuming", "consumer", Doing.CONSUMING, Doing.FREE,
        "its clocks are over: the slot becomes empty",
        guard=lambda state, worker: worker.until == state.clock,
        effect=_finish_consuming,
    ),
    Rule(
        "take a ticket", "producer", Doing.FREE, Doing.WAITING,
        "a job is left to start: take the next number",
        guard=lambda state, worker: state.started < state.jobs,
        effect=_take_ticket,
    ),
    Rule(
        "claim", "consumer", Doing.FREE, Doing.WAITING,
        "a job is left to claim: take the next number",
        guard=lambda state, worker: state.claimed < state.jobs,
        effect=_claim,
    ),
    Rule(
        "start producing", "producer", Doing.WAITING, Doing.PRODUCING,
        "it sees its slot empty: the slot is filling from now on",
        guard=lambda state, worker: empty_slot(state, worker) is not None,
        effect=_start_producing,
    ),
    Rule(
        "start consuming", "consumer", Doing.WAITING, Doing.CONSUMING,
        "it sees its slot full: the slot is draining from now on",
        guard=lambda state, worker: full_slot(state, worker) is not None,
        effect=_start_consuming,
    ),
)


# What must hold after every clock.


class InvariantBroken(AssertionError):
    """A run reached a state that the specification forbids; the message says where."""


def _exclusive(s: State) -> bool:
    used = [w.slot for w in s.producers if w.doing is Doing.PRODUCING]
    used += [w.slot for w in s.consumers if w.doing is Doing.CONSUMING]
    return len(used) == len(set(used))


def _count(state: State, slot: Slot) -> int:
    return sum(each.state is slot for each in state.slots)


def _working(workers: list[Worker], doing: Doing) -> int:
    return sum(each.doing is doing for each in workers)


INVARIANTS: dict[str, Callable[[State], bool]] = {
    "exclusive: no two workers work in one slot": _exclusive,
    "filling: as many slots are filling as producers are producing": lambda s: (
        _count(s, Slot.FILLING) == _working(s.producers, Doing.PRODUCING)
    ),
    "draining: as many slots are draining as consumers are consuming": lambda s: (
        _count(s, Slot.DRAINING) == _working(s.consumers, Doing.CONSUMING)
    ),
    "tickets: no more jobs are started than were asked for": lambda s: (
        max(s.started, s.claimed) <= s.jobs
    ),
    "conserved: a job produced is in a slot or was taken from it": lambda s: (
        s.produced == s.consumed + _count(s, Slot.FULL) + _count(s, Slot.DRAINING)
    ),
    "in time: nobody works past the end of the job": lambda s: all(
        w.until > s.clock
        for w in s.producers + s.consumers
        if w.doing in (Doing.PRODUCING, Doing.CONSUMING)
    ),
}


def broken(state: State) -> Iterator[str]:
    """Names of the invariants that do not hold in this state."""
    return (name for name, holds in INVARIANTS.items() if not holds(state))
