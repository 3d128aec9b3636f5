"""In which order blocks take the parts of C, and what the L2 cache makes of it.

A part is ``(row, column)``, counted in tiles of C. An order is a list of all parts: the table
that ``kernels/10_order.cuh`` reads, one entry a block. Blocks begin in the order of their numbers,
so as many neighbours of the list run at once as the GPU holds.

    >>> super_rows(2, 3, 2)
    [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

Part = tuple[int, int]
Order = list[Part]


def rows_first(rows: int, columns: int) -> Order:
    """Row by row: the order that ``blockIdx.x`` and ``blockIdx.y`` give by themselves."""
    return [(row, column) for row in range(rows) for column in range(columns)]


def super_rows(rows: int, columns: int, height: int) -> Order:
    """Bands of ``height`` rows, each walked column by column.

    Raises ``ValueError`` for a height below one.
    """
    if height < 1:
        raise ValueError(f"a super-row of {height} rows holds nothing: give at least 1")
    return [
        (row, column)
        for first in range(0, rows, height)
        for column in range(columns)
        for row in range(first, min(first + height, rows))
    ]


def hilbert(rows: int, columns: int) -> Order:
    """Along Hilbert's curve through the smallest square that holds C; the rest is left out.

    Source: Hilbert 1891; the curve's turns as in Warren, *Hacker's Delight*, chapter 16.
    """
    side = 1
    while side < max(rows, columns):
        side *= 2
    walk = (_on_curve(side, step) for step in range(side * side))
    return [(row, column) for row, column in walk if row < rows and column < columns]


def shuffled(rows: int, columns: int, seed: int = 10) -> Order:
    """Drawn by lot: no neighbours at all."""
    order = rows_first(rows, columns)
    random.Random(seed).shuffle(order)
    return order


def _on_curve(side: int, step: int) -> Part:
    """Where Hilbert's curve through a square of ``side`` (a power of two) is after ``step`` steps.

    >>> [_on_curve(2, step) for step in range(4)]
    [(0, 0), (1, 0), (1, 1), (0, 1)]
    """
    x = y = 0
    size = 1
    while size < side:
        across, up = step // 2 & 1, (step ^ step // 2) & 1
        if not up:  # turn the quarter that was walked so far
            if across:
                x, y = size - 1 - x, size - 1 - y
            x, y = y, x
        x += size * across
        y += size * up
        step //= 4
        size *= 2
    return x, y


@dataclass(frozen=True)
class Shared:
    """What the L2 cache did for one product."""

    asked: int  # bytes that blocks asked for
    missed: int  # bytes of them that came from memory

    @property
    def hit_rate(self) -> float:
        """Share of what was asked for that the cache had."""
        return 1 - self.missed / self.asked


def shared(
    order: Sequence[Part], k: int, tile: tuple[int, int], *, resident: int, cache: int,
    element: int = 2, depth: int = 256,
) -> Shared:  # fmt: skip
    """Play an order through a cache that keeps what was used last.

    ``tile``: rows and columns of C a block; ``k``: length of the sums; ``resident``: blocks that
    run at once, in lockstep, the next of the order beginning when one ends; ``cache``: bytes;
    ``element``: bytes each. Operands come in pieces ``depth`` long: a finer grain changes little.

    A model. It assumes a cache without sets that evicts what has not been used for longest, blocks
    at one speed, and no other traffic.
    """
    height, width = (size * depth * element for size in tile)  # bytes of a piece of A and of B
    kept: OrderedDict[tuple[int, int, int], int] = OrderedDict()
    held = asked = missed = 0
    for first in range(0, len(order), resident):
        wave = order[first : first + resident]
        for step in range(-(-k // depth)):
            for row, column in wave:
                for key, size in (((0, row, step), height), ((1, column, step), width)):
                    asked += size
                    if key in kept:
                        kept.move_to_end(key)
                        continue
                    missed += size
                    kept[key] = size
                    held += size
                    while held > cache:
                        held -= kept.popitem(last=False)[1]
    return Shared(asked, missed)
