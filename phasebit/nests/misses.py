"""How many misses a loop nest has, estimated from what its inner loops touch, without running it.

While the outer loops stand still, the inner ones touch a box of every array: so many lines, so
many pages, in such sets. What one round of a loop touches is still there in the next round, if the
sets that hold it are not asked for more than they have ways. If they are, it is fetched again in
each round. That is the whole estimate. It knows no prefetching, and takes the boxes where they
lie in the first round.

Sources: footprints of loops and reuse carried by a loop, Wolf and Lam, PLDI 1991; sets and ways,
*Caches and tiles*.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phasebit import caches
from phasebit.nests.loops import Nest, Pack, strides

ELEMENT, PAGE = 4, 4096  # bytes

CYCLES = {"L1": 14, "L2": 60, "TLB": 9, "L2 TLB": 30}
"""What one miss of a level costs, in cycles. An assumption, of the size that processors like
Skylake have: L2 answers after 14 cycles (Intel's optimization manual), the others are a guess."""

ACCESS = 1
"""Cycles of an access that misses nothing; an assumption too."""

Sets = NDArray[np.int64]


@dataclass(frozen=True)
class Cost:
    """What a nest asks of the memory, estimated or counted."""

    accesses: float
    misses: dict[str, float]  # name of the level -> how many

    @property
    def cycles(self) -> float:
        """With the costs that :data:`CYCLES` assumes, one after the other."""
        return ACCESS * self.accesses + sum(CYCLES[name] * n for name, n in self.misses.items())

    def __add__(self, other: Cost) -> Cost:
        misses = {name: n + other.misses[name] for name, n in self.misses.items()}
        return Cost(self.accesses + other.accesses, misses)


@dataclass(frozen=True)
class _Stream:
    """One array as it is walked through: the sets of its box at each depth, misses inside."""

    sets: tuple[Sets, ...]  # at depth 0, 1, …: the loops that stand still
    inside: float = 1.0  # misses while the loops of the last of these depths stand still


def counted(counts: caches.Counts) -> Cost:
    """The cost of what the simulator counted."""
    return Cost(counts.accesses, {name: float(n) for name, n in counts.misses.items()})


def estimate(nest: Nest, levels: Sequence[caches.Level] = caches.TYPICAL) -> Cost:
    """Accesses and misses of one run, from the boxes alone."""
    return _used(nest, levels) + copying(nest, levels)


def copying(nest: Nest, levels: Sequence[caches.Level] = caches.TYPICAL) -> Cost:
    """The part of the estimate that the copies are: to read the arrays, and to write buffers."""
    accesses = 2 * sum(copied(nest, pack) for pack in nest.packs)
    return Cost(accesses, {level.name: sum(_misses(nest, level)[1]) for level in levels})


def _used(nest: Nest, levels: Sequence[caches.Level]) -> Cost:
    accesses = nest.iterations * (2 + len(nest.factors))
    return Cost(accesses, {level.name: sum(_misses(nest, level)[0]) for level in levels})


def entries(nest: Nest, array: str, depth: int, granule: int = PAGE) -> int:
    """Pages (or lines of ``granule`` bytes) that a reference touches inside ``depth`` loops.

    When the nest packs the array there or further out, those of the buffer.
    """
    shape, box = _storage(nest, array, depth)
    return int(_sets(shape, box, 0, granule, 1).sum())


def copied(nest: Nest, pack: Pack) -> int:
    """Elements that a pack copies in one run of the nest."""
    return rounds(nest, pack.depth) * int(np.prod(nest.box(pack.array, pack.depth)))


def rounds(nest: Nest, depth: int) -> int:
    """How often the ``depth`` outer loops come round."""
    return int(np.prod([_trips(nest, d) for d in range(depth)], dtype=np.int64))


def stride(nest: Nest, array: str) -> int:
    """By how many elements the reference moves in one round of the innermost loop that moves it."""
    shape, _ = _storage(nest, array, len(nest.order))
    index = nest.reference(array).index
    if any(pack.array == array for pack in nest.packs):
        index = tuple(index[dimension] for dimension in nest.dimensions(array))
    for level in reversed(nest.order):
        step = sum(
            each.factor(level.variable) * size
            for each, size in zip(index, strides(shape), strict=True)
        )
        if step:
            return step
    return 0


# What is where


def _trips(nest: Nest, depth: int) -> int:
    level = nest.order[depth]
    return -(-nest.sizes(depth)[level.variable] // level.step)


def _storage(nest: Nest, array: str, depth: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of what holds the array's elements there, and of the box within."""
    for pack in nest.packs:
        if pack.array == array and pack.depth <= depth:
            order = nest.dimensions(array)
            whole, box = nest.box(array, pack.depth), nest.box(array, depth)
            return tuple(whole[d] for d in order), tuple(box[d] for d in order)
    return nest.shape(array), nest.box(array, depth)


@functools.lru_cache(maxsize=4096)
def _sets(shape: tuple[int, ...], box: tuple[int, ...], at: int, granule: int, sets: int) -> Sets:
    """How many granules of a box each set holds; the array begins at byte ``at``."""
    offsets = np.array([at], np.int64)
    for extent, step in zip(box, strides(shape), strict=True):
        # Neighbours less than a granule apart: some of them are enough to name every granule.
        apart = max(1, granule // (step * ELEMENT))
        places = np.unique(np.append(np.arange(0, extent, apart), extent - 1))
        offsets = (offsets[:, None] + places * step * ELEMENT).ravel()
        if granule > 1 and step == 1:
            offsets = np.unique(offsets // granule) * granule
    return np.bincount(np.unique(offsets // granule) % sets, minlength=sets)


# How often it is fetched


def _walk(trips: Sequence[int], streams: Sequence[_Stream], ways: int) -> list[float]:
    """The misses of each stream in a nest of loops, from the innermost outwards."""
    found = [stream.inside for stream in streams]
    for depth in reversed(range(len(trips))):
        inner = [s.sets[depth + 1] for s in streams if depth + 1 < len(s.sets)]
        # The buffers and sources that are used only further out are not asked for in here.
        full = np.sum(inner, axis=0) > ways
        for i, stream in enumerate(streams):
            if depth + 1 < len(stream.sets):
                here, body = stream.sets[depth], stream.sets[depth + 1]
                lost = body[full].sum() / body.sum()
                again = trips[depth] * found[i]
                found[i] = lost * again + (1 - lost) * min(again, float(here.sum()))
    return found


@functools.lru_cache(maxsize=1024)
def _misses(nest: Nest, level: caches.Level) -> tuple[list[float], list[float]]:
    """The misses of target and factors, or of their buffers; and those of what is copied."""
    depths = len(nest.order)
    packs = {pack.array: pack for pack in nest.packs}
    at = 0
    places = {}
    for each in nest.references:
        places[each.array], at = at, _after(at, nest.shape(each.array))
    streams, sources = [], []
    for each in nest.references:
        pack = packs.get(each.array)
        if pack is None:
            boxes = [nest.box(each.array, depth) for depth in range(depths + 1)]
            shape, place = nest.shape(each.array), places[each.array]
        else:
            inner = [
                _storage(nest, each.array, max(depth, pack.depth)) for depth in range(depths + 1)
            ]
            boxes, shape, place = [box for _, box in inner], inner[0][0], at
            at = _after(at, shape)
            sources.append(_source(nest, pack, level, places[each.array], place))
        sets = tuple(_sets(shape, box, place, level.line, level.sets) for box in boxes)
        streams.append(_Stream(sets))
    trips = [_trips(nest, depth) for depth in range(depths)]
    found = _walk(trips, [*streams, *sources], level.ways)
    return found[: len(streams)], found[len(streams) :]


def _source(nest: Nest, pack: Pack, level: caches.Level, at: int, buffer_at: int) -> _Stream:
    """What a pack reads: the array, box by box, in the order of the buffer."""
    shape, order = nest.shape(pack.array), nest.dimensions(pack.array)
    box = nest.box(pack.array, pack.depth)
    source, buffer = [], []
    for still in range(len(order) + 1):  # dimensions of the copy's loops that stand still
        part = [1 if d in order[:still] else extent for d, extent in enumerate(box)]
        source.append(_sets(shape, tuple(part), at, level.line, level.sets))
        whole = tuple(box[d] for d in order)
        inner = tuple(part[d] for d in order)
        buffer.append(_sets(whole, inner, buffer_at, level.line, level.sets))
    trips = [box[dimension] for dimension in order]
    inside, _ = _walk(trips, [_Stream(tuple(source)), _Stream(tuple(buffer))], level.ways)
    outer = tuple(
        _sets(shape, nest.box(pack.array, depth), at, level.line, level.sets)
        for depth in range(pack.depth + 1)
    )
    return _Stream(outer, inside)


def _after(at: int, shape: Sequence[int]) -> int:
    """Where the next array begins: as in :meth:`phasebit.nests.Program.watch`."""
    return at + (-(-int(np.prod(shape)) * ELEMENT // PAGE) + 1) * PAGE
