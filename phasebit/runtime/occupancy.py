"""How many blocks of a kernel fit on a multiprocessor.

The smallest of four quotients: threads (in whole warps), registers (per warp, in units of 256),
shared memory (in units of 128 bytes, plus what the system reserves), and the limit on blocks.
CUDA C++ Best Practices Guide, "Calculating Occupancy".
"""

from __future__ import annotations

from phasebit.runtime.device import Limits

WARP = 32
REGISTER_UNIT = 256
SHARED_UNIT = 128
WARPS_APART = 4  # registers live in four files; warps of a block spread over them


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def blocks_per_multiprocessor(own: Limits, registers: int, shared: int, threads: int) -> int:
    """Blocks that fit, for `threads` a block and `shared` bytes a block (static and dynamic)."""
    if threads <= 0 or threads > 1024 or shared > own.block_shared:
        return 0
    warps = -(-threads // WARP)
    fits = [own.blocks, own.threads // WARP // warps]
    if registers:
        per_warp = _up(registers * WARP, REGISTER_UNIT)
        warps_by_registers = own.registers // WARPS_APART // per_warp * WARPS_APART
        fits.append(warps_by_registers // warps)
    taken = _up(shared + own.reserved_shared, SHARED_UNIT) if shared + own.reserved_shared else 0
    if taken:
        fits.append(own.shared // taken)
    return min(fits)


def shared_for_blocks(own: Limits, blocks: int, static: int) -> int:
    """Dynamic shared bytes that each of `blocks` resident blocks may have."""
    if blocks <= 0:
        return 0
    share = own.shared // blocks // SHARED_UNIT * SHARED_UNIT - own.reserved_shared
    return max(0, min(share, own.block_shared) - static)
