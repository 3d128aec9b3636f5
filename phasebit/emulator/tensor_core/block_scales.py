"""Block scales in tensor memory, and products with them (PTX ISA 9.7.16.10.7).

A row of A, and a column of B, is cut along k into blocks of 16 or 32 elements (of 32 or 64 where
A is sparse, for there k is twice as long), and each block has a scale: one byte, a power of two
(``ue8m0``) or a small number (``ue4m3``).  The product is that of the scaled matrices.

A scale of row r stands in lane r % 32 of column r / 32, so a word of tensor memory has up to four
scales of one row.  The byte of the first one is the *scale factor id* of the instruction
descriptor; the next blocks along k follow it.  All four quarters of the lanes hold the same, for
each quarter of the tensor core reads its own: ``tcgen05.cp.32x128b.warpx4`` copies them so.
In a pair of blocks (``cta_group::2``) each has the scales of its rows of A, and those of all of B;
where M is 128 the lower two quarters have those of the first half of N and the upper two the rest.

    >>> [hex(x) for x in words(np.arange(64).reshape(32, 2))[:2, 0]]       # rows 0 and 1
    ['0x100', '0x302']

In shared memory 128 rows of four scales are 512 bytes, 16 for row r, r + 32, r + 64 and r + 96:
that is what the copy wants, and the atom of CUTLASS's ``Sm1xxBlockScaledBasicChunk``.  Triton's
compiler, which stores scales from registers, has the same layout (``tests/foreign``).

The arithmetic: scaled elements are exact, their products are summed as
``tensor_core.arithmetic.accumulate`` has it for Blackwell.  That is an assumption;
where nothing is rounded it plays no part.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence
from phasebit.emulator.numbers.formats import decode, decode_scale
from phasebit.emulator.numbers.numerics import canonical
from phasebit.emulator.numbers.sparse import met
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core import arithmetic as tensor_core
from phasebit.emulator.tensor_core.scaled_descriptors import ScaledDescriptor
from phasebit.emulator.tensor_core.tensor_mma import exact, filled

QUARTERS, LANES = 4, 32
ADDRESS = 0x3FFFFFFF
"""Bits of an address of scales that count: CUTLASS keeps the id in the upper two."""


def columns(rows: int) -> int:
    """How many columns the scales of so many rows take."""
    return -(-rows // LANES)


def words(scales: Array) -> Array:
    """Scales uint8 [rows, up to 4] as the cells of a quarter, uint32 [32, columns]."""
    whole = np.zeros((columns(len(scales)) * LANES, 4), np.uint8)
    whole[: len(scales), : scales.shape[1]] = scales
    cells: Array = whole.view(np.uint32).reshape(-1, LANES).T
    return cells


def atoms(scales: Array) -> Array:
    """Scales uint8 [128 n, 4] as bytes in shared memory, uint8 [n, 512]."""
    return scales.reshape(-1, QUARTERS, LANES, 4).swapaxes(1, 2).reshape(-1, 512)


def read(cells: Array, rows: int, first: int, count: int, name: str, where: Sentence) -> Array:
    """The scales uint8 [rows, count] in cells uint32 [lanes, columns], from byte ``first`` on.

    Raises :class:`Fault` where the quarters, 32 lanes each, differ.
    """
    quarters = len(cells) // LANES
    held = np.ascontiguousarray(cells).view(np.uint8).reshape(quarters, LANES, -1, 4)
    table = held.swapaxes(1, 2).reshape(quarters, -1, 4)[:, :rows, first : first + count]
    differ = (table != table[0]).any(axis=(0, 2))
    if differ.any():
        row = int(np.argmax(differ))
        raise Fault(
            "the scales of {} are not the same in all quarters of the lanes, first for row {}, "
            "column {} after the address: {}; each quarter of the tensor core reads its own: copy "
            "them with tcgen05.cp.32x128b.warpx4",
            name, row, row // LANES, where,
        )
    found: Array = table[0]
    return found


def values(scales: Array, kind: str, name: str, where: Sentence) -> Array:
    """The numbers, f64, that scales stand for.  Raises :class:`Fault` for bytes that are none."""
    if kind == "ue8m0":
        return decode_scale(scales)
    if (scales & 0x80).any():
        row, place = (int(x) for x in np.argwhere(scales & 0x80)[0])
        raise Fault(
            "scale {} of row {} of {} is {:#04x}: {}; a ue4m3 has no sign, and bit 7 must be 0; "
            "is it a ue8m0?",
            place, row, name, int(scales[row, place]), where,
        )
    return decode("e4m3", scales).astype(np.float64)


def scaled(matrix: Array, scales: Array) -> Array:
    """Elements [rows, k] times their blocks' scales [rows, blocks], f64 and exact."""
    rows, blocks = scales.shape
    with np.errstate(invalid="ignore"):
        product: Array = matrix.reshape(rows, blocks, -1).astype(np.float64) * scales[..., None]
    return product.reshape(rows, -1)


def multiply(
    a: Array, b: Array, d: Array | None, of: ScaledDescriptor, along: Array | None = None
) -> Array:
    """The cells of D (M, N), uint32, from scaled A (M, k) and B (N, k), f64, and the old cells.

    ``along``: of a sparse A the columns that are stored, (M, k / 2).
    """
    if of.negate_a:
        a = -a
    if of.negate_b:
        b = -b
    c = np.zeros((len(a), len(b)), np.float32) if d is None else d.view(np.float32)
    result = added(a, b, c, along, of.k)
    cells: Array = canonical(result.astype(np.float32)).view(np.uint32)
    return cells


def added(a: Array, b: Array, c: Array, along: Array | None = None, k: int = 0) -> Array:
    """A·Bᵀ + C of scaled A (M, k) and B (N, k), f64, and C, f32; ``along`` as for ``multiply``."""
    result = exact(filled(a, along, k), b, c, "f32")
    if result is None:  # bf16: exponents as those of f32
        right = b.T[None] if along is None else met(b.T[None], along[None])
        result = tensor_core.accumulate(
            a[None], right, c[None].astype(np.float64), ("bf16", "bf16"), "f32",
            tensor_core.MODELS["blackwell"], a.shape[1],
        )[0]  # fmt: skip
    return result


__all__ = ["ADDRESS", "added", "atoms", "columns", "multiply", "read", "scaled", "values", "words"]
