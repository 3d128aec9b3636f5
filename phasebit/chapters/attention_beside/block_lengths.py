"""Blocks of causal attention have unequal lengths: when the last is done, in which order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phasebit.measure import Table
    from phasebit.timeline import Timeline

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


def drawn(order: str, tokens: int = 1280, heads: int = 3, multiprocessors: int = 5) -> Timeline:
    """What each multiprocessor does in a small launch; a block's label is its length in steps."""
    from phasebit.timeline import Span, Timeline

    free = [(0, number) for number in range(multiprocessors)]
    spans = []
    for steps in lengths(order, tokens, heads):
        begin, number = heapq.heappop(free)
        spans.append(Span(f"multiprocessor {number}", begin, begin + steps, "consume", f"{steps}"))
        heapq.heappush(free, (begin + steps, number))
    last = max(end for end, _ in free)
    return Timeline(
        [f"multiprocessor {number}" for number in range(multiprocessors)], spans, unit="step",
        title=f"{order[0].upper()}{order[1:]}: the last block ends after {last} steps",
        legend={"consume": "a block, with its steps"},
    )  # fmt: skip


def table(*tokens: int, heads: int = 16, multiprocessors: int = 148) -> Table:
    """When the last block is done, by order, for sequences of these lengths."""
    from phasebit.measure import Table

    rows = (
        (order, *(f"{latest(lengths(order, each, heads), multiprocessors):.2f}" for each in tokens))
        for order in ORDERS
    )
    return Table(
        ("blocks in the order", *(f"{each:,} tokens" for each in tokens)), tuple(rows),
        "when the last block is done; 1 is the work divided evenly; a step is the unit",
    )
