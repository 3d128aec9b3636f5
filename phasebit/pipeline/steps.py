"""Programs for small systems of threads, slots and barriers, one atomic step at a time.

A *program* is a generator that yields steps, so that it reads like the CUDA it
will become:

    def producer(ring):
        stage, phase = 0, 0
        for i in range(ring.items):
            yield wait(ring.empty[stage], phase ^ 1)
            yield from fill(stage, item=i)
            yield arrive(ring.full[stage])
            stage, phase = advance(stage, phase, ring.stages)

Programs do not branch on what they read, so each is unrolled once into a list
of steps. Filling a slot and reading it take two steps each, begin and end, so
that others can come between. Waiting is one step, taken when the barrier lets
the waiter through: a look that fails changes nothing, so the rounds of a
spinning loop need not be told apart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple


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
    if relation not in RELATIONS:
        raise ValueError(f"until({cell!r}, {relation!r}, …): use one of {' '.join(RELATIONS)}")
    return Step(relation, cell, value)


def store(cell: str, value: int) -> Step:
    """Write a plain shared variable."""
    return Step("store", cell, value)


def add(cell: str, value: int) -> Step:
    """Add to a shared variable, atomically."""
    return Step("add", cell, value)


def _is_read(step: object) -> bool:
    return isinstance(step, Step) and step.do == "read"


RELATIONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ON_BARRIER = {"wait", "arrive", "arrive_drop", "expect_tx", "arrive_expect_tx"}
ON_SLOT = {"fill", "filled", "read", "done", "copy"}

LONGEST = 10_000
"""The most steps that a program may have."""


@dataclass(frozen=True)
class System:
    """Threads with their programs, and what they share.

    ``threads``: name -> program. ``barriers``: name -> count, initialised
    before any thread starts. ``slots`` are numbered from 0; each consists of
    ``parts`` that are filled separately. ``cells``: plain shared variables and
    their first values. ``readers``: the threads that must read items 0 …
    ``items`` - 1, each once, in order. Without it they are the threads that
    read something, so name them where one might forget to.

    Raises :class:`ValueError` when a program names something that does not exist,
    or does not end, and :class:`TypeError` when it is no generator of steps.
    """

    threads: Mapping[str, Iterable[Step]]
    slots: int
    items: int
    barriers: Mapping[str, int] = field(default_factory=dict)
    parts: int = 1
    cells: Mapping[str, int] = field(default_factory=dict)
    readers: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, program in self.threads.items():
            if not isinstance(program, Iterable):
                raise TypeError(
                    f"{name}: a program is a generator of steps, not {type(program).__name__}; "
                    "write 'yield' before its steps"
                )
        unrolled = {n: tuple(islice(p, LONGEST + 1)) for n, p in self.threads.items()}
        object.__setattr__(self, "threads", unrolled)
        readers = self.readers
        if readers is None:
            readers = [n for n, steps in unrolled.items() if any(_is_read(s) for s in steps)]
        object.__setattr__(self, "readers", tuple(readers))
        for name in readers:
            if name not in unrolled:
                raise ValueError(f"no thread {name!r} to read; there are {', '.join(unrolled)}")
        for name, steps in unrolled.items():
            if len(steps) > LONGEST:
                raise ValueError(f"{name} has more than {LONGEST:,} steps: does its loop end?")
            for number, step in enumerate(steps):
                if not isinstance(step, Step):
                    raise ValueError(
                        f"{name}, step {number}: {type(step).__name__} is no step; "
                        "fill and read are two steps each: write 'yield from' before them"
                    )
                problem = self._problem(step)
                if problem:
                    raise ValueError(f"{name}, step {number} ({step}): {problem}")

    def _problem(self, step: Step) -> str:
        barrier = step.signals if step.do == "copy" else step.on
        if (step.do in ON_BARRIER or step.do == "copy") and barrier not in self.barriers:
            return f"no barrier {barrier!r}; there are {', '.join(self.barriers) or 'none'}"
        if step.do in ON_SLOT:
            if step.on not in range(self.slots):
                return f"no slot {step.on}; there are slots 0 to {self.slots - 1}"
            if step.part not in range(self.parts):
                return f"no part {step.part}; a slot has parts 0 to {self.parts - 1}"
        elif step.do not in ON_BARRIER and step.on not in self.cells:
            return f"no shared variable {step.on!r}; there are {', '.join(self.cells) or 'none'}"
        return ""
