"""To pack or not to pack: which parts of which arrays to copy, before which loop.

A candidate is an array and a depth: what the array's reference touches inside that many loops is
copied, in the order of use, before them. It can pay only where it is used more often than it is
copied, so where the loop behind the copy comes back to what it has touched; and only where what
is copied does not lie in one piece and in order already. The benefit of a candidate is what the
estimate of :mod:`phasebit.nests.misses` saves in the loops, its cost is what the copy takes.
The best ratio is taken first, then the others are looked at again with it in place.

After Rohwedder, Henderson, De Carvalho, Chen and Amaral, *To Pack or Not to Pack: A Generalized
Packing Analysis and Transformation*, CGO 2023. By the source of their pass they count the entries
of a TLB that a pack saves in loops that did not fit before and do after, and keep a pack that saves
none if it brings the innermost index into order; here the misses of all levels count. What would
copy a whole array before the outermost loop is a candidate only where ``whole`` allows it. To copy
only where it pays is the idea of Temam, Granston and Jalby, Supercomputing 1993.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from phasebit import caches
from phasebit.nests import misses
from phasebit.nests.loops import Nest, Pack, strides
from phasebit.nests.source import buffer_shape


@dataclass(frozen=True)
class Candidate:
    """What packing one array at one depth would do to a nest."""

    pack: Pack
    shape: tuple[int, ...]  # of the buffer
    uses: float  # of each element copied
    pages: tuple[int, int]  # touched inside the loops that the copy stands before; after, before
    stride: tuple[int, int]  # elements from one use to the next; before, after
    benefit: float  # cycles saved in the loops, estimated
    cost: float  # cycles of copying, estimated

    @property
    def ratio(self) -> float:
        """Benefit over cost: it pays above one."""
        return self.benefit / self.cost


@dataclass(frozen=True)
class Plan:
    """What the analysis found, best first, and what it decided."""

    nest: Nest
    candidates: tuple[Candidate, ...]
    chosen: Nest  # the nest with what pays packed

    def __str__(self) -> str:
        heading = ("pack", "buffer", "KiB", "uses", "pages", "stride", "benefit", "cost", "ratio")
        rows = [heading]
        for each in self.candidates:
            million = (f"{each.benefit / 1e6:.1f}", f"{each.cost / 1e6:.1f}")
            rows.append(
                (
                    f"{each.pack.array} at depth {each.pack.depth}",
                    "×".join(map(str, each.shape)),
                    f"{np.prod(each.shape) * misses.ELEMENT / 1024:.0f}",
                    f"{each.uses:.0f}",
                    f"{each.pages[0]} → {each.pages[1]}",
                    f"{each.stride[0]} → {each.stride[1]}",
                    *million,
                    f"{each.ratio:.1f}",
                )
            )
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(c.rjust(w) for c, w in zip(row, wide, strict=True)) for row in rows]
        packs = ", ".join(f"{pack.array} at depth {pack.depth}" for pack in self.chosen.packs)
        return "\n".join([*lines, f"decision: {'pack ' + packs if packs else 'do not pack'}"])


def places(nest: Nest, whole: bool = True) -> list[Pack]:
    """Where packing can pay at all: each array with the depths at which it is used again.

    ``whole`` allows the copies before the outermost loop, which are of a whole array.
    """
    found = []
    for factor in nest.factors:
        for depth in range(0 if whole else 1, len(nest.order)):
            pack = Pack(factor.array, depth)
            if _comes_back(nest, pack) and not _in_order(nest, pack):
                found.append(pack)
    return found


def analyse(
    nest: Nest, whole: bool = False, levels: Sequence[caches.Level] = caches.TYPICAL
) -> Plan:
    """Rank the candidates of a nest without packs, and choose.

    Raises ``ValueError`` for a nest that packs already.
    """
    if nest.packs:
        raise ValueError(f"this nest packs already: {nest}")
    ranked = sorted(
        (candidate(nest, pack, levels) for pack in places(nest, whole)),
        key=lambda each: each.ratio,
        reverse=True,
    )
    chosen = nest
    while True:
        taken = {pack.array for pack in chosen.packs}
        left = [
            candidate(chosen, each.pack, levels) for each in ranked if each.pack.array not in taken
        ]
        best = max(left, key=lambda each: each.ratio, default=None)
        if best is None or best.ratio <= 1:
            return Plan(nest, tuple(ranked), chosen)
        chosen = chosen.pack(best.pack.array, best.pack.depth)


def candidate(nest: Nest, pack: Pack, levels: Sequence[caches.Level] = caches.TYPICAL) -> Candidate:
    """What one more pack does to a nest, which may have others."""
    packed = nest.pack(pack.array, pack.depth)
    before, after = misses.estimate(nest, levels), misses.estimate(packed, levels)
    old = misses.copying(nest, levels) if nest.packs else None
    cost = misses.copying(packed, levels).cycles - (old.cycles if old else 0)
    return Candidate(
        pack,
        buffer_shape(nest, pack),
        nest.iterations / misses.copied(nest, pack),
        (
            misses.entries(nest, pack.array, pack.depth),
            misses.entries(packed, pack.array, pack.depth),
        ),
        (misses.stride(nest, pack.array), misses.stride(packed, pack.array)),
        before.cycles - after.cycles + cost,
        cost,
    )


def every(nest: Nest, whole: bool = True) -> list[Nest]:
    """The nest with every choice of places, one depth an array or none: the first packs nothing."""
    choices: list[list[Pack | None]] = []
    for factor in nest.factors:
        own = [pack for pack in places(nest, whole) if pack.array == factor.array]
        choices.append([None, *own])
    found = []
    for choice in itertools.product(*choices):
        one = nest
        for pack in filter(None, choice):
            one = one.pack(pack.array, pack.depth)
        found.append(one)
    return found


def _comes_back(nest: Nest, pack: Pack) -> bool:
    """Whether the loop behind the copy touches some elements in more than one of its rounds."""
    here = int(np.prod(nest.box(pack.array, pack.depth)))
    inside = int(np.prod(nest.box(pack.array, pack.depth + 1)))
    level = nest.order[pack.depth]
    trips = -(-nest.sizes(pack.depth)[level.variable] // level.step)
    return here > 1 and here < trips * inside


def _in_order(nest: Nest, pack: Pack) -> bool:
    """Whether what would be copied lies in one piece, in the order of use."""
    box, steps = nest.box(pack.array, pack.depth), strides(nest.shape(pack.array))
    used = [d for d in nest.dimensions(pack.array) if box[d] > 1]
    span = 1 + sum((box[d] - 1) * steps[d] for d in used)
    return used == sorted(used) and span == int(np.prod(box))
