"""Which blocks share a multiprocessor, and so its 512 columns of tensor memory (PTX ISA 9.7.16.1).

A launch says how many do, ``resident``; unless it does each block has a multiprocessor to itself.
The blocks of a cluster lie on different ones: with two clusters of four blocks and
``resident=2`` the two first blocks share one, the two second, and so on.
"""

from __future__ import annotations

from phasebit.emulator.capabilities import limits
from phasebit.emulator.machine.batch import RESERVED, Batch


def sharers(batch: Batch, slot: int) -> list[int]:
    """The blocks on the multiprocessor of a block, by their places in the batch."""
    size, together = batch.machine.cluster_size, batch.machine.resident
    cluster, rank = divmod(slot, size)
    first = cluster // together * together
    places = [one * size + rank for one in range(first, first + together)]
    return [place for place in places if place < batch.count]


def two_fit(batch: Batch) -> bool:
    """Whether a multiprocessor has shared memory for two blocks of the launch, if it has two."""
    machine = batch.machine
    return machine.blocks > machine.cluster_size and (
        2 * (machine.reserved + RESERVED) <= limits(100).shared
    )


__all__ = ["sharers", "two_fit"]
