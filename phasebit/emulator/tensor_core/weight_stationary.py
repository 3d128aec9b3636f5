"""``tcgen05.mma.ws``: where D lies, and which columns of B count (PTX ISA 9.7.16.4.3, 9.7.16.10.5).

Where M is small, D takes all 128 lanes nevertheless: its columns are cut into as many *banks* as M
goes into 128, and bank i lies in the lanes from M i on.

    >>> banks(np.arange(8).reshape(2, 4), 2).tolist()         # two rows in four lanes
    [[0, 1], [4, 5], [2, 3], [6, 7]]

A *zero-column mask* takes columns of B as zeros, by spans that take turns: so many that count,
so many that do not.  It shifts the columns, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.matrix_descriptors import field

SHIFTS = {0: 0, 1: 8, 2: 16, 3: 32}
"""Bits 30-31 of the instruction descriptor -> the most columns by which a mask may shift."""


class MaskError(ValueError):
    """A zero-column mask descriptor that the instruction cannot take; says why."""


@dataclass(frozen=True)
class ZeroColumns:
    """What the 64 bits of a zero-column mask descriptor say."""

    shift: int
    """Column n of the product takes column n + shift of B."""
    zero: Array
    """Which columns of the product take zeros, bool [N]."""


def decode(bits: int, m: int, n: int, most: int) -> ZeroColumns:
    """Read the descriptor for a product M × N that allows shifts up to ``most``.

    Raises :class:`MaskError`.  Table 45 of the PTX ISA calls *skip span* the columns that are used
    and *use span* those of zeros; its examples have it the other way round, and these are followed.
    """
    bits = int(bits)

    def wrong(why: str) -> MaskError:
        return MaskError(f"zero-column mask descriptor {bits:#018x}: {why}")

    for low, width in ((36, 3), (62, 2)):
        if field(bits, low, width):
            raise wrong(f"bits {low}-{low + width - 1} must be 0")
    shift = field(bits, 56, 6)
    allowed = 16 if m == 32 else 32
    if shift > allowed:
        raise wrong(f"a shift of {shift} columns; with M = {m} it is {allowed} at most")
    if shift > most:
        raise wrong(
            f"a shift of {shift} columns, but bits 30-31 of the instruction descriptor allow "
            f"{most}: 1 is 8, 2 is 16, 3 is 32"
        )
    zero = np.zeros(n, bool)
    if field(bits, 39, 1):
        skipped, used = field(bits, 40, 8) + 1, field(bits, 48, 8) + 1
        width = n * m // 128
        for bank in range(128 // m):
            first = field(bits, 32 + bank, 1)  # begins with zeros
            lengths = (skipped, used) if first else (used, skipped)
            start = min(field(bits, 8 * bank, 8), lengths[0] - 1)
            place = (np.arange(width) + start) % (used + skipped)
            zero[bank * width : (bank + 1) * width] = (place < lengths[0]) == bool(first)
    return ZeroColumns(shift, zero)


def banks(d: Array, count: int) -> Array:
    """D (M, N) as the lanes hold it (count · M, N / count)."""
    found: Array = d.reshape(len(d), count, -1).swapaxes(0, 1).reshape(len(d) * count, -1)
    return found


def rows(cells: Array, count: int) -> Array:
    """The reverse of :func:`banks`."""
    found: Array = cells.reshape(count, -1, cells.shape[1]).swapaxes(0, 1)
    return found.reshape(len(cells) // count, -1)


__all__ = ["SHIFTS", "MaskError", "ZeroColumns", "banks", "decode", "rows"]
