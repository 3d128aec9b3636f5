"""Multiplications under way: what ``wgmma.mma_async`` leaves behind when it returns.

Its accumulators are registers, and registers here are arrays that nobody changes.  The
accumulators of a multiplication under way are the exception: their values share one *buffer*, and
the tensor core writes it when the schedule says so, at the latest when the warp group waits.
Until then the registers hold what they held before.

The program may hand such values on meanwhile: a ``mov`` gives them another name, a branch
divides the threads, a join brings them together.  A name needs nothing; the copies that the last
two make are *followers* of the buffer and are written after it.

A register may not be looked at before ``wgmma.wait_group`` has said that it is ready; so buffers
are remembered until the last of their threads has waited, written or not.

Source: PTX ISA 9.7.15 (asynchronous warp group level matrix instructions).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from phasebit.emulator.machine.agents import Agent
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core.wgmma_tiles import SIZE, Tile


class WarpGroupObserver:
    """Events of ``wgmma``, and of the registers that it works on; see ``machine.events``.

    Registers are known by their numbers; ``access`` is the number of the instruction.
    """

    def fences_registers(self, g: Group) -> None:
        """``wgmma.fence``."""

    def begins_product(self, g: Group, classes: tuple[int, ...], access: int) -> None:
        """A multiplication is about to take registers of these classes."""

    def adds_to(
        self, batch: Batch, lanes: Array, registers: Array, kept: Array, access: int
    ) -> None:
        """The tensor core takes accumulators [register, thread], and adds to those ``kept``.

        That is when all before it is computed: the threads have gone on since the instruction.
        """

    def starts_product(self, g: Group, mma: Multiplication, tiles: Sequence[Tile]) -> None:
        """Warp groups begin to read tiles, a whole number of tiles for each."""

    def waited_for_product(self, mma: Multiplication, lanes: Array) -> None:
        """These threads have waited for a multiplication."""

    def looks_at(self, g: Group, values: tuple[Value, ...], access: int) -> None:
        """Threads read registers that may be accumulators."""

    def changes(
        self, g: Group, before: dict[int, Value], classes: tuple[int, ...], access: int
    ) -> None:
        """Threads are about to compute registers of these classes, which hold ``before``."""


def begins_product(g: Group, classes: tuple[int, ...], access: int) -> None:
    """For the generated text: tell of the event."""
    for told in g.batch.machine.told[WarpGroupObserver.begins_product]:
        told(g, classes, access)


def looks_at(g: Group, values: tuple[Value, ...], access: int) -> None:
    """For the generated text: tell of the event."""
    for told in g.batch.machine.told[WarpGroupObserver.looks_at]:
        told(g, values, access)


def changes(g: Group, before: dict[int, Value], classes: tuple[int, ...], access: int) -> None:
    """For the generated text: tell of the event."""
    for told in g.batch.machine.told[WarpGroupObserver.changes]:
        told(g, before, classes, access)


class Multiplication(Agent):
    """One ``wgmma.mma_async`` of one warp group or several that execute it together."""

    def __init__(
        self, batch: Batch, lanes: Array, buffer: Array, before: Sequence[Value] | None,
        compute: Callable[[Array], None], number: Array, instruction: Instruction | None,
    ) -> None:  # fmt: skip
        super().__init__(batch, False)
        self.lanes = lanes
        self.buffer = buffer
        """The accumulators, uint32 [registers, threads]."""
        self.before = before
        """The values that they had when it began; ``None`` where the buffer holds them."""
        self.compute = compute
        """Replaces the accumulators by the result."""
        self.number = number
        """The commit group of each thread."""
        self.pending = np.ones(len(lanes), bool)
        """Threads that have not waited yet."""
        self.instruction = instruction
        self.started = batch.machine.now

    def work(self) -> None:
        queue = self.batch.of(Queue)
        queue.finish_before(self)
        if self.before is not None:
            for row, value in zip(self.buffer, self.before, strict=True):
                row[:] = value
            self.before = None
        self.compute(self.buffer)
        queue.computed.add(id(self.buffer))
        queue.written(self.buffer)

    def pending_in(self, lanes: Array) -> bool:
        """Whether one of these threads has begun it and not waited."""
        return bool(np.isin(self.lanes[self.pending], lanes).any())


class Queue:
    """The multiplications of a batch, in the order in which they began."""

    def __init__(self, batch: Batch) -> None:
        self.under_way: list[Multiplication] = []
        self.closed = np.zeros(batch.lanes, np.int64)
        """How many groups each thread has committed."""
        self.owners: dict[int, tuple[Array, tuple[Multiplication, ...]]] = {}
        """Arrays whose content is not ready, by ``id``, and whose results they wait for."""
        self.inputs: dict[int, tuple[Array, tuple[Multiplication, ...]]] = {}
        """Arrays that hold fragments of A."""
        self.followers: dict[int, list[tuple[Array, Any, Array, Any]]] = {}
        """By the ``id`` of an array: parts of it that are copied to parts of others."""
        self.computed: set[int] = set()
        """Buffers, by ``id``, that hold a result: what they began with must not come again."""
        self.age: dict[int, int] = {}
        """In which order the ``owners`` were made: each follows older ones only."""
        self.forgotten = 0
        batch.keepers.append(self)

    # -- results --------------------------------------------------------------

    def add(self, mma: Multiplication, inputs: Sequence[Value]) -> None:
        self.under_way.append(mma)
        self._own(mma.buffer, (mma,))
        for row, before in zip(mma.buffer, mma.before or (), strict=False):
            if isinstance(before, np.ndarray):
                known = self.owners.get(id(owner(before)))
                if known is not None and not _done(known[1]):
                    mine = self.followers.setdefault(id(owner(before)), [])
                    mine.append((before, slice(None), row, slice(None)))
        for value in inputs:
            if isinstance(value, np.ndarray):
                self.inputs[id(owner(value))] = (owner(value), (mma,))

    def _own(self, array: Array, results: tuple[Multiplication, ...]) -> None:
        self.owners[id(array)] = (array, results)
        self.age.setdefault(id(array), len(self.age) + self.forgotten)

    def reusable(self, values: Sequence[Value], lanes: Array) -> Array | None:
        """The buffer whose rows these values are, in order, if it is under way already."""
        first = values[0]
        if not isinstance(first, np.ndarray):
            return None
        known = self.owners.get(id(owner(first)))
        if known is None:
            return None
        buffer, (mma, *others) = known
        if others or buffer is not mma.buffer or not np.array_equal(mma.lanes, lanes):
            return None
        if len(buffer) != len(values) or any(
            not isinstance(v, np.ndarray) or v.base is not buffer or _place(v) != _place(row)
            for v, row in zip(values, buffer, strict=True)
        ):
            return None
        return buffer

    def finish_before(self, mma: Multiplication) -> None:
        """A warp group's multiplications are executed in order."""
        for other in list(self.under_way):
            if other is mma:
                return
            if not other.done and np.isin(other.lanes, mma.lanes).any():
                other.finish()

    def written(self, array: Array) -> None:
        """An array has new content: copy it on, to those that were made first first."""
        waiting = [(self.age[id(array)], id(array))]
        seen = set(waiting)
        while waiting:
            for source, some, target, places in self.followers.get(heapq.heappop(waiting)[1], ()):
                key = id(owner(target))
                if key in self.computed or key not in self.age:  # or all have waited for it
                    continue
                target.view(np.uint32)[places] = source.view(np.uint32)[some]
                if (self.age[key], key) not in seen:
                    seen.add((self.age[key], key))
                    heapq.heappush(waiting, (self.age[key], key))

    def settle(self, lanes: Array, limit: Array, everything: int) -> None:
        """These threads wait for those of their groups below ``limit``."""
        bound = np.full(everything, -1, np.int64)
        bound[lanes] = limit
        kept = []
        for mma in self.under_way:
            due = mma.number < bound[mma.lanes]
            if due.any():
                mma.finish()
                mma.pending &= ~due
                for told in mma.batch.machine.told[WarpGroupObserver.waited_for_product]:
                    told(mma, mma.lanes[due])
            if mma.pending.any():
                kept.append(mma)
        self.under_way = kept
        for key in [k for k, (_, results) in self.inputs.items() if _over(results)]:
            del self.inputs[key]
        for key in [k for k, (_, results) in self.owners.items() if _over(results)]:
            del self.owners[key], self.age[key]
            self.followers.pop(key, None)
            self.computed.discard(key)
            self.forgotten += 1

    # -- copies of registers --------------------------------------------------

    def divide(self, old: list[Any], new: list[Any], live: Sequence[int], where: Array) -> None:
        """Threads at these positions have become a group of their own."""
        if not self.owners:
            return
        for index in live:
            value = old[index]
            if not isinstance(value, np.ndarray):
                continue
            known = self.owners.get(id(owner(value)))
            if known is not None:
                part = value.take(where)
                self._follow(value, where, part, slice(None), known[1])
                new[index] = part

    def join(
        self, files: Sequence[list[Any]], new: list[Any], live: Sequence[int],
        sizes: Sequence[int], order: Array | None,
    ) -> None:  # fmt: skip
        """Groups have become one."""
        if not self.owners:
            return
        ends = np.cumsum(sizes)
        at = np.arange(ends[-1])
        if order is not None:
            at[order] = np.arange(ends[-1])
        for index in live:
            for registers, end, size in zip(files, ends, sizes, strict=True):
                value = registers[index]
                if isinstance(value, np.ndarray):
                    known = self.owners.get(id(owner(value)))
                    if known is not None:
                        places = at[end - size : end]
                        self._follow(value, slice(None), new[index], places, known[1])

    def _follow(
        self, source: Array, some: Any, target: Array, places: Any,
        results: tuple[Multiplication, ...],
    ) -> None:  # fmt: skip
        _, before = self.owners.get(id(target), (target, ()))
        self._own(target, (*before, *(r for r in results if r not in before)))
        if not _done(results):
            mine = self.followers.setdefault(id(owner(source)), [])
            mine.append((source, some, target, places))


def _done(results: tuple[Multiplication, ...]) -> bool:
    return all(mma.done for mma in results)


def _over(results: tuple[Multiplication, ...]) -> bool:
    """Whether all their threads have waited."""
    return not any(mma.pending.any() for mma in results)


def owner(value: Array) -> Array:
    """The array whose memory a value is a view of."""
    base: Array = value if value.base is None else value.base
    return base


def _place(value: Array) -> int:
    place: int = value.__array_interface__["data"][0]
    return place


def queue_of(g: Group) -> Queue:
    """The multiplications of a batch; made on first use."""
    return g.batch.of(Queue)


__all__ = [
    "SIZE", "Multiplication", "Queue", "WarpGroupObserver", "begins_product", "changes", "looks_at",
    "owner", "queue_of",
]  # fmt: skip
