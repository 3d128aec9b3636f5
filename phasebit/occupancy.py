"""How many blocks of a kernel fit on a multiprocessor, and what limits them.

A multiprocessor has so many places for threads, registers, bytes of shared memory and blocks. Each
resident block takes its part of each, in units, and keeps it until it ends. Blocks that fit are
the smallest of four quotients; resident warps over the most that fit is the *occupancy*.

Units: threads come in whole warps; registers per warp, in units of 256, from four files over
which the warps of a block spread; shared memory in units of 128 bytes (256 on sm_75), plus
what the system takes of each block.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability";
CUDA C++ Best Practices Guide, "Calculating Occupancy"; the units, from the toolkit's
``cuda_occupancy.h``. ``records/04_threads_and_memory`` compares this module with the runtime's
own calculator on a GPU, configuration by configuration.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
MAX_BLOCK = 1024  # threads
REGISTER_UNIT = 256
FILES = 4  # register files of a multiprocessor; each warp lives in one

_KIB = 1024


@dataclass(frozen=True)
class Limits:
    """What one multiprocessor holds at a time: threads, blocks, bytes, registers."""

    threads: int = 2048
    blocks: int = 32
    shared: int = 228 * _KIB
    block_shared: int = 227 * _KIB  # the most that one block may ask for
    reserved_shared: int = 1024  # bytes taken by the system from every block
    registers: int = 65536
    shared_unit: int = 128  # bytes

    @property
    def warps(self) -> int:
        """The most warps that are resident together."""
        return self.threads // WARP


LIMITS: dict[int, Limits] = {
    75: Limits(1024, 16, 64 * _KIB, 64 * _KIB, 0, shared_unit=256),
    80: Limits(2048, 32, 164 * _KIB, 163 * _KIB),
    86: Limits(1536, 16, 100 * _KIB, 99 * _KIB),
    87: Limits(1536, 16, 164 * _KIB, 163 * _KIB),
    89: Limits(1536, 24, 100 * _KIB, 99 * _KIB),
    90: Limits(),
    100: Limits(),
    103: Limits(),
    110: Limits(1536, 24),
    120: Limits(1536, 24, 100 * _KIB, 99 * _KIB),
    121: Limits(1536, 24, 100 * _KIB, 99 * _KIB),
}
"""Compute capability (90 for sm_90) -> the limits of its multiprocessors."""


def limits(capability: int) -> Limits:
    """The limits of sm_`capability`, or of the nearest older one that is in the table."""
    known = [item for item in LIMITS if item <= capability]
    return LIMITS[max(known, default=75)]


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
