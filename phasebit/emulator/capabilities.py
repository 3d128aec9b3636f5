"""What a GPU has, by compute capability: the one place where these numbers stand.

Sources: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability"; the
units of shared memory, and all of sm_88, which that table lacks, from the toolkit's
``cuda_occupancy.h``; tensor memory, PTX ISA 9.7.16.1.

How many multiprocessors a GPU has belongs to a chip, not to a capability. The emulated one has
few, so that programs which size their grid by it stay quick.
"""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32
"""Threads."""

MAX_BLOCK = 1024
"""Threads of a block."""

MAX_BLOCK_EXTENTS = (1024, 1024, 64)
MAX_GRID = (2_147_483_647, 65_535, 65_535)

PORTABLE_CLUSTER, MAX_CLUSTER = 8, 16
"""Blocks of a cluster: as many as every GPU with clusters takes, and as a kernel may ask for."""

REGISTER_UNIT = 256
REGISTER_FILES = 4
"""Of a multiprocessor; each warp lives in one."""

KIB = 1024

USUAL_SHARED = 48 * KIB
"""Bytes of shared memory that a block may have without asking for more."""

USUAL_HEAP = 8 << 20
"""Bytes that kernels may have from ``malloc`` at a time, unless the program sets another limit."""

TENSOR_LANES, TENSOR_COLUMNS = 128, 512
"""Tensor memory of a multiprocessor, in cells of 32 bits."""

MULTIPROCESSORS = 8
"""Of the emulated GPU."""

MOST_MULTIPROCESSORS = 192
"""More than any GPU has. Blocks beyond what these hold wait until others have ended."""


@dataclass(frozen=True)
class Limits:
    """What one multiprocessor holds at a time: threads, blocks, bytes, registers."""

    threads: int = 2048
    blocks: int = 32
    shared: int = 228 * KIB
    block_shared: int = 227 * KIB  # the most that one block may ask for
    reserved_shared: int = 1024  # bytes taken by the system from every block
    registers: int = 65536
    shared_unit: int = 128  # bytes

    @property
    def warps(self) -> int:
        """The most warps that are resident together."""
        return self.threads // WARP

    def blocks_of(self, threads: int, shared: int) -> int:
        """Blocks of so many threads and bytes of shared memory; registers are not counted."""
        by_threads = self.warps // -(-threads // WARP)
        taken = shared + self.reserved_shared
        return min(self.blocks, by_threads, self.shared // taken if taken else self.blocks)


LIMITS: dict[int, Limits] = {
    75: Limits(1024, 16, 64 * KIB, 64 * KIB, 0, shared_unit=256),
    80: Limits(2048, 32, 164 * KIB, 163 * KIB),
    86: Limits(1536, 16, 100 * KIB, 99 * KIB),
    87: Limits(1536, 16, 164 * KIB, 163 * KIB),
    88: Limits(1536, 16, 100 * KIB, 99 * KIB),
    89: Limits(1536, 24, 100 * KIB, 99 * KIB),
    90: Limits(),
    100: Limits(),
    103: Limits(),
    107: Limits(1024, 16),  # by the headers of CUDA 13.4: cuda_occupancy.h, CCCL's arch_traits
    110: Limits(1536, 24),
    120: Limits(1536, 24, 100 * KIB, 99 * KIB),
    121: Limits(1536, 24, 100 * KIB, 99 * KIB),
}
"""Compute capability (90 for sm_90) -> the limits of its multiprocessors."""

OLDEST = min(LIMITS)
OLDEST_WITH_OWN_TARGET = 90
"""From here on each has a target with suffix ``a``, whose code runs on this very capability."""


def limits(capability: int) -> Limits:
    """The limits of sm_`capability`, or of the nearest older one that is in the table."""
    known = [item for item in LIMITS if item <= capability]
    return LIMITS[max(known, default=OLDEST)]


def capability(target: str) -> int:
    """The compute capability of a target. Raises ``ValueError`` for a word that is none.

    >>> capability("sm_90a"), capability("sm_120f")
    (90, 120)
    """
    number = target.removeprefix("sm_").rstrip("af")
    if not number.isdecimal() or not target.startswith("sm_"):
        raise ValueError(f"{target!r} is not a target: write sm_90a")
    return int(number)
