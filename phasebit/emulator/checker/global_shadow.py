"""What is known of each word of global memory: its last writer and three readers."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.ptx.types import Array

I4 = np.int32


class GlobalShadow:
    """Last writer and three readers of each word of global memory.

    A reader is kept as ``2 * thread + strong + 1``; 0 is nobody.  ``write_time`` is 0 for
    what was written before the launch, and negative for what nobody has written.
    """

    def __init__(self) -> None:
        self.first = 0
        """The word of the first entry: 0, until the shadow is cut."""
        self.size = 0
        self.write_time = np.zeros(0, I4)
        self.writer = np.zeros(0, np.int64)
        self.write_access = np.zeros(0, I4)
        self.write_strong = np.zeros(0, bool)
        self.readers = [Readers(), Readers(), Readers()]
        """The last reader; before it, another of the same unit; one of another unit."""
        self.copies = [Readers(), Readers()]
        """The last asynchronous copy that reads; before it, another.  Not kept until one does."""
        self.copying: set[int] = set()
        """The instructions that have started such copies."""
        self.hidden = Readers()
        """The last plain store, where strong writes came after; its code is the thread."""

    def fit(self, size: int) -> None:
        """Cover ``size`` words; new ones were never touched."""
        if size <= self.size:
            return
        self.write_time, self.writer = _grown(self.write_time, size), _grown(self.writer, size)
        self.write_access = _grown(self.write_access, size)
        self.write_strong = _grown(self.write_strong, size)
        for readers in self.all_readers():
            readers.fit(size)
        self.size = size

    def all_readers(self) -> list[Readers]:
        """Threads and, where there have been any, copies."""
        more = self.copies if self.copying else []
        return [*self.readers, *more, *([self.hidden] if self.hidden.used else [])]

    def places(self, words: Array) -> tuple[Array, Array]:
        """Where the entries of words are, and whether there are any; else the place is 0."""
        at = words - self.first
        inside = (at >= 0) & (at < self.size)
        return np.where(inside, at, 0), inside

    def cut(self, first: int, end: int) -> None:
        """Keep these words only, as they are now: nobody will touch any more."""
        some = slice(first - self.first, max(first, end) - self.first)
        self.write_time, self.writer = self.write_time[some].copy(), self.writer[some].copy()
        self.write_access = self.write_access[some].copy()
        self.write_strong = self.write_strong[some].copy()
        for readers in self.all_readers():
            readers.cut(some)
        self.first, self.size = first, len(self.write_time)

    def read(
        self, once: Array, last: Array, first: Array | None, team: int, access: int, now: int
    ) -> None:
        """These words are read by ``last``; where several threads do, also by ``first``."""
        newest, same, foreign = self.readers
        before = newest.code[once]
        moved = (before != last) & (before > 0)
        if np.count_nonzero(moved):
            words, old = once[moved], before[moved]
            apart = (old - 1) // (2 * team) != (last[moved] - 1) // (2 * team)
            for slot, which in ((same, ~apart), (foreign, apart)):
                if np.count_nonzero(which):
                    some = words[which]
                    slot.note(some, old[which], newest.time[some], newest.access[some])
        newest.note(once, last, now, access)
        if first is not None:
            apart = (first - 1) // (2 * team) != (last - 1) // (2 * team)
            for slot, which in ((same, ~apart & (first != last)), (foreign, apart)):
                if np.count_nonzero(which):
                    slot.note(once[which], first[which], now, access)

    def hide(self, words: Array) -> None:
        """Strong writes are about to follow: keep the plain stores that they follow."""
        weak = words[~self.write_strong[words] & (self.write_time[words] > 0)]
        if len(weak):
            self.hidden.fit(self.size)
            self.hidden.note(
                weak, self.writer[weak], self.write_time[weak], self.write_access[weak]
            )

    def copied(self, words: Array, code: Array, access: int, now: int) -> None:
        """Asynchronous copies read these words, in no hurry.

        ``code``: unit and column of the clocks that say when it is over, :func:`copy_code`.
        """
        newest, other = self.copies
        self.copying.add(access)
        newest.fit(self.size)
        other.fit(self.size)
        before = newest.code[words]
        moved = (before != code) & (before > 0)
        if np.count_nonzero(moved):
            some = words[moved]
            other.note(some, before[moved], newest.time[some], newest.access[some])
        newest.note(words, code, now, access)


COLUMNS = 1 << 32
"""More than a clock has."""


def copy_code(unit: Array, column: Array) -> Array:
    """Whose clocks say that a copy has read, and which column; 0 is nobody."""
    return unit * COLUMNS + column + 1


class Readers:
    """One reader of each word, when it read, and at which access."""

    def __init__(self) -> None:
        self.code = np.zeros(0, np.int64)
        self.time = np.zeros(0, I4)
        self.access = np.zeros(0, I4)
        self.used = False

    def fit(self, size: int) -> None:
        if size == len(self.code):
            return
        self.code, self.time = _grown(self.code, size), _grown(self.time, size)
        self.access = _grown(self.access, size)

    def cut(self, some: slice) -> None:
        self.code, self.time = self.code[some].copy(), self.time[some].copy()
        self.access = self.access[some].copy()

    def note(self, words: Array, code: Array, time: Array | int, access: Array | int) -> None:
        self.used = True
        self.code[words] = code
        self.time[words] = time
        self.access[words] = access


def _grown(array: Array, size: int) -> Array:
    new = np.zeros(size, array.dtype)
    new[: len(array)] = array
    return new


__all__ = ["COLUMNS", "GlobalShadow", "Readers", "copy_code"]
