"""Every interleaving of a small system of threads, slots and barriers.

A *program* is a generator that yields steps, so that it reads like the CUDA it
will become:

    def producer(ring):
        stage, phase = 0, 0
        for i in range(ring.steps):
            yield wait(ring.empty[stage], phase ^ 1)
            yield from fill(stage, item=i)
            yield arrive(ring.full[stage])
            stage, phase = advance(stage, phase, ring.stages)

Programs do not branch on what they read, so each is unrolled once into a list
of steps. A *state* is then how far each thread is, what the barriers hold, what
the slots hold, and which asynchronous copies are in flight. :func:`explore`
visits every state that some interleaving reaches, nearest first, so the first
failure that it meets has a shortest run.

A step is atomic. Filling a slot and reading it take two steps each, begin and
end, so that others can come between. Waiting is one step that can be taken only
when the barrier lets the waiter through: a spinning loop that fails to get
through changes nothing, so its rounds need not be told apart. Memory is
sequentially consistent here: a run is one sequence of steps that all agree on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeVar

from phasebit.mbarrier import Mbarrier, MbarrierError, Snapshot


class Step(NamedTuple):
    """One atomic step of a program: what it does, on which barrier, slot or cell.

    Made by the functions below (:func:`wait`, :func:`arrive`, …), not by hand.
    """

    do: str
    on: str | int
    value: int = 0
    item: int = 0
    part: int = 0
    signals: str = ""

    def __str__(self) -> str:
        match self.do:
            case "wait":
                return f"wait {self.on} parity {self.value}"
            case "arrive" | "arrive_drop":
                return f"{self.do} {self.on}" + (f" ({self.value})" if self.value != 1 else "")
            case "expect_tx" | "arrive_expect_tx":
                return f"{self.do} {self.on} {self.value} B"
            case "fill":
                return f"fill slot {self.on} with item {self.item}"
            case "filled":
                return f"slot {self.on} filled"
            case "read":
                return f"read slot {self.on}"
            case "done":
                return f"slot {self.on} read"
            case "copy":
                return f"start copy of item {self.item} to slot {self.on}"
            case "land":
                return f"item {self.item} lands in slot {self.on}"
            case "add":
                return f"{self.on} {self.value:+d}"
            case "store":
                return f"{self.on} = {self.value}"
            case relation:  # until
                return f"until {self.on} {relation} {self.value}"


# The vocabulary of programs


def wait(barrier: str, parity: int) -> Step:
    """Wait until the phase of this parity has completed (``test_wait.parity`` in a loop)."""
    return Step("wait", barrier, parity)


def arrive(barrier: str, count: int = 1) -> Step:
    """Arrive on a barrier ``count`` times at once."""
    return Step("arrive", barrier, count)


def arrive_drop(barrier: str, count: int = 1) -> Step:
    """Arrive, and be expected no more in later phases."""
    return Step("arrive_drop", barrier, count)


def expect_tx(barrier: str, nbytes: int) -> Step:
    """Tell a barrier that ``nbytes`` more will be copied in this phase."""
    return Step("expect_tx", barrier, nbytes)


def arrive_expect_tx(barrier: str, nbytes: int) -> Step:
    """Expect ``nbytes`` more in this phase, and arrive."""
    return Step("arrive_expect_tx", barrier, nbytes)


def fill(slot: int, item: int, part: int = 0) -> Iterator[Step]:
    """Write ``item`` into (one part of) a slot: two steps, begin and end."""
    yield Step("fill", slot, item=item, part=part)
    yield Step("filled", slot, item=item, part=part)


def read(slot: int) -> Iterator[Step]:
    """Read all of a slot: two steps. A thread's n-th read (from 0) must find item n."""
    yield Step("read", slot)
    yield Step("done", slot)


def copy(slot: int, item: int, barrier: str, nbytes: int, part: int = 0) -> Step:
    """Start an asynchronous copy; when it lands, some time later, it completes ``nbytes``."""
    return Step("copy", slot, nbytes, item, part, barrier)


def until(cell: str, relation: str, value: int) -> Step:
    """Spin until a plain shared variable compares so; ``relation`` is ``==``, ``!=``, ``>``, …"""
    if relation not in _RELATIONS:
        raise ValueError(f"until({cell!r}, {relation!r}, …): use one of {' '.join(_RELATIONS)}")
    return Step(relation, cell, value)


