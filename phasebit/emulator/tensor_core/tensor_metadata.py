"""Metadata of a sparse A in tensor memory (PTX ISA 9.7.16.10.8).

Four bits say of each chunk of a row which half of it is stored (``numbers.sparse``).  They lie in a
pair of columns, the first of them even:

f16, tf32
    A row has eight chunks, which are 32 bits: one column, and the *sparsity selector* of the
    instruction descriptor says which of the pair.  Of 16 rows the lanes 0-7 have the left four
    chunks and the lanes 8-15 the right four; the lower half of the cell is for row r, the upper
    half for row r + 8.  So does a thread of ``mma.sp`` hold them.
all other kinds
    A row has sixteen chunks: both columns of its lane, the first chunk lowest.

    >>> cells = np.zeros((16, 1), np.uint32); cells[8] = 0x00E00000
    >>> row, chunk = np.argwhere(bits(cells, True))[0]      # lane 8, bits 20-23
    >>> int(row), int(chunk)
    (8, 5)

Where M = 64, and in a pair with M = 128, rows lie in half of the lanes, as those of D do, and must
begin at the same lane.  ``tcgen05.mma.ws.sp`` reads them in each bank of lanes.

Sources: the section's words; its figures were not at hand.  The layout is CUTLASS's
(``tmem_e_frg``), and JAX's (``format_tcgen05_sparse_metadata``), which agree; that the first column
must be even is what both do, and an odd one was seen to fault on an sm_110 (a branch of Triton).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.numbers import sparse
from phasebit.emulator.ptx.types import Array
from phasebit.emulator.tensor_core.instruction_descriptors import SELECTED, InstructionDescriptor
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.tensor_memory import TensorMemory, split

NIBBLES = np.arange(0, 32, 4, dtype=np.uint32)


def bits(cells: Array, wide: bool) -> Array:
    """The four bits of each chunk, [rows, chunks], from the cells of the rows' lanes.

    ``wide``: of f16 and tf32, uint32 [rows, 1]; else uint32 [rows, 2].
    """
    each = cells[..., None] >> NIBBLES & 15
    if not wide:
        return each.reshape(len(cells), 16)
    parts = each.reshape(-1, 2, 8, 2, 4)  # sixteen rows, half of k, lane, row or row + 8, chunk
    return parts.transpose(0, 3, 2, 1, 4).reshape(len(cells), 8)


def cells(found: Array, wide: bool) -> Array:
    """The reverse of :func:`bits`: uint32 [rows, 1] or [rows, 2], from [rows, chunks]."""
    rows = len(found)
    if wide:
        found = found.reshape(-1, 2, 8, 2, 4).transpose(0, 3, 2, 1, 4)
    words = found.astype(np.uint32).reshape(rows, -1, 8) << NIBBLES
    whole: Array = words.sum(axis=-1, dtype=np.uint32)
    return whole


class Metadata:
    """Metadata of A in the tensor memory of one block or of a pair."""

    def __init__(
        self, memory: TensorMemory, slots: Sequence[int], address: int, lanes: Array,
        of: InstructionDescriptor, who: Sentence, where: Sentence,
    ) -> None:  # fmt: skip
        """``lanes``: where the rows of one block lie."""
        lane, column = split(address)
        first = int(lanes[0])
        if lane != first:
            raise Fault(
                "{}: the metadata begin at lane {}; they begin where D does, at lane {}; {}",
                who, lane, first, where,
            )
        if column % 2:
            raise Fault(
                "{}: the metadata begin at column {}; they begin at an even one, and the sparsity "
                "selector, bits 0-1 of the instruction descriptor, says which of two it is: {}",
                who, column, where,
            )
        self.wide = of.kind in SELECTED
        start = column + of.selector
        self.columns = slice(start, start + (1 if self.wide else 2))
        for slot in slots:
            memory.reach(
                slot, (0, 128), (start, self.columns.stop), say("metadata of {}", who), where
            )
        halves = slice(0, 8) if len(np.unique(lanes // 16)) == 8 else slice(first // 16, 8, 2)
        self.regions = [Region(slot, halves, self.columns) for slot in slots]
        self.memory, self.lanes, self.name = memory, lanes, say("{}; {}", who, where)
        self.chunk = 8 if of.packed else sparse.CHUNK[of.a]

    def read(self, block: int = 0, stored: Callable[[], Array] | None = None) -> Array:
        """The columns of A that are stored, [rows, k / 2], of the rows of one block.

        ``stored`` gives what is stored of these rows: 0000 may stand for a chunk of zeros.

        Raises ``errors.IllegalMetadata``.
        """
        slot = self.regions[block].slot
        found = bits(self.memory.cells[slot, self.lanes, self.columns], self.wide)
        along: Array = sparse.columns(
            found[None], self.chunk, self.name, sparse.LISTED, stored
        )[0]
        return along


__all__ = ["Metadata", "bits", "cells"]
