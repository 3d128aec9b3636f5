"""Structured sparsity: a matrix A of which half is zero and left out.

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

So the stored half of A has the fragment, or the tile, of a dense A with half the columns.  Two
places may be any that differ; ``mma.sp::ordered_metadata`` wants the smaller one first, and
``tcgen05`` has a list of its own, six such and 0110.  CUTLASS's compressor writes 0000 for a
chunk without anything: where both stored elements are 0 their places make no difference.

>>> stored = np.array([[[5, 7]]])                       # one warp, one row
>>> expand(stored, columns(np.array([[[0b1101]]]), 4), 4)           # the places 1 and 3
array([[[0, 5, 0, 7]]])

Sources: PTX ISA 9.7.14.6.1, 9.7.15.6.1, 9.7.16.10.8.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phasebit.emulator.errors import Fault, IllegalMetadata
from phasebit.emulator.ptx.types import Array

CHUNK = {
    "tf32": 2, "f16": 4, "bf16": 4, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "e2m3": 4, "e3m2": 4,
    "e2m1": 4, "s4": 8, "u4": 8,
}  # fmt: skip
"""Neighbours in a row that share four bits; where two e2m1 share a byte it is eight."""
WIDE = ("tf32", "f16", "bf16")
"""The types for which a thread's 32 bits serve two rows."""

HALVES = (0b0100, 0b1110)
"""What four bits may be for a chunk of two."""
ORDERED = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110)
"""What they may be for two places in order."""
LISTED = (*ORDERED, 0b0110)
"""What ``tcgen05`` takes, as its section lists it."""
DIFFERENT = tuple(a | b << 2 for a in range(4) for b in range(4) if a != b)
"""What they may be for two places in any order."""


def places(metadata: Array, selector: int, chunks: int, wide: bool, name: str = "mma.sp") -> Array:
    """The four bits of each chunk, [warps, 16 rows, chunks], from the operand, uint32 [warps, 32].

    Lanes 4 g to 4 g + 3 have those of rows g and g + 8: one of them has four chunks of
    both, two have eight, four have sixteen.  ``selector`` says which one or which two; the
    registers of the others are not looked at.
    ``wide``: a lane has four chunks of row g, then of row g + 8, and the next lane those to the
    right.  Else a lane has eight chunks of row g and the next lane those of row g + 8.
    Sections 9.7.14.6.2.1 to 9.7.14.6.2.8.  Raises :class:`Fault` for a selector of no lanes.
    """
    lanes = chunks // 4
    if not 0 <= selector < 4 // lanes:
        raise Fault(
            "{}: the sparsity selector is {}; here it is below {}",
            name, selector, 4 // lanes,
        )
    words = metadata.reshape(-1, 8, 4)[:, :, selector * lanes : (selector + 1) * lanes]
    bits = words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    rows = bits.reshape(-1, 8, lanes, 2, 4) if wide else bits.reshape(-1, 8, lanes // 2, 2, 8)
    return rows.transpose(0, 3, 1, 2, 4).reshape(-1, 16, chunks)


def columns(
    bits: Array, chunk: int, name: object = "mma.sp", legal: tuple[int, ...] = DIFFERENT,
    stored: Callable[[], Array] | None = None,
) -> Array:  # fmt: skip
    """The columns of A that are stored, [warps, rows, chunks * chunk / 2], from the four bits.

    ``legal``: what these may be, of chunks of four and eight.  ``stored``: what gives the stored
    half of A, where 0000 may stand for a chunk of zeros.  Raises :class:`IllegalMetadata`.
    """
    legal = HALVES if chunk == 2 else legal
    wrong = ~np.isin(bits, legal)
    if stored is not None and wrong.any():
        wrong &= (bits != 0) | (stored().reshape(*bits.shape, -1) != 0).any(axis=-1)
    if wrong.any():
        warp, row, place = (int(x) for x in np.argwhere(wrong)[0])
        found = int(bits[warp, row, place])
        why = "two elements for one place" if found & 3 == found >> 2 else "not in order"
        if not found:
            why += "; has anybody written them?"
        raise IllegalMetadata(
            "{}: the metadata of row {} has {:04b} for chunk {}, which is invalid: {}; legal "
            "are {}",
            name, row, found, place, "no place of a pair" if chunk == 2 else why,
            ", ".join(f"{each:04b}" for each in legal),
        )
    if chunk == 2:
        index = (bits == 0b1110)[..., None].astype(np.int64)
    else:
        index = np.stack([bits & 3, bits >> 2], axis=-1).astype(np.int64)
    together = max(1, chunk // 4)  # elements that share a place
    starts = chunk * np.arange(bits.shape[2])[:, None] + index * together
    along: Array = (starts[..., None] + np.arange(together)).reshape(*bits.shape[:2], -1)
    return along


def expand(stored: Array, along: Array, k: int) -> Array:
    """A with its zeros, [warps, rows, k], from its stored half and the columns of that."""
    whole: Array = np.zeros((*along.shape[:2], k), stored.dtype)
    np.put_along_axis(whole, along, stored, axis=2)
    return whole


def met(b: Array, along: Array) -> Array:
    """What of B [warps, k, n] the stored half of A is multiplied with: [warps, stored, n, rows].

    The rest of B is not looked at, not even its infinities.
    """
    found: Array = np.take_along_axis(
        b[:, :, :, None], along.transpose(0, 2, 1)[:, :, None, :], axis=1
    )
    return found


def compress(whole: Array, chunk: int) -> tuple[Array, Array]:
    """The stored half of A and the four bits of each chunk, from A with its zeros [rows, k].

    A chunk with fewer elements than it may have stores zeros, too.  Places are in order.
    Raises ValueError for a chunk with more.

    >>> compress(np.array([[0, 5, 0, 7, 0, 0, 0, 9]]), 4)[1]
    array([[13, 12]], dtype=uint8)
    """
    together = max(1, chunk // 4)
    rows = len(whole)
    pieces = whole.reshape(rows, -1, chunk // together, together)
    kept = (pieces != 0).any(axis=3)
    most = kept.shape[2] // 2
    if (kept.sum(axis=2) > most).any():
        row, place = (int(x) for x in np.argwhere(kept.sum(axis=2) > most)[0])
        raise ValueError(
            f"chunk {place} of row {row} has more than half of its elements: prune it first"
        )
    if chunk == 2:
        second = kept[..., 1]
        bits = np.where(second, 0b1110, 0b0100).astype(np.uint8)
        index = second[..., None].astype(np.int64)
    else:
        some = kept.copy()  # fill up: the last place if it is free, else the first
        for place in (3, 0):
            some[..., place] |= some.sum(axis=2) < 2
        index = np.argwhere(some)[:, 2].reshape(rows, -1, 2)
        bits = (index[..., 0] | index[..., 1] << 2).astype(np.uint8)
    stored = np.take_along_axis(pieces, index[..., None], axis=2)
    return stored.reshape(rows, -1), bits
