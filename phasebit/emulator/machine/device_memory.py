"""Device memory: one array of bytes for everything, with gaps between allocations.

Global arrays, the shared memory of resident blocks and the local memory of
their threads all lie in one buffer, so that an access is one gather from one
view, whatever its space.  Every allocation starts at a multiple of 256 bytes
(as cudaMalloc's do) and is followed by a gap, so that running off the end of an
array hits nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from phasebit.emulator.capabilities import USUAL_HEAP
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.ptx.placement import GLOBAL_BASE, align_up
from phasebit.emulator.ptx.types import Array

GRANULE = 256
"""Allocations start at multiples of this many bytes."""

WATCHED = 64 << 20
"""Bytes of the largest allocation of which is known what has been written."""

REMEMBERED = 1000
"""Allocations that are kept in mind when they are freed."""

HEAP_UNIT = 16
"""``malloc`` in a kernel gives so many bytes or a multiple (CUDA C++ Programming Guide)."""

FROM_MALLOC = "memory from malloc"

EVERY_DEVICE = -1
"""Memory that all devices have, such as the host's."""

POISON = 0x7FFF7FFF
"""What unwritten memory holds: a NaN as f16, bf16, f32 and f64, an absurd number as an integer."""

VIEWS = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")


@dataclass(eq=False)
class Allocation:
    """``size`` bytes at ``start`` of the buffer; ``kind`` is global, shared, local or const."""

    start: int
    size: int
    name: str
    kind: str
    device: int = EVERY_DEVICE
    """Whose memory that is, where there are several devices."""

    @property
    def address(self) -> int:
        """The generic address of a global allocation."""
        return GLOBAL_BASE + self.start


FreedBy: TypeAlias = Callable[[], Sentence]
"""Who freed memory, and where: found out when somebody asks."""


class Freed(NamedTuple):
    """Memory that is no more: its bytes in the buffer, its name, and who freed it, where."""

    size: int
    name: str
    by: FreedBy


