"""Tiles of ``wgmma``: where the pieces of A or B lie in shared memory, and what is read there.

Sixteen bytes of a tile lie together whatever its layout, so a tile is fetched in *pieces* of
sixteen bytes.  Where they are follows from the descriptor; the table is kept, for a loop comes back
with the same layout at another start.

Source: PTX ISA 9.7.15.5.1.2 (shared memory matrix layouts).
"""

from __future__ import annotations

import functools

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.machine.group import Group
from phasebit.emulator.numbers.formats import decode as numbers_of
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core.matrix_descriptors import (
    DescriptorError,
    MatrixDescriptor,
    crooked,
    decode,
    places,
)

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}

SIZE = 128
"""Threads of a warp group: four warps, the first a multiple of four (PTX ISA 9.7.15.1)."""

DEPTH = 32
"""Bytes along K that one instruction takes of a dense matrix."""

PERIOD = 1024
"""Starts that differ by a multiple of this have the same layout: it is the longest pattern."""


@functools.lru_cache(maxsize=512)
def pieces(
    found: MatrixDescriptor, rows: int, width: int, k_major: bool, depth: int = DEPTH
) -> Array:
    """Where the pieces lie, in units of 16 bytes from the last multiple of 1024 before the start.

    ``found`` starts below 1024; ``width``: bytes of an element; ``depth``: bytes along k.
    K-major: [rows, depth / 16].  MN-major: [k, rows / 8].
    """
    each = 16 // width
    all_places = places(found, rows, depth // width, width, not k_major)
    return (all_places[:, ::each] if k_major else all_places[::each].T) >> 4


@functools.lru_cache(maxsize=512)
def overlaps(
    found: MatrixDescriptor, rows: int, width: int, k_major: bool, depth: int = DEPTH
) -> bool:
    """Whether two pieces lie at one place."""
    where = pieces(found, rows, width, k_major, depth)
    return len(np.unique(where)) < where.size


class Tile:
    """An operand in shared memory: of one warp group, ``rows`` along M or N.

    ``depth``: bytes along K.  A sparse A has as many as a dense one, and its B twice as many.
    """

    def __init__(
        self, g: Group, number: int, descriptors: Value, rows: int, kind: str, k_major: bool,
        role: str, depth: int = DEPTH,
    ) -> None:  # fmt: skip
        batch = g.batch
        lanes = g.lanes[number * SIZE : (number + 1) * SIZE]
        value = descriptors
        if isinstance(descriptors, np.ndarray):
            mine = descriptors[number * SIZE : (number + 1) * SIZE]
            value = mine[0]
            if (mine != value).any():
                raise Fault(
                    "the threads of a warp group must give one descriptor of {}, but {} give "
                    "several: {}",
                    role, batch.describe(lanes), batch.machine.where(g),
                )
        width = BYTES[kind]
        self.kind, self.k_major, self.role = kind, k_major, role
        if width != 2 and not k_major:
            raise Fault(
                "a tile of {} lies along K, only elements of 16 bits may lie along M or N: set "
                "the transpose of {} to 0; {}",
                kind, role, batch.machine.where(g),
            )
        try:
            d = decode(int(value), "wgmma")
        except DescriptorError as error:
            raise Fault("{} of wgmma: {}; {}", role, error, batch.machine.where(g)) from None
        phase = d.start % PERIOD
        layout = MatrixDescriptor(phase, d.leading, d.stride, d.base_offset, d.swizzle)
        self.pieces = pieces(layout, rows, width, k_major, depth)
        size = batch.machine.shared_size
        first = d.start - phase
        low, high = int(self.pieces.min()) * 16 + first, int(self.pieces.max()) * 16 + first + 16
        if low < 0 or high > size:
            raise Fault(
                "{} of wgmma, {} × {} of {}, reaches to byte {} of the block's {} in shared "
                "memory (start {:#x}, leading {}, stride {}, swizzle {}): {}",
                role, rows, depth // width, kind, high, size, d.start, d.leading, d.stride,
                d.swizzle.name, batch.machine.where(g),
            )
        self.start = (batch.shared_base + int(lanes[0]) // batch.threads * batch.shared_stride
                      + first) >> 4  # fmt: skip
        self.swizzle = d.swizzle.name
        self.base_offset = d.base_offset
        self.crooked = crooked(d)
        """Where the swizzle's pattern begins, if not where the descriptor says."""
        self.wrong = ""
        """What is odd about it, though it can be read."""
        if overlaps(layout, rows, width, k_major, depth):
            self.wrong = (
                f"two parts of its {rows} rows lie at one place: leading {d.leading} or stride "
                f"{d.stride} is too small"
            )

    def read(self, memory: Array) -> Array:
        """The numbers, [rows, k], float64 or integers; ``memory`` is seen in units of 16 bytes."""
        found = memory.take(self.pieces + self.start)
        bits = found.view(f"u{BYTES[self.kind]}").reshape(len(found), -1)
        if not self.k_major:
            bits = bits.T
        if self.kind in ("s8", "u8"):
            return bits.view(np.int8) if self.kind == "s8" else bits
        values: Array = numbers_of(self.kind, bits).astype(np.float64)
        return values


__all__ = ["BYTES", "DEPTH", "Tile", "overlaps", "pieces"]
