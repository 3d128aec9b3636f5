"""Bulk copies: one thread asks, the copy engine moves many bytes (PTX ISA 9.7.9.25.4, 9.7.9.27).

A copy goes from one *side* to another.  A side is a stretch of bytes, or the box of a
tensor (``copy_engine.tensor_copy``); whatever it is, it can be read as bytes in a
row, and written.  A copy is done in two steps, so that a thread may wait for either:

``fetch``   the source has been read: it may be overwritten
``finish``  the target has been written, and whoever waits for it is told

Copies that end in shared memory tell an mbarrier; the others belong to the *bulk groups*
of the thread that started them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from phasebit.emulator.machine.agents import Agent
from phasebit.emulator.machine.barrier_sites import BarrierSite
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.numbers.halves import HALVES, elementwise, extreme
from phasebit.emulator.numbers.numerics import canonical, flush, odd_sum
from phasebit.emulator.ptx.types import Array, dtype


class Side(Protocol):
    """Where a copy reads or writes."""

    space: str
    """``shared`` or ``global``."""

    def read(self) -> Array:
        """The bytes, in a row."""

    def write(self, data: Array) -> None:
        """Put bytes there."""

    def words(self, shift: int) -> Array:
        """The words of ``1 << shift`` bytes that are touched, for the checker."""


class Stretch:
    """``size`` bytes at a position of the buffer."""

    def __init__(self, memory: Any, start: int, size: int, space: str) -> None:
        self.memory = memory
        self.start = start
        self.size = size
        self.space = space

    def read(self) -> Array:
        found: Array = self.memory.u1[self.start : self.start + self.size].copy()
        return found

    def write(self, data: Array) -> None:
        self.memory.u1[self.start : self.start + self.size] = data

    def words(self, shift: int) -> Array:
        return np.arange(self.start >> shift, (self.start + self.size + (1 << shift) - 1) >> shift)


class Reduced:
    """A side that combines what is written with what it holds: ``cp.reduce``."""

    def __init__(self, side: Side, op: str, kind: str) -> None:
        self.side = side
        self.space = side.space
        self.op = op
        self.kind = kind

    def read(self) -> Array:
        return self.side.read()

    def write(self, data: Array) -> None:
        self.side.write(combine(self.op, self.kind, self.side.read(), data))

    def words(self, shift: int) -> Array:
        return self.side.words(shift)


def combine(op: str, kind: str, old: Array, new: Array) -> Array:
    """Bytes of ``old op new``, element by element (PTX ISA 9.7.9.25.4.2, 9.7.13.5).

    f32 keeps subnormals, where ``atom.add`` flushes them (the elements ``f32.ftz`` of a tensor map
    flush them), and has one NaN; tf32 is added as f32; f64 passes a NaN on as
    it is, signalling or not, that of ``new`` before that of ``old``.  [seen on an H200]
    """
    kind, _, flushed = kind.replace("tf32", "f32").partition(".")
    form = dtype(kind)
    a, b = old.view(form), new.view(form)
    if flushed:
        a, b = flush(a), flush(b)
    if kind in HALVES and op == "add":
        result = elementwise(odd_sum, kind, (a, b))
    elif kind in HALVES and op in ("min", "max"):
        result = extreme(np.fmin if op == "min" else np.fmax, a, b, kind)
    elif op == "add" and kind in ("f32", "f64"):
        result = added(a, b) if not flushed else flush(added(a, b))
    elif op == "inc":
        result = np.where(a >= b, 0, a + form.type(1))
    elif op == "dec":
        result = np.where((a == 0) | (a > b), b, a - form.type(1))
    else:
        result = {
            "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
            "or": np.bitwise_or, "xor": np.bitwise_xor,
        }[op](a, b)  # fmt: skip
    bytes_: Array = np.ascontiguousarray(result.astype(form)).view(np.uint8)
    return bytes_


def added(a: Array, b: Array) -> Array:
    """Sums of f32 or f64 as a bulk reduction forms them: see :func:`combine`."""
    with np.errstate(all="ignore"):
        total: Array = a + b
    if a.dtype.itemsize == 4:
        single: Array = canonical(total)
        return single
    wide = np.uint64
    for x in (a, b):  # of two NaNs that of the addend
        total = np.where(np.isnan(x), x.view(wide), total.view(wide)).view(np.float64)
    return total


class BulkCopy(Agent):
    """One copy under way."""

    def __init__(
        self, batch: Batch, lanes: Array, source: Side, target: Side, size: int, access: int,
        site: BarrierSite | None, tell: Callable[[], None],
    ) -> None:  # fmt: skip
        super().__init__(batch, site is not None)
        self.lanes = lanes
        """The thread that started it."""
        self.source = source
        self.target = target
        self.size = size
        self.access = access
        self.site = site
        """The mbarrier that counts its bytes; None where it belongs to a bulk group."""
        self.tell = tell
        self.started = batch.machine.now
        """When, for the checker, which may look at several copies in a row."""
        self.data: Array | None = None
        self.freed = False
        """Whether its thread has waited until it has read its source."""
        self.reduces = isinstance(target, Reduced)
        self.reads: tuple[int, int] | None = None
        """The first word of shared memory that it reads and the word after the last, while
        nobody has waited for that (the checker's)."""

    def fetch(self) -> None:
        """Read the source."""
        if self.data is None:
            self.data = self.source.read()

    def work(self) -> None:
        self.fetch()
        assert self.data is not None
        self.target.write(self.data)
        self.tell()


class BulkGroups:
    """Each thread's bulk groups: how many it has closed, and the copies not waited for."""

    def __init__(self, batch: Batch) -> None:
        self.closed = np.zeros(batch.lanes, np.int64)
        self.copies: list[tuple[int, BulkCopy]] = []
        """The number of its group, and the copy."""


def bulk_groups(batch: Batch) -> BulkGroups:
    """The bulk groups of a batch; made on first use."""
    return batch.of(BulkGroups)


__all__ = ["BulkCopy", "BulkGroups", "Reduced", "Side", "Stretch", "bulk_groups", "combine"]
