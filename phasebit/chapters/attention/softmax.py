"""The online softmax of *Attention* in NumPy, and how far rounding may carry it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class State(NamedTuple):
    """What is known of a row after some of its keys."""

    top: float
    """The largest score so far; -∞ before the first."""
    sum: float
    """Σ exp(score − top)."""
    output: Array
    """Σ exp(score − top) · value: (d); the row's output is this divided by the sum."""


def online(scores: Array, values: Array, tile: int) -> Iterator[State]:
    """The states of a row after each tile of keys: scores (keys), values (keys, d).

    In float64. Source: Milakov and Gimelshein (2018), with the output carried along as
    FlashAttention does (Dao and others, 2022).
    """
    state = State(-np.inf, 0.0, np.zeros(values.shape[1]))
    for first in range(0, len(scores), tile):
        part, v = scores[first : first + tile], values[first : first + tile]
        top = max(state.top, float(part.max()))
        base = 0.0 if top == -np.inf else top
        shrink = np.exp(state.top - base)
        p = np.exp(part - base)
        state = State(top, state.sum * shrink + float(p.sum()), state.output * shrink + p @ v)
        yield state


def moves(scores: Array, tile: int, room: float) -> int:
    """In how many tiles of keys the top of at least one row moves.

    ``scores``: of rows that decide together, in powers of two: (rows, keys). Where a score of the
    tile is more than ``room`` above its row's top, all rows take the largest of theirs.
    """
    top, count = np.full(len(scores), -np.inf), 0
    for first in range(0, scores.shape[1], tile):
        high = scores[:, first : first + tile].max(axis=1)
        if (high > top + room).any():  # then all move
            top, count = np.maximum(top, high), count + 1
    return count


def bound(d: int, keys: int, sizes: Array, weighted: Array, output: Array) -> Array:
    """How far an output may be from the exact one.

    ``sizes``: the largest scale · Σ |q·k| of the row; ``weighted``: Σ p |v|; ``output``: |o|.
    Four errors, each a part of what it is an error of: a score is a sum of ``d`` products whose
    adders cut bits off, and its exponent is rounded twice; ex2 is exact to 2⁻²²; a probability is
    rounded to bf16, and the output too, 2⁻⁸ each; the sums over ``keys`` are f32.
    """
    score = sizes * ((d + d / 8 + 4) * 2.0**-23 + 4 * 2.0**-24) + 2.0**-22
    relative = 2 * score + 2.0**-8 + 2.5 * (keys + 8) * 2.0**-23
    return np.asarray(1.01 * (relative * weighted + 2.0**-8 * output))
