"""Who touched which bytes: the accesses of a launch, to draw.

``kernel.launch(…, accesses=True)`` keeps every load and store of global and shared memory,
one :class:`Access` for each instruction and warp, in the order in which they were executed.
Adjacent words that the assembler would join are one access, as in the counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from phasebit.emulator.types import Array

if TYPE_CHECKING:
    from phasebit.emulator.group import Group

ABSENT = -1
"""The address of a lane that takes no part."""


@dataclass(frozen=True, eq=False)
class Access:
    """One request: one instruction of one warp."""

    space: str  # "global" or "shared"
    op: str  # "load" or "store"
    size: int  # bytes that each lane asks for
    block: int  # linear number in the grid
    warp: int  # number in the block
    addresses: Array  # bytes, one for each of 32 lanes, or ABSENT; see below
    array: str  # "argument 0"; "shared memory"
    line: int | None  # of the CUDA source, where it is known

    # Global addresses count from the beginning of the array, which lies at a multiple of 256
    # bytes; shared ones from the beginning of the block's shared memory.

    @property
    def lanes(self) -> list[int]:
        """The lanes that take part."""
        return [int(lane) for lane in np.flatnonzero(self.addresses != ABSENT)]


def requests(
    g: Group, table: Array, space: str, op: str, parts: list[tuple[int, int]], line: int | None
) -> list[Access]:
    """The accesses of one instruction of a group, or of several through one register.

    ``table``: bytes of the emulator's memory, a row for each warp of the group; ``parts``: how
    far from there each request begins, and its bytes a lane.
    """
    batch = g.batch
    made = []
    for start, size in parts:
        for row, warp_of_batch in zip(table, np.unique(batch.warp_of[g.lanes]), strict=True):
            here = row != ABSENT
            slot, warp = divmod(int(warp_of_batch), batch.warps)
            if space == "shared":
                base, name = batch.shared_base + slot * batch.shared_stride, "shared memory"
            else:
                owner = batch.machine.memory.find(int(row[here][0]) + start)
                base, name = (owner.start, owner.name) if owner else (0, "memory")
            addresses = np.where(here, row + start - base, ABSENT)
            made.append(
                Access(space, op, size, int(batch.blocks[slot]), warp, addresses, name, line)
            )
    return made
