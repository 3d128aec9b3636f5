"""Matrix descriptors: 64 bits that say where a matrix lies in shared memory.

``wgmma`` (PTX ISA 9.7.15.5.1.2.2) and ``tcgen05`` (9.7.16.4.1) read A and B through one.  The
matrix is cut into *core matrices*, 8 rows of 16 bytes, and a descriptor gives the distances
between them: the stride from one group of eight rows to the next, and the leading distance
across the row.  A swizzle joins core matrices to rows of 32, 64 or 128 bytes.

A matrix is *K-major* when neighbours along k, the dimension that is summed over, are
neighbours in memory, else *MN-major*.

    >>> d = decode(0x4000404000010040, "tcgen05")
    >>> hex(d.start), d.stride, d.swizzle.name
    ('0x400', 1024, '128B')
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from phasebit.emulator.numbers import swizzle
from phasebit.emulator.numbers.swizzle import Swizzle
from phasebit.emulator.ptx.types import Array

SWIZZLES = {
    "wgmma": {0: swizzle.NONE, 1: swizzle.B128, 2: swizzle.B64, 3: swizzle.B32},
    "tcgen05": {0: swizzle.NONE, 1: swizzle.B128_ATOM_32B, 2: swizzle.B128, 4: swizzle.B64,
                6: swizzle.B32},
}  # fmt: skip
"""The swizzle field: bits 62-63 for ``wgmma``, 61-63 for ``tcgen05``."""


class DescriptorError(ValueError):
    """A descriptor that its instruction cannot take; says what is wrong with it."""


@dataclass(frozen=True)
class MatrixDescriptor:
    """What the 64 bits say; distances in bytes."""

    start: int
    """The address of the first element, in the shared memory of the block."""
    leading: int
    """K-major without swizzle: to the next 16 bytes of a row.  Else: see :func:`places`."""
    stride: int
    """K-major: to the next eight rows."""
    base_offset: int
    """Where the swizzle's pattern begins, in lines of 128 bytes, when that is no multiple of
    its length."""
    swizzle: Swizzle


def field(bits: int, low: int, width: int) -> int:
    """The number in ``width`` bits from ``low`` on."""
    return bits >> low & (1 << width) - 1


def decode(bits: int, family: str) -> MatrixDescriptor:
    """Read a descriptor of ``wgmma`` or ``tcgen05``.

    Raises :class:`DescriptorError` for one that the instruction cannot take.
    """
    bits = int(bits)
    known = SWIZZLES[family]
    if family == "wgmma":
        version = field(bits, 46, 2)
        mode = field(bits, 62, 2)
        if version == 1:
            raise DescriptorError(
                f"matrix descriptor {bits:#018x}: bits 46-47 are 1: this is a Blackwell descriptor "
                "(tcgen05); wgmma wants zeros there, and its swizzle in bits 62-63"
            )
        for low, width in ((14, 2), (30, 2), (46, 3), (52, 10)):
            if field(bits, low, width):
                raise DescriptorError(
                    f"matrix descriptor {bits:#018x}: bits {low}-{low + width - 1} must be 0; "
                    "addresses and offsets are written divided by 16"
                )
    else:
        mode = field(bits, 61, 3)
        version = field(bits, 46, 3)
        if version == 0:
            raise DescriptorError(
                f"matrix descriptor {bits:#018x}: version 0: this is a Hopper descriptor (wgmma); "
                "tcgen05 wants 1 in bits 46-48, and its swizzle in bits 61-63: "
                "1 128B with atoms of 32B, 2 128B, 4 64B, 6 32B"
            )
        if version != 1:
            raise DescriptorError(
                f"matrix descriptor {bits:#018x}: bits 46-48 are {version:03b} and must be 001"
            )
        if field(bits, 52, 1):
            raise DescriptorError(
                f"matrix descriptor {bits:#018x}: bit 52 asks for an absolute leading address, "
                "which only sm_103a has (K = 96); set it to 0"
            )
        if field(bits, 53, 8):
            raise DescriptorError(
                f"matrix descriptor {bits:#018x}: bits 53-60 must be 0"
            )
    if mode not in known:
        names = ", ".join(f"{k} {s.name}" for k, s in known.items())
        raise DescriptorError(
            f"matrix descriptor {bits:#018x}: swizzle {mode} is none; there are: {names}"
        )
    return MatrixDescriptor(
        field(bits, 0, 14) << 4, field(bits, 16, 14) << 4, field(bits, 32, 14) << 4,
        field(bits, 49, 3), known[mode],
    )  # fmt: skip


def encode(
    start: int, leading: int, stride: int, pattern: Swizzle, family: str, base_offset: int = 0
) -> int:
    """The 64 bits of a descriptor; the reverse of :func:`decode`."""
    mode = next(k for k, s in SWIZZLES[family].items() if s == pattern)
    bits = (start & 0x3FFFF) >> 4 | (leading & 0x3FFFF) >> 4 << 16 | (stride & 0x3FFFF) >> 4 << 32
    bits |= base_offset << 49
    return bits | (mode << 62 if family == "wgmma" else mode << 61 | 1 << 46)


def crooked(found: MatrixDescriptor) -> str:
    """What is wrong with where the swizzle's pattern begins; nothing mostly (9.7.15.5.1.2.2).

    A start within the pattern's first line is right: so one goes along k.
    """
    row = found.start % found.swizzle.repeat >> 7
    if not found.swizzle.bits or row == found.base_offset:
        return ""
    return (
        f"the matrix begins in row {row} of the {found.swizzle.name} swizzle's pattern, but the "
        f"base offset is {found.base_offset}: align it to {found.swizzle.repeat} bytes"
    )


def explain(bits: int, family: str) -> str:
    """All fields in words, and what is wrong with them."""
    mode = field(bits, *((62, 2) if family == "wgmma" else (61, 3)))
    pattern = SWIZZLES[family].get(mode)
    lines = [
        f"{family} matrix descriptor {bits:#018x}",
        f"  bits  0-13  start address    {field(bits, 0, 14) << 4:#x}",
        f"  bits 16-29  leading offset   {field(bits, 16, 14) << 4} bytes",
        f"  bits 32-45  stride offset    {field(bits, 32, 14) << 4} bytes",
        f"  bits 46-48  version          {field(bits, 46, 3)}",
        f"  bits 49-51  base offset      {field(bits, 49, 3)}",
        f"  bits {62 if family == 'wgmma' else 61}-63  swizzle          {mode}: "
        f"{pattern.name if pattern else 'none such'}",
    ]
    try:
        found = decode(bits, family)
        if crooked(found):
            lines.append(f"  {crooked(found)}")
    except DescriptorError as error:
        lines.append(f"  wrong: {str(error).partition(': ')[2]}")
    return "\n".join(lines)


def places(found: MatrixDescriptor, rows: int, depth: int, width: int, mn_major: bool) -> Array:
    """Where each element lies: byte addresses [rows, depth] in the block's shared memory.

    ``rows``: M of A, or N of B.  ``depth``: elements along k.  ``width``: bytes of an element.
    With W the swizzle's span and r, k counted in bytes where they run along memory:

    ================  ==================================================================
    K-major           (r % 8) W + (r / 8) stride + k % W + (k / W) leading, where W is 16
                      without a swizzle, for 16 bytes of a row lie together
    MN-major          r % W + (r / W) leading + (k % 8) W + (k / 8) stride; without a
                      swizzle leading and stride change places
    128B, 32B atoms   MN-major only: r % 128 + (r / 128) leading + (k % 4) 128 + (k / 4) stride
    ================  ==================================================================

    A row along k is longer than W in one case: B of a product with a sparse A, 64 bytes, under a
    swizzle of 32.  The ISA gives the leading distance no meaning there; an H200 takes it
    (``proof/sparse.py``), and tcgen05 is taken to do the same.
    """
    near = found.start % 1024
    key = MatrixDescriptor(near, found.leading, found.stride, found.base_offset, found.swizzle)
    return _places(key, rows, depth, width, mn_major) + (found.start - near)


def folded(found: MatrixDescriptor, rows: int, depth: int, width: int, mn_major: bool) -> bool:
    """Whether two elements of :func:`places` lie at one place."""
    near = found.start % 1024
    key = MatrixDescriptor(near, found.leading, found.stride, found.base_offset, found.swizzle)
    return _folded(key, rows, depth, width, mn_major)


@functools.lru_cache(maxsize=256)
def _folded(found: MatrixDescriptor, rows: int, depth: int, width: int, mn_major: bool) -> bool:
    return len(np.unique(_places(found, rows, depth, width, mn_major))) < rows * depth


@functools.lru_cache(maxsize=256)
def _places(found: MatrixDescriptor, rows: int, depth: int, width: int, mn_major: bool) -> Array:
    row, k = np.arange(rows)[:, None], np.arange(depth)[None, :]
    leading, stride, span = found.leading, found.stride, found.swizzle.span
    if not mn_major:
        along = k * width
        if found.swizzle.bits:
            offset = row % 8 * span + row // 8 * stride + along // span * leading + along % span
        else:
            offset = row % 8 * 16 + row // 8 * stride + along // 16 * leading + along % 16
    else:
        along = row * width
        lines = 4 if found.swizzle == swizzle.B128_ATOM_32B else 8
        if not found.swizzle.bits:
            leading, stride = stride, leading
        offset = along % span + along // span * leading + k % lines * span + k // lines * stride
    address = found.start + offset
    result: Array = np.asarray(found.swizzle(address, found.base_offset << 7), np.int64)
    result.flags.writeable = False
    return result
