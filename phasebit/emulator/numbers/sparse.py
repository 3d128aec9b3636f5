"""Structured sparsity: a matrix A of which half is zero and left out (PTX ISA 9.7.14.6.1).

A row of A is cut into chunks of neighbours.  In each half of them may differ from
zero, and only those are stored; four bits say where they belong:

=======  =====================  ================================================
type     chunk, stored of it    the four bits
=======  =====================  ================================================
16 bits  4, 2                   the two places, two bits each, the first lowest
8 bits   4, 2                   the same
4 bits   8, 4 (pairs)           the places of two pairs
tf32     2, 1                   0100 for the first, 1110 for the second: the places
                                of its two halves
=======  =====================  ================================================

So the stored half of A has the fragment of a dense A with half the columns.

>>> stored = np.array([[[5, 7]]])                       # one warp, one row
>>> expand(stored, np.array([[[0b1101]]]), 4)           # the places 1 and 3
array([[[0, 5, 0, 7]]])
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.ptx.types import Array

CHUNK = {"tf32": 2, "f16": 4, "bf16": 4, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "s4": 8, "u4": 8}
"""Neighbours in a row that share four bits."""
WIDE = ("tf32", "f16", "bf16")
"""The types for which a thread's 32 bits serve two rows."""


def places(metadata: Array, selector: int, chunks: int, wide: bool) -> Array:
    """The four bits of each chunk, [warps, 16 rows, chunks], from the operand, uint32 [warps, 32].

    Lanes 4 g to 4 g + 3 have those of rows g and g + 8: one of them has four chunks of
    both, two have eight, four have sixteen.  ``selector`` says which one or which two.
    ``wide``: a lane has four chunks of row g, then of row g + 8, and the next lane those to the
    right.  Else a lane has eight chunks of row g and the next lane those of row g + 8.
    Sections 9.7.14.6.2.1 to 9.7.14.6.2.8.  Raises :class:`Fault` for a selector of no lanes.
    """
    lanes = chunks // 4
    if not 0 <= selector < 4 // lanes:
        raise Fault(
            "mma.sp: the sparsity selector is {}; here it is below {}",
            selector, 4 // lanes,
        )
    words = metadata.reshape(-1, 8, 4)[:, :, selector * lanes : (selector + 1) * lanes]
    bits = words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    rows = bits.reshape(-1, 8, lanes, 2, 4) if wide else bits.reshape(-1, 8, lanes // 2, 2, 8)
    return rows.transpose(0, 3, 1, 2, 4).reshape(-1, 16, chunks)


def columns(bits: Array, chunk: int) -> Array:
    """The columns of A that are stored, [warps, rows, chunks * chunk / 2], from the four bits.

    Raises :class:`Fault` for bits that the ISA calls invalid.
    """
    if chunk == 2:
        wrong = (bits != 0b0100) & (bits != 0b1110)
        index = (bits == 0b1110)[..., None].astype(np.int64)
    else:
        index = np.stack([bits & 3, bits >> 2], axis=-1).astype(np.int64)
        wrong = index[..., 0] == index[..., 1]
    if wrong.any():
        raise Fault(
            "mma.sp: the metadata of row {} has {:04b} for a chunk, which is invalid: two "
            "elements for one place",
            int(np.argwhere(wrong)[0][1]), bits[wrong][0],
        )
    together = max(1, chunk // 4)  # elements that share a place
    starts = chunk * np.arange(bits.shape[2])[:, None] + index * together
    found: Array = (starts[..., None] + np.arange(together)).reshape(*bits.shape[:2], -1)
    return found


def expand(stored: Array, bits: Array, chunk: int) -> Array:
    """A with its zeros, [warps, rows, chunks * chunk], from its stored half."""
    whole: Array = np.zeros((*bits.shape[:2], bits.shape[2] * chunk), stored.dtype)
    np.put_along_axis(whole, columns(bits, chunk), stored, axis=2)
    return whole


def met(b: Array, bits: Array, chunk: int) -> Array:
    """What of B the stored half of A is multiplied with: [warps, stored, n, rows].

    The rest of B is not looked at, not even its infinities.
    """
    along = columns(bits, chunk).transpose(0, 2, 1)[:, :, None, :]
    found: Array = np.take_along_axis(b[:, :, :, None], along, axis=1)
    return found