def store(cell: str, value: int) -> Step:
    """Write a plain shared variable."""
    return Step("store", cell, value)


def add(cell: str, value: int) -> Step:
    """Add to a shared variable, atomically."""
    return Step("add", cell, value)


_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ON_BARRIER = {"wait", "arrive", "arrive_drop", "expect_tx", "arrive_expect_tx"}
_ON_SLOT = {"fill", "filled", "read", "done", "copy"}

COPY_ENGINE = "copy engine"
"""The agent that lands asynchronous copies, as it is named in runs."""


@dataclass(frozen=True)
class System:
    """Threads with their programs, and what they share.

    ``threads``: name -> program. ``barriers``: name -> count, initialised
    before any thread starts. ``slots`` are numbered from 0; each consists of
    ``parts`` that are filled separately. Every thread that reads must read
    items 0 … ``items`` - 1, each once, in order. ``cells``: plain shared
    variables and their first values.

    Raises :class:`ValueError` when a program names something that does not exist.
    """

    threads: Mapping[str, Iterable[Step]]
    slots: int
    items: int
    barriers: Mapping[str, int] = field(default_factory=dict)
    parts: int = 1
    cells: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        unrolled = {name: tuple(program) for name, program in self.threads.items()}
        object.__setattr__(self, "threads", unrolled)
        for name, steps in unrolled.items():
            for number, step in enumerate(steps):
                problem = self._problem(step)
                if problem:
                    raise ValueError(f"{name}, step {number} ({step}): {problem}")

    def _problem(self, step: Step) -> str:
        barrier = step.signals if step.do == "copy" else step.on
        if (step.do in _ON_BARRIER or step.do == "copy") and barrier not in self.barriers:
            return f"no barrier {barrier!r}; there are {', '.join(self.barriers) or 'none'}"
        if step.do in _ON_SLOT:
            if step.on not in range(self.slots):
                return f"no slot {step.on}; there are slots 0 to {self.slots - 1}"
            if step.part not in range(self.parts):
                return f"no part {step.part}; a slot has parts 0 to {self.parts - 1}"
        elif step.do not in _ON_BARRIER and step.on not in self.cells:
            return f"no shared variable {step.on!r}; there are {', '.join(self.cells) or 'none'}"
        return ""


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


@dataclass(frozen=True)
class Failure:
    """A run that fails; no run of fewer steps does.

    ``run``: the steps taken, the offending one included. ``waiting``: for a
    deadlock, who waits for what.
    """

    kind: Kind
    what: str
    run: tuple[Event, ...]
    waiting: tuple[Blocked, ...] = ()

    def __str__(self) -> str:
        steps = "1 step" if len(self.run) == 1 else f"{len(self.run)} steps"
        lines = [f"{self.kind.value}, after {steps}: {self.what}"]
        lines += [f"  {b.thread} {b.why}" for b in self.waiting]
        return "\n".join(lines)


@dataclass(frozen=True)
class Exploration:
    """What :func:`explore` found.

    ``states``: different states seen. ``schedules``: complete interleavings that
    those states stand for (counted only when nothing failed). ``failure``: a
    failing run of the fewest steps, or None when no interleaving fails.
    """

    system: System
    states: int
    schedules: int
    failure: Failure | None

    @property
    def clean(self) -> bool:
        """No interleaving fails."""
        return self.failure is None

    def __str__(self) -> str:
        if self.failure is None:
            return f"clean: {self.states:,} states, {self.schedules:,} interleavings"
        return f"{self.failure}\n  ({self.states:,} states seen)"


class StateLimitError(RuntimeError):
    """The system has more states than the caller allowed."""