class Memory:
    """The buffer and its allocations.  ``u1`` … ``f8`` are views of all of it."""

    u1: Array
    u2: Array
    u4: Array
    u8: Array
    i1: Array
    i2: Array
    i4: Array
    i8: Array
    f2: Array
    f4: Array
    f8: Array
    c16: Array
    owners: Array
    """For each granule whether something is allocated there."""
    heap_size = USUAL_HEAP
    """Bytes that kernels may have from ``malloc`` at a time, ``cudaLimitMallocHeapSize``."""
    heap_used = 0
    predecessor: Any = None
    """What the checker remembers of the last kernel, for one that may begin before its end."""

    def __init__(self, capacity: int = 1 << 20) -> None:
        self.allocations: list[Allocation] = []
        self.heap: dict[int, Allocation] = {}
        """What kernels have from ``malloc``, by its address."""
        self.unwritten: dict[int, Array] = {}
        """Start of an allocation -> for each byte whether anybody has written it."""
        self.free_lists: dict[int, list[int]] = {}
        self.freed: dict[int, Freed] = {}
        self.top = GRANULE
        self.launching = threading.RLock()
        """Who launches here has it: threads of the host take turns."""
        self._adopt(np.zeros(capacity, np.uint8))

    def _adopt(self, buffer: Array) -> None:
        for name in (*VIEWS, "c16"):
            setattr(self, name, buffer.view(name))
        owners = np.zeros(len(buffer) // GRANULE + 1, np.int32)
        if hasattr(self, "owners"):
            owners[: len(self.owners)] = self.owners
        self.owners = owners

    def allocate(self, size: int, name: str = "", kind: str = "global") -> Allocation:
        """Reserve ``size`` bytes, zeroed."""
        if size < 0:
            raise EmulatorError(f"cannot allocate {size} bytes")
        room = align_up(max(size, 1), GRANULE) + GRANULE
        reusable = self.free_lists.get(room)
        if reusable:
            start = reusable.pop()
            self.u1[start : start + room] = 0
        else:
            start = self.top
            self.top += room
            while self.top + GRANULE > len(self.u1):
                grown = np.zeros(2 * len(self.u1), np.uint8)
                grown[: len(self.u1)] = self.u1
                self._adopt(grown)
        allocation = Allocation(start, size, name, kind)
        self.allocations.append(allocation)
        self.owners[start // GRANULE : self._behind(allocation)] = 1
        return allocation

    def watch(self, allocation: Allocation) -> None:
        """Nobody has written this yet, as after cudaMalloc: a checked kernel must not read it."""
        if 0 < allocation.size <= WATCHED:
            self.unwritten[allocation.start] = np.zeros(allocation.size, bool)

    def wrote(self, start: int, size: int) -> None:
        """Bytes of the buffer have been written."""
        for first, written in list(self.unwritten.items()):
            low, high = max(start, first), min(start + size, first + len(written))
            if low < high:
                written[low - first : high - first] = True
                if high - low == len(written):
                    del self.unwritten[first]

    def settle(self, first: int, written: Array) -> None:
        """After a kernel: which bytes of an allocation have been written now."""
        if first in self.unwritten:
            self.unwritten[first][: len(written)] |= written
            if self.unwritten[first].all():
                del self.unwritten[first]

    def free(self, allocation: Allocation) -> None:
        """Give an allocation back; its addresses become invalid."""
        self.unwritten.pop(allocation.start, None)
        if allocation not in self.allocations:
            raise EmulatorError(f"{allocation.name or 'this memory'} was freed already")
        self.allocations.remove(allocation)
        if allocation.kind == "global":
            self.went(allocation, lambda: say("by the host"))
        room = align_up(max(allocation.size, 1), GRANULE) + GRANULE
        start = allocation.start
        self.owners[start // GRANULE : (start + room) // GRANULE] = 0
        self.free_lists.setdefault(room, []).append(start)

    def malloc(self, size: int) -> int:
        """Memory that a kernel asks for: its generic address, or 0 where there is none left."""
        room = max(align_up(size, HEAP_UNIT), HEAP_UNIT)
        made = self._from_heap(size) if self.heap_used + room <= self.heap_size else None
        if made is None:
            return 0
        self.heap_used += room
        self.heap[made.address] = made
        return made.address

    def _from_heap(self, size: int) -> Allocation | None:
        return self.allocate(size, FROM_MALLOC)

    def release(self, address: int, by: Sentence) -> bool:
        """Free what :meth:`malloc` gave; False if it did not, or that was freed already.

        The addresses are not used again, so that whoever still has one is found out: ``by`` tells
        them who freed it, and where.
        """
        made = self.heap.pop(address, None)
        if made is None:
            return False
        self.heap_used -= max(align_up(made.size, HEAP_UNIT), HEAP_UNIT)
        self._to_heap(made, lambda: by)
        return True

    def _to_heap(self, made: Allocation, by: FreedBy) -> None:
        self.allocations.remove(made)
        self.went(made, by)
        self.owners[made.start // GRANULE : self._behind(made)] = 0

    def _behind(self, made: Allocation) -> int:
        """The granule behind an allocation."""
        return (made.start + max(made.size, 1) - 1) // GRANULE + 1

    def went(self, made: Allocation, by: FreedBy) -> None:
        """An allocation is no more."""
        self.freed[made.start] = Freed(made.size, made.name, by)
        if len(self.freed) > REMEMBERED:
            del self.freed[next(iter(self.freed))]

    def exchange(self, view: Array, places: Array, before: Array, after: Array) -> Array:
        """Store ``after`` where ``before`` stands; for each place whether it no longer did.

        Nobody but the kernel writes here. See :class:`phasebit.runtime.emulated.ArenaMemory`.
        """
        view[places] = after
        return np.zeros(len(places), bool)

    def others_write(self, addresses: Any, span: int) -> bool:
        """Whether somebody else may write, meanwhile, to bytes at these global addresses."""
        return False

    def snapshot(self) -> Callable[[], None]:
        """What is there now, to be put back as often as one likes: by a call.

        Memory that a kernel has asked for meanwhile stays allocated; what it has freed is there
        again.
        """
        content, predecessor = self.u1.copy(), self.predecessor
        unwritten = {start: written.copy() for start, written in self.unwritten.items()}
        heap, heap_used, freed = dict(self.heap), self.heap_used, dict(self.freed)

        def back() -> None:
            self._heap_again(heap, freed)
            self.u1[: len(content)] = content
            self.predecessor = predecessor
            self.unwritten = {start: written.copy() for start, written in unwritten.items()}
            self.heap, self.heap_used = dict(heap), heap_used

        return back

    def _heap_again(self, heap: dict[int, Allocation], freed: dict[int, Freed]) -> None:
        """What kernels had from ``malloc`` in a snapshot is allocated, what they had freed is not.
        """
        for address, made in heap.items():
            if address not in self.heap:
                self.freed.pop(made.start, None)
                self.allocations.append(made)
                self.owners[made.start // GRANULE : self._behind(made)] = 1
        for address, made in self.heap.items():
            if address not in heap and made.start in freed:
                self._to_heap(made, freed[made.start].by)

    def find(self, offset: int, kinds: tuple[str, ...] = ("global", "const")) -> Allocation | None:
        """The allocation that a byte of the buffer belongs to."""
        for allocation in self.allocations:
            if allocation.start <= offset < allocation.start + allocation.size:
                return allocation if allocation.kind in kinds else None
        return None

    def _freed_at(self, offset: int) -> int | None:
        """Where freed memory begins that a byte of the buffer belonged to."""
        return next((s for s, gone in self.freed.items() if s <= offset < s + gone.size), None)

    def was_freed(self, offset: int) -> bool:
        """Whether a byte of the buffer belongs to memory that is no more."""
        return self.find(offset) is None and self._freed_at(offset) is not None

    def near(self, offset: int) -> Sentence | str:
        """In words, where an invalid global address lies."""
        start = self._freed_at(offset)
        if start is not None:
            gone = self.freed[start]
            return say(
                "{} bytes into {} ({} bytes), which was freed {}",
                offset - start, gone.name or "an array", gone.size,
                gone.by(),
            )  # fmt: skip
        best: tuple[int, str] | None = None
        for a in self.allocations:
            if a.kind not in ("global", "const"):
                continue
            end = a.start + a.size
            distance = a.start - offset if offset < a.start else offset - end
            side = (
                f"{a.start - offset} bytes before" if offset < a.start
                else f"{offset - end} bytes after the end of"
            )  # fmt: skip
            if best is None or distance < best[0]:
                best = (distance, f"{side} {a.name or 'an array'} ({a.size} bytes)")
        if best is None or best[0] > 1 << 20:
            return "near no array"
        return best[1]

    def bytes(self, allocation: Allocation) -> Array:
        """The bytes of an allocation, as a view."""
        return self.u1[allocation.start : allocation.start + allocation.size]


class Parameters:
    """The kernel's parameter bytes, with a view for each type (PTX ISA 5.1.6)."""

    def __init__(self, data: bytes) -> None:
        padded = np.zeros(align_up(max(len(data), 8), 8), np.uint8)
        padded[: len(data)] = np.frombuffer(data, np.uint8)
        self.views: dict[str, Array] = {name: padded.view(name) for name in VIEWS}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["views"][name]
        except KeyError:
            raise AttributeError(name) from None
