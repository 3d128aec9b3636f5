"""Device memory: one file in memory that the program and the emulator both map.

Nothing is copied between the two processes. The program maps the file at `BASE`, so a device
pointer is an address there; this process maps it anywhere and subtracts `BASE`. Pages of
`cudaMalloc` are not readable through the program's mapping: host code that follows a device
pointer faults, as it does with a GPU. Pages of managed and pinned memory are.

Each allocation has pages of its own with an unused page behind, and addresses are not used again
soon. A pointer to freed memory, or past the end, therefore meets nothing, and is reported.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from phasebit.emulator import REMEMBERED, FreedBy
from phasebit.emulator.findings import Sentence, say
from phasebit.runtime.protocol import CONTROL_BYTES, Space

PAGE = 4096
#: Where the program maps device memory. Free on Linux for x86-64 and 48-bit AArch64.
BASE = 0x7000_0000_0000
#: Bytes of address space. Untouched pages cost nothing.
SPAN = 1 << 36
#: So many bytes of it are handed out once; then freed ones are used again.
FRESH = 1 << 30


def _pages(size: int) -> int:
    return -(-size // PAGE) * PAGE


class OutOfMemory(Exception):
    """The device has not that much memory left."""


@dataclass(frozen=True, order=True)
class Allocation:
    """One piece of device memory: `size` bytes at `address`."""

    address: int
    size: int
    space: Space = Space.DEVICE
    name: str = ""
    device: int = 0

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True)
class Gone:
    """Memory that was freed, and by whom: a sentence that is made when somebody asks."""

    item: Allocation
    by: FreedBy


def _by_the_host() -> Sentence:
    return say("by the host")


class Listener(Protocol):
    """Hears of every change, to keep its own view of the memory."""

    def added(self, item: Allocation) -> None: ...

    def removed(self, item: Allocation, by: FreedBy) -> None: ...

    def written(self, address: int, size: int) -> None:
        """The host wrote `size` bytes at `address`."""
        ...


class DeviceMemory:
    """The memory, who owns which part of it, and the word that counts finished launches.

    `bytes` is the whole address space as one uint8 array, `bytes[0]` being address `BASE`.
    `total` is how many bytes may be allocated at once.
    """

    def __init__(self, total: int = 1 << 32, span: int = SPAN) -> None:
        self.base = BASE
        self.span = span
        self.total = min(total, span // 2)
        self.fd = os.memfd_create("phasebit-device-memory")
        os.ftruncate(self.fd, span + CONTROL_BYTES)
        self._map = mmap.mmap(self.fd, span + CONTROL_BYTES)
        everything = np.frombuffer(self._map, np.uint8)
        self.bytes: npt.NDArray[np.uint8] = everything[:span]
        self._finished = everything[span:].view(np.uint64)
        self.reset()

    def reset(self) -> None:
        """Forget every allocation; what was in them is gone."""
        self._map.madvise(mmap.MADV_REMOVE, 0, self.span)
        self._finished[0] = 0
        self._live: list[Allocation] = []
        self._reserved: list[Allocation] = []
        self.listener: Listener | None = None
        self.early: list[tuple[int, int]] = []
        """What the host wrote while nobody listened: address, size."""
        self.freed: deque[Gone] = deque(maxlen=REMEMBERED)
        """What was freed last."""
        self._next = PAGE  # the first page stays free: an offset of 0 is nobody's
        self.used = 0

    @property
    def allocations(self) -> list[Allocation]:
        """What is allocated now, by address."""
        return list(self._live)

    @property
    def finished(self) -> int:
        """How many launches have finished; the program reads this word without asking."""
        return int(self._finished[0])

    @finished.setter
    def finished(self, count: int) -> None:
        self._finished[0] = count

    def allocate(
        self, size: int, space: Space = Space.DEVICE, name: str = "", device: int = 0
    ) -> int:
        """The address of `size` new bytes on a page of their own.

        Raises OutOfMemory.
        """
        room = _pages(size)
        if self.used + room > self.total:
            raise OutOfMemory(f"{size} bytes asked, {self.total - self.used} left")
        made = Allocation(self.base + self._place(room), size, space, name, device)
        self.used += room
        insort(self._live, made)
        if self.listener:
            self.listener.added(made)
        return made.address

    def reserve(self, size: int) -> int:
        """Address space for `size` bytes that no program is told of, for good.

        Raises OutOfMemory.
        """
        item = Allocation(self.base + self._place(_pages(size)), size)
        insort(self._reserved, item)
        return item.address

    def _place(self, room: int) -> int:
        """The offset of `room` unused bytes with an unused page behind them.

        Raises OutOfMemory.
        """
        if self._next + room + PAGE > FRESH:
            at = PAGE
            for item in sorted([*self._live, *self._reserved]):
                start = item.address - self.base
                if start - at >= room + PAGE:
                    return at
                at = start + _pages(item.size) + PAGE
            self._next = at
        if self._next + room + PAGE > self.span:
            raise OutOfMemory(f"no hole of {room} bytes in the address space")
        at, self._next = self._next, self._next + room + PAGE
        return at

    def free(self, address: int, by: FreedBy = _by_the_host) -> Allocation:
        """Give back what begins at `address`. Raises KeyError if nothing does.

        `by` is for whoever uses it later on.
        """
        item = self.find(address)
        if item is None or item.address != address:
            raise KeyError(address)
        self._live.remove(item)
        if self.listener:
            self.listener.removed(item, by)
        self.freed.append(Gone(item, by))
        room = _pages(item.size)
        self.used -= room
        if room:
            self._map.madvise(mmap.MADV_REMOVE, address - self.base, room)
        return item

    def find(self, address: int, size: int = 1) -> Allocation | None:
        """The allocation that holds all of `size` bytes at `address`."""
        index = bisect_right(self._live, address, key=lambda item: item.address) - 1
        if index < 0:
            return None
        item = self._live[index]
        inside = address + size <= item.end or (size <= 1 and address == item.address)
        return item if inside else None

    def freed_at(self, address: int) -> Gone | None:
        """What an address belonged to that is in no allocation."""
        return next(
            (gone for gone in reversed(self.freed)
             if gone.item.address <= address < gone.item.end), None,
        )  # fmt: skip

    def view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        """The bytes themselves, not a copy."""
        offset = address - self.base
        return self.bytes[offset : offset + size]

    def written(self, address: int, size: int) -> None:
        """Host code wrote here."""
        if self.listener:
            self.listener.written(address, size)
        else:
            self.early.append((address, size))

    def close(self) -> None:
        """Let the file go. Views handed out keep their pages."""
        os.close(self.fd)
