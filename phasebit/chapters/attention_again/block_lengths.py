"""Blocks of causal attention have unequal lengths: when the last is done, in which order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

KEYS, QUERIES = 128, 256
"""Of a step, and of a block."""

ORDERS = ("tile by tile", "a head's longest first", "the longest of all heads first")


def lengths(order: str, tokens: int, heads: int) -> list[int]:
    """Steps of each block, in the order in which they are started; one of :data:`ORDERS`.

    ``tokens``: of a sequence, a multiple of 256; each query sees the keys up to its own place.
    """
    tiles = tokens // QUERIES
    one = [(tile + 1) * QUERIES // KEYS for tile in range(tiles)]
    if order == ORDERS[0]:
        return one * heads
    if order == ORDERS[1]:
        return one[::-1] * heads
    return [steps for steps in one[::-1] for _ in range(heads)]


def latest(steps: Sequence[int], multiprocessors: int) -> float:
    """When the last block is done, in parts of the mean: who is free takes the next block."""
    ends = [0] * multiprocessors
    for each in steps:
        heapq.heappush(ends, heapq.heappop(ends) + each)
    return max(ends) * multiprocessors / sum(steps)
