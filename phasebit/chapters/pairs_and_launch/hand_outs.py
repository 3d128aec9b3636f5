"""Who makes which tile: arithmetic of a static grid, and of tiles that are taken while it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phasebit.timeline import Timeline

Made = list[list[tuple[int, int, int]]]
"""Of each multiprocessor (tile, begin, end)."""

LENGTHS, FREE = (4096,) * 16, (0, 0, 0, 12_000)
"""Sixteen tiles, and from which clock on each of four multiprocessors is free."""


def static(lengths: Sequence[int], free: Sequence[int]) -> Made:
    """Tile i is the work of multiprocessor i modulo their number: known before the launch."""
    done: Made = [[] for _ in free]
    ready = list(free)
    for tile, length in enumerate(lengths):
        who = tile % len(free)
        done[who].append((tile, ready[who], ready[who] + length))
        ready[who] += length
    return done


def on_demand(lengths: Sequence[int], free: Sequence[int], ahead: int = 0) -> Made:
    """Whoever is free first takes the next tile, as with cluster launch control.

    ``ahead``: whoever begins a tile takes more, until it holds that many besides. At the same
    clock the lower number comes first.
    """
    done: Made = [[] for _ in free]
    ready, held = list(free), [deque[int]() for _ in free]
    left = deque(range(len(lengths)))
    while left or any(held):
        able = [p for p in range(len(free)) if left or held[p]]
        who = min(able, key=lambda p: (ready[p], p))
        tile = held[who].popleft() if held[who] else left.popleft()
        while left and len(held[who]) < ahead:
            held[who].append(left.popleft())
        done[who].append((tile, ready[who], ready[who] + lengths[tile]))
        ready[who] += lengths[tile]
    return done


def last(made: Made) -> int:
    """When the last tile is done."""
    return max(end for tiles in made for _, _, end in tiles)


WAYS = {"static": static, "on demand": on_demand}


def said() -> str:
    """Both ways for :data:`LENGTHS` and :data:`FREE`: when the last is done, who made how many."""
    lines = []
    for what, hand_out in WAYS.items():
        made = hand_out(LENGTHS, FREE)
        lines.append(f"{what:>9}: {last(made)} clocks; tiles each made: {[*map(len, made)]}")
    return "\n".join(lines)


def drawn() -> Timeline:
    """:data:`WAYS` by one clock, for :data:`LENGTHS` and :data:`FREE`."""
    from phasebit.timeline import Span, Timeline

    rows, spans = [], []
    for what, hand_out in WAYS.items():
        made = hand_out(LENGTHS, FREE)
        for number, (free, tiles) in enumerate(zip(FREE, made, strict=True)):
            rows.append(f"{what}, {number}")
            if free:
                spans.append(Span(rows[-1], 0, free, "stall"))
            spans += [Span(rows[-1], begin, end, "consume", str(i)) for i, begin, end in tiles]
    return Timeline(
        rows, spans, unit="clock",
        title="Sixteen tiles on four multiprocessors: arithmetic, no time",
        legend={"stall": "another kernel", "consume": "a tile, by its number"},
    )  # fmt: skip
