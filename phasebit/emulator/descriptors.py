"""Matrix descriptors: 64 bits that tell a tensor core how a tile lies in shared memory.

A tile is made of *core matrices*, 8 rows of 16 bytes; with a swizzle the rows are ``span`` =
32, 64 or 128 bytes long.  The descriptor says where the first one begins and how far it is to the
next ones:

    bits     field (byte numbers divided by 16)
    0-13     start address
    16-29    leading byte offset
    32-45    stride byte offset
    46-48    version: 0 on Hopper (wgmma), 1 on Blackwell (tcgen05)
    49-51    base offset: the row of the swizzle pattern at which the tile begins
    62-63    swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes

The two offsets mean different things by *major*, the direction in which elements lie side by side.
``row`` counts along M or N, ``k`` along K, both in bytes where they run along 16-byte pieces:

    K-major, no swizzle     row % 8 · 16 + row / 8 · stride + k / 16 · leading
    K-major, swizzled       row % 8 · span + row / 8 · stride + k
    MN-major, no swizzle    row / 16 · stride + k % 8 · 16 + k / 8 · leading
    MN-major, swizzled      row % span + row / span · leading + k % 8 · span + k / 8 · stride

and the swizzle is then done on the address, start included.  A descriptor says nothing of the
major, the type or the size of the tile: those are in the instruction.

    >>> print(Descriptor.decode(0x4000004000010040).explain())
    start address 0x400, leading byte offset 16, stride byte offset 1024, 128-byte swizzle

Sources: PTX ISA 9.7.15.5.1 (wgmma), 9.7.16.4.1 (tcgen05); CUTLASS, ``mma_sm90_desc.hpp``.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from phasebit.emulator.swizzle import MASK, PATTERN
from phasebit.emulator.types import Array

SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
"""The swizzle field -> bytes of a row; 0: no swizzle."""

ADDRESSES = 1 << 18
"""Bytes that a descriptor's 14 bits of address can tell apart."""

RESERVED = ((14, 15), (30, 31), (52, 61))
"""Bits that must be zero."""


@dataclass(frozen=True)
class Descriptor:
    """The fields of a Hopper descriptor, in bytes."""

    start: int
    leading: int
    stride: int
    span: int
    """Bytes of a swizzled row: 32, 64, 128, or 0 without swizzle."""
    base: int = 0
    version: int = 0
    reserved: tuple[tuple[int, int], ...] = ()
    """Ranges of bits that should be zero and are not."""

    @staticmethod
    def decode(value: int) -> Descriptor:
        """The fields of 64 bits."""

        def field(low: int, high: int) -> int:
            return value >> low & ((1 << (high - low + 1)) - 1)

        return Descriptor(
            field(0, 13) << 4, field(16, 29) << 4, field(32, 45) << 4, SPANS[field(62, 63)],
            field(49, 51), field(46, 48), tuple(r for r in RESERVED if field(*r)),
        )  # fmt: skip

    def encode(self) -> int:
        """The 64 bits."""
        swizzle = next(code for code, span in SPANS.items() if span == self.span)
        return (
            (self.start & (ADDRESSES - 1)) >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32
            | self.version << 46 | self.base << 49 | swizzle << 62
        )  # fmt: skip

    def explain(self) -> str:
        """The fields in words, and after them what is wrong whatever the tile."""
        swizzle = f"{self.span}-byte swizzle" if self.span else "no swizzle"
        text = (
            f"start address {self.start:#x}, leading byte offset {self.leading}, "
            f"stride byte offset {self.stride}, {swizzle}"
        )
        if self.base:
            text += f", base offset {self.base}"
        return "; ".join([text, *self.faults()])

    def faults(self) -> list[str]:
        """What no tile of wgmma can have, each in a sentence that says the remedy."""
        found = []
        if self.version == 1:
            found.append("version 1: this is a Blackwell descriptor (tcgen05), and wgmma takes 0")
        elif self.version:
            found.append(f"version {self.version}: bits 46 to 48 must be zero")
        for low, high in self.reserved:
            found.append(f"bits {low} to {high} must be zero: encode an offset as bytes / 16")
        row = self.start >> 7 & (max(PATTERN[self.span] >> 7, 1) - 1)
        if self.span and row != self.base:
            found.append(
                f"the tile begins in row {row} of the {self.span}-byte swizzle's pattern, but the "
                f"base offset says {self.base}: align the tile to {PATTERN[self.span]} bytes"
            )
        return found

    def misplaced(self, rows: int, k_bytes: int, k_major: bool) -> list[str]:
        """What is wrong for a tile of this size."""
        if overlaps(self.start % 1024, self.layout, rows, k_bytes, k_major):
            return [
                f"two parts of the tile of {rows} rows lie at one place: an offset is too small"
            ]
        return []

    @property
    def layout(self) -> tuple[int, int, int, int]:
        """All but where it begins."""
        return (self.leading, self.stride, self.span, self.base)


@functools.lru_cache(maxsize=512)
def pieces(
    phase: int, layout: tuple[int, int, int, int], rows: int, k_bytes: int, k_major: bool
) -> Array:
    """Where the 16-byte pieces of a tile lie, in units of 16 bytes.

    ``phase`` is the start address modulo 1024; the numbers count from there down to the multiple
    of 1024 before it.  K-major: [rows, k_bytes / 16].  MN-major: [k, pieces along the rows],
    for elements of two bytes.
    """
    leading, stride, span, base = layout
    if k_major:
        row, k = np.arange(rows)[:, None], np.arange(0, k_bytes, 16)
        if span:
            place = row % 8 * span + row // 8 * stride + k
        else:
            place = row % 8 * 16 + row // 8 * stride + k // 16 * leading
    else:
        k, row = np.arange(k_bytes // 2)[:, None], np.arange(0, 2 * rows, 16)
        if span:
            place = row % span + row // span * leading + k % 8 * span + k // 8 * stride
        else:
            place = row // 16 * stride + k % 8 * 16 + k // 8 * leading
    address = phase + place
    found: Array = (address ^ ((address - (base << 7)) >> 3 & MASK[span])) >> 4
    return found


@functools.lru_cache(maxsize=512)
def overlaps(
    phase: int, layout: tuple[int, int, int, int], rows: int, k_bytes: int, k_major: bool
) -> bool:
    """Whether two pieces of the tile lie at one place."""
    found = pieces(phase, layout, rows, k_bytes, k_major)
    return len(np.unique(found)) < found.size


__all__ = ["ADDRESSES", "Descriptor", "overlaps", "pieces"]
