"""Fragments: which thread of a warp holds which element of a matrix.

A warp multiplies matrices together: no thread holds a whole row, each holds a
*fragment* in its registers.  The PTX ISA draws some thirty tables of them.  They
are all one rule.

Lane ``l`` has the group ``g = l // 4`` (0 … 7) and the place ``t = l % 4`` in
it.  The unit is the *8 by 4 block of registers*: eight rows (the groups), four
registers across (the places).  One register holds ``n`` neighbouring elements:
n = 2 for 16-bit numbers, 4 for 8-bit, 8 for 4-bit, 1 for tf32 and f64.

    A (m × k)      row    g + 8 * (j % 2)                  in register j; when m is 8, g
                   column (t + 4 * (j // 2)) * n + e       for element e of the register
    B (k × n)      row    (t + 4 * j) * n + e
                   column g
    C, D (m × n)   row    g + 8 * (i // 2)                 for element i
                   column 2 * t + i % 2

So A walks down its two 8-row blocks first, then right along k; B is the same
picture turned on its side; C always holds pairs along a row.  A block of 8 rows
of 16 bytes is also what one ``ldmatrix`` matrix is: that is why ``ldmatrix.x4``
fills an A fragment, and why the transposed load of a row-major B fits too.

    >>> show(operand_a(16, 16, 2), lane=5)             # lane 5: g = 1, t = 1
    '(1,2) (1,3) (9,2) (9,3) (1,10) (1,11) (9,10) (9,11)'

Sources: PTX ISA 9.7.14.5.1 to 9.7.14.5.13 (fragments of ``mma``), 9.7.14.5.15
(``ldmatrix``), 9.7.14.4.1 (fragments of ``wmma``, left open there).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from phasebit.emulator.ptx.types import Array

LANES = np.arange(32)
GROUP, PLACE = LANES // 4, LANES % 4


@dataclass(frozen=True, eq=False)
class Fragment:
    """Where each element of each lane lies in the matrix."""

    shape: tuple[int, int]
    """Rows and columns of the matrix."""
    row: Array
    """int64 [32, elements]."""
    column: Array
    """int64 [32, elements]."""

    @property
    def elements(self) -> int:
        """Elements that one lane holds."""
        return int(self.row.shape[1])

    @functools.cached_property
    def source(self) -> Array:
        """For each element of the matrix, row by row, its place in [lane, element], flattened.

        An element that several lanes hold is taken from the first.
        """
        rows, columns = self.shape
        places = np.full(rows * columns, -1)
        flat = (self.row * columns + self.column).ravel()
        places[flat[::-1]] = np.arange(flat.size)[::-1]
        return places

    def collect(self, fragments: Array) -> Array:
        """The matrix [warps, rows, columns] from elements [warps, 32, elements]."""
        warps = fragments.reshape(len(fragments), -1)
        return warps.take(self.source, axis=1).reshape(-1, *self.shape)

    def spread(self, matrix: Array) -> Array:
        """The elements [warps, 32, elements] from the matrix [warps, rows, columns]."""
        flat = matrix.reshape(len(matrix), -1)
        return flat.take(self.row * self.shape[1] + self.column, axis=1)


def show(fragment: Fragment, lane: int) -> str:
    """The elements of one lane as ``(row,column)``."""
    pairs = zip(fragment.row[lane], fragment.column[lane], strict=True)
    return " ".join(f"({row},{column})" for row, column in pairs)


@functools.cache
def operand_a(m: int, k: int, per_register: int) -> Fragment:
    """The multiplicand A, m × k: 8 or 16 rows, or (wmma) 32 as two times 16.

    ``per_register`` elements share a register.  PTX ISA 9.7.14.5.1 to 9.7.14.5.13.
    """
    blocks = min(m, 16) // 8
    row, column = [], []
    for top in range(0, m, 16):
        for right in range(k // (4 * per_register)):
            for down in range(blocks):
                for e in range(per_register):
                    row.append(top + 8 * down + GROUP)
                    column.append((PLACE + 4 * right) * per_register + e)
    return Fragment((m, k), np.stack(row, axis=1), np.stack(column, axis=1))


@functools.cache
def operand_b(n: int, k: int, per_register: int) -> Fragment:
    """The multiplicand B, k × n: 8 columns, or (wmma) 16 or 32 as tiles of 8.

    PTX ISA 9.7.14.5.1 to 9.7.14.5.13.
    """
    row, column = [], []
    for left in range(0, n, 8):
        for down in range(k // (4 * per_register)):
            for e in range(per_register):
                row.append((PLACE + 4 * down) * per_register + e)
                column.append(left + GROUP)
    return Fragment((k, n), np.stack(row, axis=1), np.stack(column, axis=1))


@functools.cache
def accumulator(m: int, n: int) -> Fragment:
    """The accumulators C and D, m × n: pairs along a row, 8 rows by 8 columns at a time.

    PTX ISA 9.7.14.5.1 to 9.7.14.5.13.
    """
    row, column = [], []
    for top in range(0, m, 16):
        for left in range(0, n, 8):
            for down in range(min(m, 16) // 8):
                for e in range(2):
                    row.append(top + 8 * down + GROUP)
                    column.append(left + 2 * PLACE + e)
    return Fragment((m, n), np.stack(row, axis=1), np.stack(column, axis=1))


@functools.cache
def quads_operand(whole_rows: bool) -> Fragment:
    """A of m8n8k4 for the four quads of a warp, one 8 × 4 matrix under the other.

    Quad ``q`` is lanes 4 q to 4 q + 3 and 16 more.  Each lane holds a row, or else (``col``)
    half a column.  B is the same picture turned on its side.  PTX ISA 9.7.14.5.1.
    """
    quad, half, mine = LANES % 16 // 4, LANES // 16, LANES % 4
    i = np.arange(4)
    row = mine + 4 * half
    if whole_rows:
        return Fragment((32, 4), np.tile((8 * quad + row)[:, None], 4), np.tile(i, (32, 1)))
    row = (8 * quad + 4 * half)[:, None] + i
    return Fragment((32, 4), row, np.tile(mine[:, None], 4))


@functools.cache
def quads_accumulator(kind: str) -> Fragment:
    """C and D of m8n8k4, 8 × 8 for each quad: a row a lane of f16, 2 by 2 of f32.

    PTX ISA 9.7.14.5.1.
    """
    quad, half, i = LANES % 16 // 4, LANES // 16, np.arange(8)
    row = np.tile((LANES % 4)[:, None], 8)
    column = np.tile(i, (32, 1))
    if kind == "f32":
        row = (LANES % 2)[:, None] + (i & 2)
        column = (LANES & 2)[:, None] + (i & 5)
    return Fragment((32, 8), row + (8 * quad + 4 * half)[:, None], column)


def repeated(fragment: Fragment, elements: int) -> Fragment:
    """A fragment whose lanes hold their elements several times over, ``elements`` in all.

    ``wmma`` gives an f16 operand eight registers whatever its shape (PTX ISA 9.7.14.4.1),
    twice or four times what it needs.
    """
    times = elements // fragment.elements
    return Fragment(fragment.shape, np.tile(fragment.row, times), np.tile(fragment.column, times))


# -- registers and elements ---------------------------------------------------


def unpack(registers: Array, per_register: int) -> Array:
    """The elements in 32-bit registers, lowest bits first.

    ``registers`` is uint32 [..., r]; the result is uint8, uint16 or uint32
    [..., r * per_register].  Of elements of 4 bits or 1 each comes in a byte of its own.
    """
    registers = np.ascontiguousarray(registers)
    if per_register == 32:
        return np.unpackbits(registers.view(np.uint8), axis=-1, bitorder="little")
    if per_register == 8:
        nibbles = registers.view(np.uint8)
        both = np.stack([nibbles & 15, nibbles >> 4], axis=-1)
        return both.reshape(*nibbles.shape[:-1], -1)
    return registers.view({1: np.uint32, 2: np.uint16, 4: np.uint8}[per_register])


def pack(elements: Array) -> Array:
    """32-bit registers from elements of 16 or 8 bits: the reverse of :func:`unpack`."""
    return np.ascontiguousarray(elements).view(np.uint32)
