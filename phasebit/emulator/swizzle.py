"""Swizzles: how the 16-byte pieces of a tile in shared memory change places.

Eight rows of a tile that lie below each other would share their banks.  So the piece that
an address names is exclusive-ored with the number of its 128-byte line: a column of the tile
then meets every bank once.  The copy engine and the tensor cores do this on their own; a
thread that writes or reads such a tile must do it, too.

    128B    bits 4 to 6 of the address, by bits 7 to 9     pattern of 1024 bytes
    64B     bits 4 and 5, by bits 7 and 8                  512 bytes
    32B     bit 4, by bit 7                                256 bytes

The address is the absolute one, so a tile begins where its pattern does: at a multiple of the
pattern's size.  Doing it twice undoes it.

    >>> [int(swizzled(128 * row, 128)) for row in range(4)]     # the first piece of each row
    [0, 144, 288, 432]

Source: PTX ISA 5.5.7; CUTLASS names them Swizzle<3,4,3>, Swizzle<2,4,3> and Swizzle<1,4,3>.
"""

from __future__ import annotations

from typing import Any

MASK = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}
"""Bytes of a row -> the bits of the address that change."""

PATTERN = {0: 16, 32: 256, 64: 512, 128: 1024}
"""Bytes of a row -> bytes after which the pattern repeats."""


def swizzled(address: Any, span: int) -> Any:
    """The place of a byte, an integer or an array, in rows of ``span`` bytes (0: not swizzled)."""
    return address ^ ((address >> 3) & MASK[span])


__all__ = ["MASK", "PATTERN", "swizzled"]
