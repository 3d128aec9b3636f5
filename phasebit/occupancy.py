"""How many blocks of a kernel fit on a multiprocessor, and what limits them.

A multiprocessor has so many places for threads, registers, bytes of shared memory and blocks. Each
resident block takes its part of each, in units, and keeps it until it ends. Blocks that fit are
the smallest of four quotients; resident warps over the most that fit is the *occupancy*.

Units: threads come in whole warps; registers per warp, in units of 256, from four files over
which the warps of a block spread; shared memory in units of 128 bytes (256 on sm_75), plus
what the system takes of each block.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability";
CUDA C++ Best Practices Guide, "Calculating Occupancy"; the units, from the toolkit's
``cuda_occupancy.h``. ``records/threads_and_memory`` compares this module with the runtime's
own calculator on a GPU, configuration by configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

from phasebit.emulator.capabilities import (
    LIMITS,
    MAX_BLOCK,
    REGISTER_UNIT,
    WARP,
    Limits,
    limits,
)
from phasebit.emulator.capabilities import REGISTER_FILES as FILES


@dataclass(frozen=True)
class Occupancy:
    """Blocks of one kernel that are resident together on one multiprocessor.

    ``fits``: for each resource, how many blocks it alone would allow.
    """

    blocks: int
    warps: int  # resident
    most_warps: int  # of the multiprocessor
    fits: dict[str, int]

    @property
    def share(self) -> float:
        """Resident warps over the most that fit: the occupancy, from 0 to 1."""
        return self.warps / self.most_warps

    @property
    def limited_by(self) -> tuple[str, ...]:
        """The resources that allow no block more."""
        return tuple(name for name, blocks in self.fits.items() if blocks == self.blocks)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def occupancy(own: Limits, registers: int, shared: int, threads: int) -> Occupancy:
    """The occupancy of a kernel.

    ``registers`` a thread, ``shared`` bytes a block (static and dynamic),
    ``threads`` a block. No block fits when the block itself is impossible: no
    thread, more than 1024, or more shared memory than a block may have. Barriers
    are not counted: ``__syncthreads`` alone never limits.

    >>> occupancy(limits(90), registers=32, shared=0, threads=256).blocks
    8
    >>> occupancy(limits(90), registers=40, shared=0, threads=256).limited_by
    ('registers',)
    """
    if not 0 < threads <= MAX_BLOCK or shared > own.block_shared:
        return Occupancy(0, 0, own.warps, dict.fromkeys(("block",), 0))
    warps = _up(threads, WARP) // WARP
    fits = {"blocks": own.blocks, "threads": own.warps // warps}
    if registers:
        a_warp = _up(registers * WARP, REGISTER_UNIT)
        fits["registers"] = own.registers // FILES // a_warp * FILES // warps
    taken = _up(shared + own.reserved_shared, own.shared_unit)
    if taken:
        fits["shared memory"] = own.shared // taken
    blocks = min(fits.values())
    return Occupancy(blocks, blocks * warps, own.warps, fits)


def shared_for_blocks(own: Limits, blocks: int, static: int) -> int:
    """Dynamic shared bytes that each of `blocks` resident blocks may have."""
    if blocks <= 0:
        return 0
    share = own.shared // blocks // own.shared_unit * own.shared_unit - own.reserved_shared
    return max(0, min(share, own.block_shared) - static)


__all__ = ["LIMITS", "Limits", "Occupancy", "limits", "occupancy", "shared_for_blocks"]
