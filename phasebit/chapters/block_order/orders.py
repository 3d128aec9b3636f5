"""In which order blocks take the parts of C, and what the L2 cache makes of it.

A part is ``(row, column)``, counted in tiles of C. An order is a list of all parts: the table
that ``block_order/order.cuh`` reads, one entry a block. Blocks begin in the order of their numbers,
so as many neighbours of the list run at once as the GPU holds.

    >>> super_rows(2, 3, 2)
    [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]
"""

from __future__ import annotations

import heapq
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

    Source: Hilbert 1891; the curve's turns as in Warren, *Hacker's Delight*, ch. 16.
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
    """What the L2 cache did for one product, in bytes."""

    asked: int  # by blocks
    missed: int  # of these, what the half of the cache that was asked did not have
    forwarded: int  # of these, what has the other half as its home, and is looked up there
    read: int  # from memory

    @property
    def hit_rate(self) -> float:
        """Share of what was asked for that the half had that was asked."""
        return 1 - self.missed / self.asked


class _Half:
    """A cache without sets, which evicts what has not been used for longest."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.held = capacity, 0
        self.kept: OrderedDict[int, int] = OrderedDict()

    def has(self, piece: int, size: int) -> bool:
        """Whether it is there; from now on it is, and is what was used last."""
        if piece in self.kept:
            self.kept.move_to_end(piece)
            return True
        self.kept[piece] = size
        self.held += size
        while self.held > self.capacity:
            self.held -= self.kept.popitem(last=False)[1]
        return False


def shared(
    order: Sequence[Part], k: int, tile: tuple[int, int], *, resident: int, cache: int,
    halves: int = 2, drift: float = 0.0, element: int = 2, depth: int = 512, seed: int = 10,
) -> Shared:  # fmt: skip
    """Play an order through a cache of two halves, each of which keeps what was used last.

    ``tile``: rows and columns of C a block; ``k``: length of the sums; ``resident``: blocks that
    run at once, the next of the order beginning when one ends; ``cache``: bytes of both halves;
    ``halves``: 1 for a cache that is not divided; ``element``: bytes each. Operands come in pieces
    ``depth`` long: a finer grain changes little. Each piece has one half as its home, and each
    multiprocessor belongs to one: both drawn by lot. A multiprocessor asks its own half, and this
    keeps a copy of what it gets from the other. ``drift``: standard deviation of the time of a
    block, as a share of it; without it all run in lockstep.

    A model. It assumes caches without sets, and no other traffic. Raises ``ValueError`` for an
    order of no blocks, and for a number below one.
    """
    if not order:
        raise ValueError("order has no blocks: give at least one")
    for what, value in (("k", k), ("resident", resident), ("halves", halves), ("depth", depth)):
        if value < 1:
            raise ValueError(f"{what} is {value}: give at least 1")
    draw = random.Random(seed)
    height, width = (size * depth * element for size in tile)  # bytes of a piece of A and of B
    caches = [_Half(cache // halves) for _ in range(halves)]
    own = [place % halves for place in range(resident)]  # of each multiprocessor
    draw.shuffle(own)
    home: dict[int, int] = {}
    asked = missed = forwarded = read = 0
    steps = -(-k // depth)
    begun = min(resident, len(order))
    # When, the block's number, its multiprocessor, how far it is, and the time of a step.
    running = [(0.0, place, place, 0, _step(steps, drift, draw)) for place in range(begun)]
    while running:
        now, number, place, step, each = running[0]
        row, column = order[number]
        of_a, of_b = 2 * (row * steps + step), 2 * (column * steps + step) + 1
        for piece, size in ((of_a, height), (of_b, width)):
            asked += size
            if caches[own[place]].has(piece, size):
                continue
            missed += size
            if piece not in home:
                home[piece] = draw.randrange(halves)
            if home[piece] != own[place]:
                forwarded += size
                if caches[home[piece]].has(piece, size):
                    continue
            read += size
        if step + 1 < steps:
            heapq.heapreplace(running, (now + each, number, place, step + 1, each))
        elif begun < len(order):
            heapq.heapreplace(running, (now + each, begun, place, 0, _step(steps, drift, draw)))
            begun += 1
        else:
            heapq.heappop(running)
    return Shared(asked, missed, forwarded, read)


def _step(steps: int, drift: float, draw: random.Random) -> float:
    """The time of a step of a block that has so many; a block takes about 1, never less than ½."""
    return max(0.5, draw.gauss(1, drift) if drift else 1.0) / steps
