"""A random source that is a formula: the n-th number of a seed is ``mix(seed + n·φ)``.

Programs and inputs must be the same on every machine, in every version of
Python and NumPy, for the recorded answers to mean anything.  SplitMix64
(Steele, Lea and Flood, OOPSLA 2014) is ten operations, has no state beyond a
counter, and works on whole arrays at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Words = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def mix(x: Words) -> Words:
    """SplitMix64's finaliser: a bijection of 64-bit words that looks random.

    >>> int(mix(np.array([0], np.uint64) + _GOLDEN)[0]) == 0xE220A8397B1DCDAF
    True
    """
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def seed_of(text: str) -> int:
    """A 64-bit seed from a name (FNV-1a), so that a program's inputs depend on its name only."""
    h = 0xCBF29CE484222325
    for byte in text.encode():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return h


class Dice:
    """Random numbers from one seed, one after another or an array at a time."""

    def __init__(self, seed: int | str) -> None:
        number = seed_of(seed) if isinstance(seed, str) else seed
        self._base = np.array([number & 0xFFFFFFFFFFFFFFFF], np.uint64)
        self._drawn = 0

    def words(self, n: int) -> Words:
        """``n`` random 64-bit words."""
        counter = np.arange(self._drawn + 1, self._drawn + n + 1, dtype=np.uint64)
        self._drawn += n
        return mix(self._base + counter * _GOLDEN)

    def below(self, n: int) -> int:
        """A number from 0 to n-1."""
        return int(self.words(1)[0]) % n

    def between(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return low + self.below(high - low + 1)

    def choice(self, things: Sequence[T]) -> T:
        """One of some things."""
        return things[self.below(len(things))]

    def chance(self, percent: int) -> bool:
        """True in ``percent`` of 100 draws."""
        return self.below(100) < percent


def shuffled(dice: Dice, things: Sequence[T]) -> list[T]:
    """These in a random order."""
    left, found = list(things), []
    while left:
        found.append(left.pop(dice.below(len(left))))
    return found
