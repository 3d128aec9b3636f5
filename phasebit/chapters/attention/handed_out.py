"""A model of who makes which tiles of the output: a counter hands them out, one after another.

A tile takes as long as its tiles of keys, and one more. No clock, no memory: only the order.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from statistics import mean

from phasebit.chapters.attention import attend
from phasebit.chapters.attention.rungs import HEADS, TOKENS

KEYS = 64
"""Of a tile, in kernels f and g."""


def lengths(d: int, length: int, together: int = 1) -> list[int]:
    """How long each tile of the output takes, in the order of kernel g's counter; causal.

    ``together``: batches whose heads count as one batch's; the batches are a multiple of it.
    """
    rows = 64 * attend.groups(attend.source(attend.NEXT), d)
    last = [min(length, row + rows) for row in reversed(range(0, length, rows))]
    a_batch = [-(-end // KEYS) + 1 for end in last for _ in range(HEADS * together)]
    return a_batch * (TOKENS // length // together)


def done(lengths: Sequence[float], blocks: int, ahead: int) -> list[float]:
    """When each block has made its last tile.

    Every block is given its first tile, in order, and so many more that it asks ``ahead``. Each
    time it begins a tile but its first, it asks for another. (With none ahead it asks when it has
    nothing to do.)

    >>> done([3, 1, 2, 2], blocks=2, ahead=0), done([3, 1, 2, 2], blocks=2, ahead=1)
    ([5, 3], [5, 3])
    """
    left = deque(lengths)
    given = [deque[float]() for _ in range(blocks)]
    for _ in range(1 + ahead):
        for mine in given:
            if left:
                mine.append(left.popleft())
    ends = [0.0] * blocks
    free = [(0.0, block) for block in range(blocks)]
    while free:
        at, block = heapq.heappop(free)
        if at and left:
            given[block].append(left.popleft())
        if given[block]:
            ends[block] = at + given[block].popleft()
            heapq.heappush(free, (ends[block], block))
    return ends


def idle(ends: Sequence[float]) -> float:
    """What part of the time until the last block is done a block has nothing to do, on average."""
    return 1 - mean(ends) / max(ends)
