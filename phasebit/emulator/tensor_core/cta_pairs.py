"""Pairs of blocks that multiply together: ``cta_group::2`` (PTX ISA 9.7.16.5, 9.7.16.10.5).

Two blocks of a cluster whose ranks differ in the last bit are a *pair*; the even one is the
*leader*.  One thread of either issues a product for both.  Each block gives half of the rows of
A and half of the rows of B from its own shared memory, at the same places, and gets half of D
into its own tensor memory:

``M = 256``   block b of the pair holds rows 128 b to 128 b + 127, row m in lane m % 128
``M = 128``   block b holds rows 64 b to 64 b + 63; lane m % 64 has the first half of N, the lane
              64 further the second half, in N / 2 columns.  A in tensor memory lies in both
              halves of the lanes, as CuTe has it (``TmemAllocMode::Duplicated``).  With a
              sparse A there are no such halves: D lies as one block with M = 64 has it.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence
from phasebit.emulator.machine.batch import Batch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.tensor_memory import tensor_memory


def pair_of(batch: Batch, slot: int) -> tuple[int, ...]:
    """The places in the batch of a block's pair, the leader first; empty where there is none."""
    size = batch.machine.cluster_size
    leader = slot // size * size + slot % size // 2 * 2
    return (leader, leader + 1) if leader % size + 1 < size else ()


def blocks(g: Group, group: int, what: str, where: Sentence) -> tuple[int, ...]:
    """The blocks that an instruction of one thread or warp works for, the leader first.

    Raises :class:`Fault` where ``cta_group::2`` finds no pair, and where the kernel uses both
    groups: all its tcgen05 instructions must name the same (PTX ISA 9.7.16.5).
    """
    slot = int(g.lanes[0]) // g.batch.threads
    memory = tensor_memory(g.batch)
    first, there = memory.group = memory.group or (group, where)
    if first != group:
        raise Fault(
            "{} of {} is for cta_group::{}, and an earlier instruction of the kernel for "
            "cta_group::{}; all must be for the same: {}; {}",
            what, g.batch.describe(g.lanes), group, first, where, there,
        )
    if group == 1:
        return (slot,)
    found = pair_of(g.batch, slot)
    if not found:
        raise Fault(
            "{} of {} is for a pair of blocks (cta_group::2), and its cluster of {} has none: "
            "launch with clusters of an even number of blocks; {}",
            what, g.batch.describe(g.lanes), g.batch.machine.cluster_size, where,
        )
    return found


class Accumulator:
    """D in the tensor memory of one block or of a pair: rows of numbers [M, N]."""

    def __init__(
        self, cells: Array, slots: tuple[int, ...], lanes: Array, column: int, m: int, n: int,
        halved: bool,
    ) -> None:  # fmt: skip
        self.cells = cells
        self.slots = slots
        self.lanes = lanes
        """Of one block: the lane of each row."""
        self.halved = halved
        """Whether the second half of N lies 64 lanes further."""
        self.columns = slice(column, column + (n // 2 if self.halved else n))
        self.shape = m, n

    def read(self) -> Array:
        """D [M, N]."""
        m, n = self.shape
        if len(self.slots) == 1:
            own: Array = self.cells[self.slots[0], self.lanes, self.columns]
            return own
        both = self.cells[self.slots[0] : self.slots[0] + 2, :, self.columns]
        if not self.halved:
            return both[:, self.lanes].reshape(m, n)
        return both.reshape(2, 2, 64, n // 2).transpose(0, 2, 1, 3).reshape(m, n)

    def write(self, result: Array, kept: Array | None) -> None:
        """Put D there; ``kept``, one a lane [blocks * 128], says which lanes are written."""
        n = self.shape[1]
        if len(self.slots) == 1:
            slot = self.slots[0]
            if kept is None:
                self.cells[slot, self.lanes, self.columns] = result
            else:
                some = kept[self.lanes]
                self.cells[slot, self.lanes[some], self.columns] = result[some]
            return
        if self.halved:
            result = result.reshape(2, 64, 2, n // 2).transpose(0, 2, 1, 3)
        both = result.reshape(2, len(self.lanes), -1)
        for slot, part, lanes in zip(
            self.slots, both, np.ones((2, 128), bool) if kept is None else kept.reshape(2, 128),
            strict=True,
        ):  # fmt: skip
            some = lanes[self.lanes]
            self.cells[slot, self.lanes[some], self.columns] = part[some]


__all__ = ["Accumulator", "blocks", "pair_of"]