def explore(system: System, limit: int = 1_000_000) -> Exploration:
    """Visit every state that some interleaving of ``system`` can reach, nearest first.

    Each step takes the system one level further from its start and none leads
    back, so the search goes level by level and a run's length is its level.
    Raises :class:`StateLimitError` when more than ``limit`` states are seen.
    """
    machine = _Machine(system)
    came_from: dict[_State, tuple[_State, Event] | None] = {machine.start: None}
    level = {machine.start: 1}  # state -> number of interleavings that lead to it
    schedules = 0

    def run_to(state: _State) -> tuple[Event, ...]:
        events = []
        while (origin := came_from[state]) is not None:
            state, event = origin
            events.append(event)
        return tuple(reversed(events))

    while level:
        following: dict[_State, int] = {}
        broken: Failure | None = None
        for state, ways in level.items():
            stuck = True
            for event, who in machine.moves(state):
                stuck = False
                try:
                    after = machine.take(state, event.step, who)
                except _Broken as problem:
                    if broken is None:
                        broken = Failure(problem.kind, problem.what, (*run_to(state), event))
                    continue
                if after not in came_from:
                    came_from[after] = (state, event)
                following[after] = following.get(after, 0) + ways
            if stuck:
                failure = machine.verdict(state, run_to(state))
                if failure is not None:
                    return Exploration(system, len(came_from), 0, failure)
                schedules += ways
        if broken is not None:
            return Exploration(system, len(came_from), 0, broken)
        if len(came_from) > limit:
            raise StateLimitError(
                f"more than {limit:,} states: explore a smaller system, or raise the limit"
            )
        level = following
    return Exploration(system, len(came_from), schedules, None)


class _Broken(Exception):
    """This step breaks a rule."""

    def __init__(self, kind: Kind, what: str) -> None:
        super().__init__(what)
        self.kind = kind
        self.what = what


class _Part(NamedTuple):
    """One part of a slot: its item (-1: never filled), filled?, who has yet to read it."""

    item: int
    filled: bool
    unread: int  # one bit a reader


class _State(NamedTuple):
    at: tuple[int, ...]  # per thread: the number of steps taken
    barriers: tuple[Snapshot, ...]
    parts: tuple[_Part, ...]  # slot * parts + part
    flight: tuple[Step, ...]  # asynchronous copies that have not landed, sorted
    cells: tuple[int, ...]


_T = TypeVar("_T")


def _put(values: tuple[_T, ...], index: int, value: _T) -> tuple[_T, ...]:
    """``values`` with one of them replaced."""
    return (*values[:index], value, *values[index + 1 :])


