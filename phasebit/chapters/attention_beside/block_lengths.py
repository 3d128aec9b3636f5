"""Blocks of causal attention have unequal lengths: when the last is done, in which order."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phasebit.measure import Table
    from phasebit.timeline import Timeline

KEYS, QUERIES = 128, 256
"""Of a step, and of a block."""

ORDERS = ("tile by tile", "a head's longest first", "the longest of all heads first")


Block = tuple[int, int]
"""A head, and the number of a block in it, from the fewest steps."""


def order_of(order: str, blocks: int, heads: int) -> list[Block]:
    """All blocks in the order in which they are started; one of :data:`ORDERS`."""
    if order == ORDERS[0]:
        return [(head, block) for head in range(heads) for block in range(blocks)]
    if order == ORDERS[1]:
        return [(head, block) for head in range(heads) for block in reversed(range(blocks))]
    return [(head, block) for block in reversed(range(blocks)) for head in range(heads)]


def by_groups(blocks: int, heads: int, together: int) -> list[Block]:
    """Heads in groups of ``together``, the longest of a group first; a smaller group comes first.

    No two blocks of a head are more than ``together * blocks`` places apart.
    """
    ends = range(heads % together or together, heads + 1, together)
    return [(head, block) for end in ends for block in reversed(range(blocks))
            for head in range(max(0, end - together), end)]  # fmt: skip


def of_block(block: int) -> int:
    """Steps of a block: each query sees the keys up to its own place."""
    return (block + 1) * QUERIES // KEYS


def lengths(order: str, tokens: int, heads: int) -> list[int]:
    """Steps of each block, in the order in which they are started; one of :data:`ORDERS`.

    ``tokens``: of a sequence, a multiple of 256.
    """
    return [of_block(block) for _, block in order_of(order, tokens // QUERIES, heads)]


def latest(steps: Sequence[int], multiprocessors: int) -> float:
    """When the last block is done, in parts of the mean: who is free takes the next block."""
    ends = [0] * multiprocessors
    for each in steps:
        heapq.heappush(ends, heapq.heappop(ends) + each)
    return max(ends) * multiprocessors / sum(steps)


def heads_at_a_time(blocks: Sequence[Block], multiprocessors: int) -> float:
    """Of how many heads blocks run at the same time, in the mean over the launch."""
    free = [0] * multiprocessors
    changes: list[tuple[int, int, int]] = []
    for head, block in blocks:
        begin = heapq.heappop(free)
        end = begin + of_block(block)
        heapq.heappush(free, end)
        changes += [(begin, 1, head), (end, -1, head)]
    running: Counter[int] = Counter()
    total = last = 0
    for at, more, head in sorted(changes):
        total += (at - last) * sum(count > 0 for count in running.values())
        running[head] += more
        last = at
    return total / last


def farthest(blocks: Sequence[Block]) -> int:
    """Places in the order from the first block of a head to its last, of the widest head."""
    places: dict[int, list[int]] = {}
    for place, (head, _) in enumerate(blocks):
        places.setdefault(head, []).append(place)
    return max(each[-1] - each[0] + 1 for each in places.values())


def drawn(order: str, tokens: int = 1280, heads: int = 3, multiprocessors: int = 5) -> Timeline:
    """What each multiprocessor does in a small launch; a block's label is its length in steps.

    Its colour is its head.
    """
    from phasebit.timeline import Span, Timeline

    free = [(0, number) for number in range(multiprocessors)]
    spans = []
    for head, block in order_of(order, tokens // QUERIES, heads):
        begin, number = heapq.heappop(free)
        steps = of_block(block)
        row = f"multiprocessor {number}"
        spans.append(Span(row, begin, begin + steps, f"head {head}", f"{steps}"))
        heapq.heappush(free, (begin + steps, number))
    last = max(end for end, _ in free)
    return Timeline(
        [f"multiprocessor {number}" for number in range(multiprocessors)], spans, unit="step",
        title=f"{order[0].upper()}{order[1:]}: the last block ends after {last} steps",
    )  # fmt: skip


def table(*tokens: int, heads: int = 16, multiprocessors: int = 148) -> Table:
    """When the last block is done, by order, for sequences of these lengths, and heads at a time.

    The heads are those of the last length.
    """
    from phasebit.measure import Table

    rows = (
        (order, *(f"{latest(lengths(order, each, heads), multiprocessors):.2f}" for each in tokens),
         f"{heads_at_a_time(order_of(order, tokens[-1] // QUERIES, heads), multiprocessors):.1f}")
        for order in ORDERS
    )  # fmt: skip
    return Table(
        ("blocks in the order", *(f"{each:,} tokens" for each in tokens),
         f"heads at a time, {tokens[-1]:,} tokens"),
        tuple(rows), "when the last block is done; 1 is the work divided evenly; a step is the "
        f"unit; heads whose blocks run at the same time, of {heads}, in the mean",
    )  # fmt: skip
