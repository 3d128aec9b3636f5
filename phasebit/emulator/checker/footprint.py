"""What an access touches, worked out once for each pattern of addresses.

A loop comes back to an access at other addresses, but mostly with the same
distances between its threads.  From the distances follows which words are touched,
each named once (a row that a warp reads together is one word, not 32); whether two
threads can meet in one; and how many sectors and wavefronts the access takes.
Finding a pattern again costs a subtraction and a comparison; so the checks that
follow have few words to look at, and the counters none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.checker.traffic import Cost, Traffic
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array

PERIOD = 128
"""Addresses that differ by a multiple of this have equal banks, sectors and alignment."""

KEPT = 1 << 22
"""Words and threads that all remembered patterns together may name."""


class Footprint:
    """The words of an access, numbered from a start that each use adds."""

    __slots__ = ("_every", "_first", "apart", "dense", "once", "owner")

    def __init__(self, every: Array | None, once: Array, owner: Array, apart: bool) -> None:
        self._every = every
        self._first: Array | None = None
        self.once = once
        """Every word at least once."""
        self.owner = owner
        """For each of ``once`` the place in the group of a thread that touches it."""
        self.apart = apart
        """Whether it is certain that no two threads touch one word."""
        self.dense = False
        """Whether it is certain that the words lie side by side, in order."""

    def at(self, start: int) -> Array | slice:
        """``once`` from a start; words side by side as a slice, which NumPy reaches faster."""
        if self.dense:
            start += int(self.once[0])
            return slice(start, start + len(self.once))
        return self.once + start

    @property
    def every(self) -> Array:
        """Word numbers, one row for each word of a thread, one column a thread."""
        assert self._every is not None
        return self._every

    @property
    def first(self) -> Array:
        """Like ``owner``, but where several threads touch a word the first of them."""
        if self._first is None:
            every = self.every
            values, index = np.unique(every, return_index=True)
            self._first = (index % every.shape[1])[np.searchsorted(values, self.once)]
        return self._first

    @staticmethod
    def plain(every: Array) -> Footprint:
        """For an access that is looked at only once: sorting would cost more than it saves."""
        owner = np.broadcast_to(np.arange(every.shape[1]), every.shape)
        return Footprint(every, every.ravel(), owner.ravel(), False)


    @staticmethod
    def of_one(words: Array) -> Footprint:
        """One thread's: words in ascending order, each once."""
        made = Footprint(words[:, None], words, np.zeros(len(words), np.int64), True)
        made.dense = len(words) > 0 and int(words[-1] - words[0]) == len(words) - 1
        return made


class Common(Footprint):
    """Words side by side that all threads of a group touch alike: those of a barrier."""

    __slots__ = ("threads",)

    def __init__(self, words: Array, threads: int) -> None:
        super().__init__(None, words, np.zeros_like(words), False)
        self.dense = True
        self.threads = threads

    @property
    def every(self) -> Array:
        return np.broadcast_to(self.once[:, None], (len(self.once), self.threads))


class Pattern(Footprint):
    """A footprint that is kept."""

    __slots__ = ("accesses", "cost", "lanes", "lead", "offsets", "shift")

    def __init__(self, accesses: Any, lanes: Array, lead: Array, shift: int, cost: Cost) -> None:
        self.accesses = accesses
        self.lanes = lanes
        self.lead = lead
        """Byte positions of the threads' first words, less the start."""
        self.shift = shift
        self.offsets = _granules(accesses, 1 << shift)
        self.cost = cost
        every = self.every.ravel()
        # Of the threads that touch a word the last counts, as in an assignment by NumPy.
        once, last = np.unique(every[::-1], return_index=True)
        super().__init__(None, once, (len(every) - 1 - last) % len(lead), len(once) == len(every))
        self.dense = int(once[-1] - once[0]) == len(once) - 1

    @property
    def every(self) -> Array:
        """Not kept: only a closer look needs it, and it is large."""
        return (self.lead >> self.shift)[None, :] + self.offsets

    def fits(self, lanes: Array, lead: Array) -> bool:
        if np.count_nonzero(lead != self.lead):
            return False
        if lanes is not self.lanes:
            if np.count_nonzero(lanes != self.lanes):
                return False
            self.lanes = lanes
        return True


class Footprints:
    """The patterns of a launch."""

    def __init__(self, shift: int, traffic: Traffic) -> None:
        self.shift = shift
        self.traffic = traffic
        self.patterns: dict[tuple[Any, ...], Pattern] = {}
        self.size = 0

    def find(
        self, g: Group, position: Array, accesses: Any, space: str, op: str
    ) -> tuple[Pattern, int]:
        """The pattern of an access, and the number of the word at which it starts.

        ``position``: the byte at which each thread's first access begins.
        """
        first = int(position[0])
        phase = first % PERIOD
        lead = position - (first - phase)
        key = (id(accesses), space, op, phase, g.n, int(g.lanes[0]))
        pattern = self.patterns.get(key)
        if pattern is None or not pattern.fits(g.lanes, lead):
            cost = self.traffic.cost(g, position, accesses, space, op)
            pattern = Pattern(accesses, g.lanes, lead, self.shift, cost)
            self._keep(key, pattern)
        return pattern, (first - phase) >> self.shift

    def _keep(self, key: tuple[Any, ...], pattern: Pattern) -> None:
        self.size += len(pattern.lead) + 2 * len(pattern.owner)
        if self.size > KEPT:
            self.patterns.clear()
            self.size = 0
        self.patterns[key] = pattern


def touching(g: Group, footprint: Footprint, start: int, words: Array) -> tuple[Array, Array]:
    """The lanes of a group whose access touches one of these words, and a word of each."""
    every = footprint.every + start
    there = np.isin(every, words)
    mine = there.any(axis=0)
    found: Array = every[there.argmax(axis=0), np.arange(g.n)]
    return g.lanes[mine], found[mine]


def _granules(accesses: Any, unit: int) -> Array:
    """How far each word of a segment's accesses lies from its first, one row each."""
    each = max(1, accesses.width // unit)
    words = [w * accesses.width // unit + k for w in accesses.words for k in range(each)]
    return np.array(words)[:, None]
