"""The rules of a small system: what a state is, which steps it allows, what each makes of it.

A *state* is how far each thread is, what the barriers and the slots hold, and
which asynchronous copies are in flight. It is one hashable tuple. Memory is
sequentially consistent here: a run is one sequence of steps that all agree on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from phasebit.mbarrier import Mbarrier, MbarrierError, Snapshot
from phasebit.pipeline.steps import ON_BARRIER, ON_SLOT, RELATIONS, Step, System

COPY_ENGINE = "copy engine"
"""The agent that lands asynchronous copies, as it is named in runs."""


class Kind(Enum):
    """The ways in which a run can fail."""

    READ_TOO_EARLY = "a slot is read before it is full"
    OVERWRITTEN = "a slot is overwritten before it is read"
    WRONG_ITEM = "the wrong item is read"
    LOST = "an item is never read"
    DEADLOCK = "deadlock"
    MISUSE = "a barrier is misused"


class Event(NamedTuple):
    """One step of a run, and the thread (or the copy engine) that took it."""

    thread: str
    step: Step

    def __str__(self) -> str:
        return f"{self.thread}: {self.step}"


class Blocked(NamedTuple):
    """A thread that cannot go on: at which step, and in words what it waits for."""

    thread: str
    step: Step
    why: str


class Failure(NamedTuple):
    """How a run fails: the kind, in words what happened, and for a deadlock who waits for what.

    ``who`` is the thread that ended without a read that it owed.
    """

    kind: Kind
    what: str
    waiting: tuple[Blocked, ...] = ()
    who: str = ""


class Broken(Exception):
    """This step breaks a rule."""

    def __init__(self, kind: Kind, what: str) -> None:
        super().__init__(what)
        self.failure = Failure(kind, what)


class Part(NamedTuple):
    """One part of a slot: its item (-1: never filled), filled?, who has yet to read it."""

    item: int
    filled: bool
    unread: int  # one bit a reader


class State(NamedTuple):
    at: tuple[int, ...]  # per thread: the number of steps taken
    barriers: tuple[Snapshot, ...]
    parts: tuple[Part, ...]  # slot * parts + part
    flight: tuple[Step, ...]  # asynchronous copies that have not landed, sorted
    cells: tuple[int, ...]


_T = TypeVar("_T")


def _put(values: tuple[_T, ...], index: int, value: _T) -> tuple[_T, ...]:
    """``values`` with one of them replaced."""
    return (*values[:index], value, *values[index + 1 :])


class Machine:
    """The rules: which steps a state allows, and what each makes of it."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.names = tuple(system.threads)
        self.programs = tuple(tuple(program) for program in system.threads.values())
        self.barrier_index = {name: i for i, name in enumerate(system.barriers)}
        self.cell_index = {name: i for i, name in enumerate(system.cells)}
        self.readers = [self.names.index(name) for name in system.readers or ()]
        self.everyone = sum(1 << t for t in self.readers)
        self.due = tuple(_items_due(steps) for steps in self.programs)
        self.signals: dict[tuple[Snapshot, Step], Snapshot | None] = {}
        barriers = [Mbarrier(count, name=name) for name, count in system.barriers.items()]
        self.start = State(
            at=(0,) * len(self.names),
            barriers=tuple(barrier.snapshot() for barrier in barriers),
            parts=(Part(-1, True, 0),) * (system.slots * system.parts),
            flight=(),
            cells=tuple(system.cells.values()),
        )

    def possible(self, state: State) -> Iterator[tuple[Event, int]]:
        """Each step that can be taken in ``state``, with the number of its thread or copy."""
        for thread, at in enumerate(state.at):
            if at < len(self.programs[thread]):
                step = self.programs[thread][at]
                if self.passes(state, step):
                    yield Event(self.names[thread], step), thread
        for number, step in enumerate(state.flight):
            yield Event(COPY_ENGINE, step._replace(do="land")), number

    def passes(self, state: State, step: Step) -> bool:
        """Whether a waiting step is let through; other steps always are."""
        if step.do == "wait":
            return self.signal(state, step) is not None
        if step.do in RELATIONS:
            cell = state.cells[self.cell_index[str(step.on)]]
            return RELATIONS[step.do](cell, step.value)
        return True

    def take(self, state: State, step: Step, thread: int) -> State:
        """The state after a step of :meth:`possible`; raises :class:`Broken`."""
        if step.do == "land":
            return self.land(state, thread, step)
        state = state._replace(at=_put(state.at, thread, state.at[thread] + 1))
        if step.do in ON_BARRIER:
            return self.signalled(state, step)
        if step.do in ON_SLOT:
            if step.do == "read" or step.do == "done":
                return self.read(state, thread, step)
            return self.fill(state, step)
        if step.do == "store" or step.do == "add":
            index = self.cell_index[str(step.on)]
            before = state.cells[index] if step.do == "add" else 0
            return state._replace(cells=_put(state.cells, index, before + step.value))
        return state  # until: it has passed

    def fill(self, state: State, step: Step) -> State:
        """Begin or end filling a part, or start the copy that will fill it."""
        index = int(step.on) * self.system.parts + step.part
        part = state.parts[index]
        if step.do == "filled":
            return state._replace(
                parts=_put(state.parts, index, Part(step.item, True, self.everyone))
            )
        if not part.filled:
            raise Broken(
                Kind.OVERWRITTEN, f"slot {step.on} is being filled already, with item {part.item}"
            )
        if part.unread:
            raise self.over_unread(state, step, part)
        parts = _put(state.parts, index, Part(step.item, False, 0))
        if step.do == "copy":
            flight = tuple(sorted((*state.flight, step)))
            return state._replace(parts=parts, flight=flight)
        return state._replace(parts=parts)

    def over_unread(self, state: State, step: Step, part: Part) -> Broken:
        """An item that somebody has yet to read is filled over: too early, or they never would."""
        late = [t for t in self.readers if part.unread >> t & 1]
        reading = [t for t in late if self.is_reading(state, t, step.on)]
        never = [t for t in late if t not in reading and not self.will_read(state, t)]
        names = [self.names[t] for t in never or reading or late]
        many = len(names) > 1
        if never:
            kind, verb = Kind.LOST, "never read it" if many else "never reads it"
        elif reading:
            kind, verb = Kind.OVERWRITTEN, "are reading it" if many else "is reading it"
        else:
            kind, verb = Kind.OVERWRITTEN, "have not read it" if many else "has not read it"
        filled = f"item {step.item} goes into slot {step.on} over item {part.item}"
        return Broken(kind, f"{filled}, and {' and '.join(names)} {verb}")

    def will_read(self, state: State, thread: int) -> bool:
        """Whether ``thread`` has a read left to begin."""
        return any(step.do == "read" for step in self.programs[thread][state.at[thread] :])

    def is_reading(self, state: State, thread: int, slot: str | int) -> bool:
        """Whether ``thread`` is between the begin and the end of a read of ``slot``."""
        for step in self.programs[thread][state.at[thread] :]:
            if step.do == "read":
                return False
            if step.do == "done":
                return step.on == slot
        return False

    def read(self, state: State, thread: int, step: Step) -> State:
        """Begin or end a read of all parts of a slot."""
        first = int(step.on) * self.system.parts
        mine = range(first, first + self.system.parts)
        if step.do == "done":
            parts = list(state.parts)
            for index in mine:
                parts[index] = parts[index]._replace(unread=parts[index].unread & ~(1 << thread))
            return state._replace(parts=tuple(parts))
        due = self.due[thread][state.at[thread] - 1]
        for index in mine:
            item, filled, unread = state.parts[index]
            if not filled:
                raise Broken(
                    Kind.READ_TOO_EARLY,
                    f"{self.names[thread]} reads {self.part_of(step, index)} while item {item} "
                    "is being written into it",
                )
            if item < 0:
                raise Broken(
                    Kind.READ_TOO_EARLY,
                    f"{self.names[thread]} reads {self.part_of(step, index)} before anything "
                    "was written into it",
                )
            if item != due or not unread >> thread & 1:
                again = " again" if item < due else ""
                raise Broken(
                    Kind.WRONG_ITEM,
                    f"{self.names[thread]} reads item {item}{again} from slot {step.on}; "
                    f"item {due} was due",
                )
        return state

    def part_of(self, step: Step, index: int) -> str:
        if self.system.parts == 1:
            return f"slot {step.on}"
        return f"part {index % self.system.parts} of slot {step.on}"

    def land(self, state: State, number: int, landing: Step) -> State:
        """An asynchronous copy has written its part and completes its bytes."""
        state = self.fill(state, landing._replace(do="filled"))
        state = state._replace(flight=state.flight[:number] + state.flight[number + 1 :])
        return self.signalled(state, Step("complete_tx", landing.signals, landing.value))

    def signalled(self, state: State, step: Step) -> State:
        """The state after an operation on a barrier."""
        try:
            after = self.signal(state, step)
        except MbarrierError as error:
            what = f"{error.barrier}: {error.what} (PTX ISA {error.rule.section})"
            raise Broken(Kind.MISUSE, what) from None
        assert after is not None, "a wait is taken only when it passes"
        index = self.barrier_index[str(step.on)]
        return state._replace(barriers=_put(state.barriers, index, after))

    def signal(self, state: State, step: Step) -> Snapshot | None:
        """What a barrier becomes by an operation; None when a wait does not pass."""
        before = state.barriers[self.barrier_index[str(step.on)]]
        key = (before, step)
        if key not in self.signals:
            barrier = Mbarrier(name=str(step.on))
            barrier.restore(before)
            if step.do == "wait":
                passed = barrier.test_wait_parity(step.value)
                self.signals[key] = barrier.snapshot() if passed else None
            else:
                getattr(barrier, step.do)(step.value)
                self.signals[key] = barrier.snapshot()
        return self.signals[key]

    def verdict(self, state: State) -> Failure | None:
        """What is wrong with a state in which no step can be taken, if anything."""
        waiting = tuple(
            Blocked(self.names[t], self.programs[t][at], self.why_blocked(state, t))
            for t, at in enumerate(state.at)
            if at < len(self.programs[t])
        )
        if waiting:
            who = " and ".join(b.thread for b in waiting)
            for_ever = "waits for ever" if len(waiting) == 1 else "wait for ever"
            return Failure(Kind.DEADLOCK, f"{who} {for_ever}", waiting)
        for t in self.readers:
            reads = sum(step.do == "read" for step in self.programs[t])
            if reads < self.system.items:
                name = self.names[t]
                return Failure(Kind.LOST, f"{name} never reads item {reads}", who=name)
        return None

    def why_waits(self, state: State, step: Step) -> str:
        """What must come before a waiting step can be taken, from what it waits for on."""
        if step.do != "wait":
            return f"{step.on} {step.do} {step.value}"
        _, phase, pending, expected, tx, _ = state.barriers[self.barrier_index[str(step.on)]]
        missing = f"{pending} of {expected} arrivals missing" + (f", and {tx} bytes" if tx else "")
        return f"{step.on} to complete phase {phase}, of parity {step.value}: {missing}"

    def why_blocked(self, state: State, thread: int) -> str:
        step = self.programs[thread][state.at[thread]]
        if step.do != "wait":
            value = state.cells[self.cell_index[str(step.on)]]
            return f"waits {step}; it is {value}, and nobody is left to change it"
        _, phase, pending, expected, tx, _ = state.barriers[self.barrier_index[str(step.on)]]
        reasons = []
        if pending:
            reasons.append(f"{pending} of {expected} arrivals missing, {self.helpers(state, step)}")
        if tx:
            reasons.append(f"{tx} bytes outstanding, no copy is in flight")
        return (
            f"waits for parity {step.value} of {step.on}, which is in phase {phase}: "
            + "; ".join(reasons)
        )

    def helpers(self, state: State, step: Step) -> str:
        """Who could still arrive on the barrier that ``step`` waits for."""
        names = [
            self.names[t]
            for t, at in enumerate(state.at)
            if any(s.on == step.on and "arrive" in s.do for s in self.programs[t][at:])
        ]
        if not names:
            return "nobody is left who would arrive"
        return f"only {' and '.join(names)} could still arrive, after a wait that never ends"


def _items_due(steps: Sequence[Step]) -> tuple[int, ...]:
    """For each step of a thread, the number of reads it has begun before it."""
    due, reads = [], 0
    for step in steps:
        due.append(reads)
        reads += step.do == "read"
    return tuple(due)
