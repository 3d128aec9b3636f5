"""Sets of words of memory, as arrays of numbers: what operands cover, and where two meet.

NumPy's own functions for sets take several times as long for numbers that lie close together.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

WIDEST = 1 << 20
"""Of a range of numbers that is marked one by one."""


def distinct(words: Array) -> Array:
    """Each of some whole numbers once, in ascending order; of any shape, at least one.

    >>> distinct(np.array([[7, 5], [5, 9]]))
    array([5, 7, 9])
    """
    low = int(words.min())
    width = int(words.max()) - low + 1
    if width > WIDEST:
        return np.unique(words)
    marks = np.zeros(width, bool)
    marks[words - low] = True
    found: Array = np.flatnonzero(marks)
    return found + low


def among(words: Array, ascending: Array) -> Array:
    """Which of some whole numbers are among others, which are in ascending order: bool.

    >>> among(np.array([1, 5, 6, 9]), np.array([5, 7, 9]))
    array([False,  True, False,  True])
    """
    low, high = ascending[0], ascending[-1]
    inside: Array = (words >= low) & (words <= high)
    if high - low + 1 > len(ascending):  # there are gaps
        at = np.searchsorted(ascending, words)
        inside &= ascending[np.minimum(at, len(ascending) - 1)] == words
    return inside


__all__ = ["among", "distinct"]