class _Machine:
    """The rules: which steps a state allows, and what each makes of it."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.names = tuple(system.threads)
        self.programs = tuple(tuple(program) for program in system.threads.values())
        self.barrier_index = {name: i for i, name in enumerate(system.barriers)}
        self.cell_index = {name: i for i, name in enumerate(system.cells)}
        self.readers = [
            t for t, steps in enumerate(self.programs) if any(s.do == "read" for s in steps)
        ]
        self.everyone = sum(1 << t for t in self.readers)
        self.due = tuple(_items_due(steps) for steps in self.programs)
        self.signals: dict[tuple[Snapshot, Step], Snapshot | None] = {}
        barriers = [Mbarrier(count, name=name) for name, count in system.barriers.items()]
        self.start = _State(
            at=(0,) * len(self.names),
            barriers=tuple(barrier.snapshot() for barrier in barriers),
            parts=(_Part(-1, True, 0),) * (system.slots * system.parts),
            flight=(),
            cells=tuple(system.cells.values()),
        )

    def moves(self, state: _State) -> Iterator[tuple[Event, int]]:
        """Each step that can be taken in ``state``, with the number of its thread or copy."""
        for thread, at in enumerate(state.at):
            if at < len(self.programs[thread]):
                step = self.programs[thread][at]
                if self.passes(state, step):
                    yield Event(self.names[thread], step), thread
        for number, step in enumerate(state.flight):
            yield Event(COPY_ENGINE, step._replace(do="land")), number

    def passes(self, state: _State, step: Step) -> bool:
        """Whether a waiting step is let through; other steps always are."""
        if step.do == "wait":
            return self.signal(state, step) is not None
        if step.do in _RELATIONS:
            cell = state.cells[self.cell_index[str(step.on)]]
            return _RELATIONS[step.do](cell, step.value)
        return True

    def take(self, state: _State, step: Step, thread: int) -> _State:
        """The state after a step of :meth:`moves`; raises :class:`_Broken`."""
        if step.do == "land":
            return self.land(state, thread, step)
        state = state._replace(at=_put(state.at, thread, state.at[thread] + 1))
        if step.do in _ON_BARRIER:
            return self.signalled(state, step)
        if step.do in _ON_SLOT:
            if step.do == "read" or step.do == "done":
                return self.read(state, thread, step)
            return self.fill(state, step)
        if step.do == "store" or step.do == "add":
            index = self.cell_index[str(step.on)]
            before = state.cells[index] if step.do == "add" else 0
            return state._replace(cells=_put(state.cells, index, before + step.value))
        return state  # until: it has passed

    def fill(self, state: _State, step: Step) -> _State:
        """Begin or end filling a part, or start the copy that will fill it."""
        index = int(step.on) * self.system.parts + step.part
        part = state.parts[index]
        if step.do == "filled":
            return state._replace(
                parts=_put(state.parts, index, _Part(step.item, True, self.everyone))
            )
        if not part.filled:
            raise _Broken(
                Kind.OVERWRITTEN, f"slot {step.on} is being filled already, with item {part.item}"
            )
        if part.unread:
            raise _Broken(Kind.OVERWRITTEN, self.why_unread(state, step, part))
        parts = _put(state.parts, index, _Part(step.item, False, 0))
        if step.do == "copy":
            flight = tuple(sorted((*state.flight, step)))
            return state._replace(parts=parts, flight=flight)
        return state._replace(parts=parts)

    def why_unread(self, state: _State, step: Step, part: _Part) -> str:
        late = [t for t in self.readers if part.unread >> t & 1]
        reading = [t for t in late if self.is_reading(state, t, step.on)]
        who = " and ".join(self.names[t] for t in reading or late)
        verb = ("are" if len(reading) > 1 else "is") + " reading it"
        if not reading:
            verb = "have not read it" if len(late) > 1 else "has not read it"
        return f"item {step.item} goes into slot {step.on} over item {part.item}, and {who} {verb}"

    def is_reading(self, state: _State, thread: int, slot: str | int) -> bool:
        """Whether ``thread`` is between the begin and the end of a read of ``slot``."""
        for step in self.programs[thread][state.at[thread] :]:
            if step.do == "read":
                return False
            if step.do == "done":
                return step.on == slot
        return False

    def read(self, state: _State, thread: int, step: Step) -> _State:
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
                raise _Broken(
                    Kind.READ_TOO_EARLY,
                    f"{self.names[thread]} reads {self.part_of(step, index)} while item {item} "
                    "is being written into it",
                )
            if item < 0:
                raise _Broken(
                    Kind.READ_TOO_EARLY,
                    f"{self.names[thread]} reads {self.part_of(step, index)} before anything "
                    "was written into it",
                )
            if item != due or not unread >> thread & 1:
                again = " again" if item < due else ""
                raise _Broken(
                    Kind.WRONG_ITEM,
                    f"{self.names[thread]} reads item {item}{again} from slot {step.on}; "
                    f"item {due} was due",
                )
        return state

    def part_of(self, step: Step, index: int) -> str:
        if self.system.parts == 1:
            return f"slot {step.on}"
        return f"part {index % self.system.parts} of slot {step.on}"

    def land(self, state: _State, number: int, landing: Step) -> _State:
        """An asynchronous copy has written its part and completes its bytes."""
        state = self.fill(state, landing._replace(do="filled"))
        state = state._replace(flight=state.flight[:number] + state.flight[number + 1 :])
        return self.signalled(state, Step("complete_tx", landing.signals, landing.value))

    def signalled(self, state: _State, step: Step) -> _State:
        """The state after an operation on a barrier."""
        try:
            after = self.signal(state, step)
        except MbarrierError as error:
            raise _Broken(Kind.MISUSE, str(error)) from None
        assert after is not None, "a wait is taken only when it passes"
        index = self.barrier_index[str(step.on)]
        return state._replace(barriers=_put(state.barriers, index, after))

    def signal(self, state: _State, step: Step) -> Snapshot | None:
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

    def verdict(self, state: _State, run: tuple[Event, ...]) -> Failure | None:
        """What is wrong with a state in which no step is left to take, if anything."""
        waiting = tuple(
            Blocked(self.names[t], self.programs[t][at], self.why_blocked(state, t))
            for t, at in enumerate(state.at)
            if at < len(self.programs[t])
        )
        if waiting:
            who = " and ".join(b.thread for b in waiting)
            for_ever = "waits for ever" if len(waiting) == 1 else "wait for ever"
            return Failure(Kind.DEADLOCK, f"{who} {for_ever}", run, waiting)
        for t in self.readers:
            reads = sum(step.do == "read" for step in self.programs[t])
            if reads < self.system.items:
                return Failure(Kind.LOST, f"{self.names[t]} never reads item {reads}", run)
        return None

    def why_blocked(self, state: _State, thread: int) -> str:
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

    def helpers(self, state: _State, step: Step) -> str:
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
