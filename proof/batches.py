"""All programs, cut into batches that can be generated and run anywhere.

A batch names a range of a collection; whoever holds one generates the programs
itself.  So 20,000 programs travel to 16 processes as a few words each.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from proof import (
    additions,
    boxes,
    chains,
    copies,
    departures,
    forms,
    machine,
    meetings,
    slices,
    sparse,
    sums,
    warpgroups,
)
from proof.program import Program

CHAINS = 16_000
"""Random chains in the whole proof."""

MEETINGS = 2_000
"""Random programs of whole blocks."""


FIXED = {
    "forms": forms, "machine": machine, "additions": additions, "sums": sums,
    "warpgroups": warpgroups, "copies": copies, "boxes": boxes, "slices": slices,
    "sparse": sparse, "departures": departures,
}  # fmt: skip
"""Collections that are the same each time; the others are drawn."""

LEVELS = {"departures": departures.LEVEL}
"""How much ptxas optimises a collection, where it is not as much as it does by itself."""

DRAWN = {"chains": chains, "meetings": meetings}

COLLECTIONS = (*FIXED, *DRAWN)


@functools.cache
def _fixed(collection: str) -> tuple[Program, ...]:
    return tuple(FIXED[collection].programs())


@dataclass(frozen=True)
class Batch:
    """Programs ``first`` to ``first + count - 1`` of a collection."""

    collection: str
    first: int
    count: int

    @property
    def level(self) -> int:
        """How much the assembler optimises these programs, 0 to 3."""
        return LEVELS.get(self.collection, 3)

    def programs(self) -> list[Program]:
        """The programs themselves."""
        if self.collection in DRAWN:
            return list(DRAWN[self.collection].programs(self.count, self.first))
        return list(_fixed(self.collection)[self.first : self.first + self.count])


def batches(
    collections: tuple[str, ...] = COLLECTIONS,
    chain_count: int = CHAINS,
    size: int = 200,
) -> Iterator[Batch]:
    """The whole proof, or some of its collections."""
    for collection in collections:
        drawn = {"chains": chain_count, "meetings": MEETINGS}
        total = drawn[collection] if collection in drawn else len(_fixed(collection))
        for first in range(0, total, size):
            yield Batch(collection, first, min(size, total - first))
