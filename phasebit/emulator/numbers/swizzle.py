"""Swizzles: how the pieces of a matrix are shuffled in shared memory (PTX ISA 5.5.7).

Rows that lie 128 bytes apart begin in the same bank, so eight threads that read one column
would queue.  A swizzle moves each row's pieces to other banks: it XORs some bits of the
address, those that say which piece of a 128-byte line, with higher ones, those that say which
line.  It is its own inverse, and it acts on the address in shared memory, not on the place
within the matrix; so a pattern begins where the address has zeros in the bits it looks at.

    >>> B128(0x080), B128(0x090), B128(B128(0x3F0))
    (144, 128, 1008)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Swizzle:
    """``bits`` bits of an address from bit ``low`` on are XORed with those ``shift`` above them."""

    name: str
    span: int
    """Bytes within which pieces move: the longest row that it suits."""
    bits: int
    low: int = 4
    shift: int = 3
    flip: bool = False
    """Whether the halves of 16 bytes also change places in every other line."""

    @property
    def repeat(self) -> int:
        """Bytes after which the pattern begins anew: what its start must be a multiple of."""
        return 1 << (self.low + self.bits + self.shift) if self.bits else 16

    def __call__(self, address: Any, base: int = 0) -> Any:
        """Where the byte of an unswizzled address lies, and the reverse.

        ``address``: an integer or an array of them.  ``base``: the address at which the
        pattern begins, where it is not a multiple of :attr:`repeat`.
        """
        line = address - base
        mask = ((1 << self.bits) - 1) << self.low
        moved = address ^ ((line >> self.shift) & mask)
        return moved ^ ((line >> 4) & 8) if self.flip else moved


NONE = Swizzle("none", 16, 0)
B32 = Swizzle("32B", 32, 1)
B64 = Swizzle("64B", 64, 2)
B128 = Swizzle("128B", 128, 3)
B128_ATOM_32B = Swizzle("128B, atoms of 32B", 128, 2, 5, 2)
B128_ATOM_32B_FLIP_8B = Swizzle("128B, atoms of 32B, 8B flipped", 128, 2, 5, 2, True)
B128_ATOM_64B = Swizzle("128B, atoms of 64B", 128, 1, 6, 1)

MODES = {
    "none": NONE, "32B": B32, "64B": B64, "128B": B128, "128B_ATOM_32B": B128_ATOM_32B,
    "128B_ATOM_32B_FLIP_8B": B128_ATOM_32B_FLIP_8B, "128B_ATOM_64B": B128_ATOM_64B,
}  # fmt: skip
"""The swizzles of tensor maps, by the names of the driver's enumeration and in its order."""

SPANS = {0: NONE, 32: B32, 64: B64, 128: B128}
"""Bytes of a row -> the swizzle that wgmma, tcgen05 and tensor copies have in common."""

MASK = {span: 0x70 & ((1 << s.bits) - 1) << 4 for span, s in SPANS.items()}
"""Bytes of a row -> the bits of the address that change."""

PATTERN = {span: s.repeat for span, s in SPANS.items()}
"""Bytes of a row -> bytes after which the pattern repeats."""


def swizzled(address: Any, span: int) -> Any:
    """The place of a byte, an integer or an array, in rows of ``span`` bytes (0: not swizzled).

    >>> [swizzled(128 * row, 128) for row in range(4)]     # the first piece of each row
    [0, 144, 288, 432]
    """
    return address ^ ((address >> 3) & MASK[span])


__all__ = [
    "B32",
    "B64",
    "B128",
    "B128_ATOM_32B",
    "B128_ATOM_32B_FLIP_8B",
    "B128_ATOM_64B",
    "MASK",
    "MODES",
    "NONE",
    "PATTERN",
    "SPANS",
    "Swizzle",
    "swizzled",
]  # fmt: skip
