"""Who touched which bytes: the accesses of a launch, to draw.

``kernel.launch(…, accesses=True)`` keeps every load and store of global and shared memory,
one :class:`Access` for each instruction and warp, in the order in which they were executed.
Adjacent words that the assembler would join are one access, as in the counters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Selected
from phasebit.emulator.ptx.types import Array

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


@dataclass(frozen=True)
class Accesses:
    """Accesses of one segment that share an index array, for observers.

    ``words`` are offsets from the index, in units of ``width`` bytes.
    """

    words: tuple[int, ...]
    width: int
    requests: tuple[tuple[int, int], ...]
    """For each instruction its first word and its bytes a thread."""
    identity: int
    sem: str
    scope: str
    space: str

    @staticmethod
    def of(
        accesses: list[tuple[int, int]],
        first: int,
        width: int,
        instruction: Instruction,
        chosen: Selected,
        identity: int,
    ) -> Accesses:
        words: list[int] = []
        requests: list[tuple[int, int]] = []
        for offset, size in accesses:
            start = (offset - first) // width
            requests.append((start, size))
            words += range(start, start + size // width)
        return Accesses(
            tuple(dict.fromkeys(words)), width, tuple(requests), identity,
            chosen.options.get("sem", "weak"), chosen.options.get("scope", "cta"),
            chosen.options.get("space", "generic"),
        )  # fmt: skip
