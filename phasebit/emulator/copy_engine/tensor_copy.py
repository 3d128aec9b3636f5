"""The two sides of a tensor copy (PTX ISA 5.5.3 to 5.5.5, 9.7.9.27.1.2).

In global memory a box is rows of the innermost dimension, each in one piece.  Loads fill what
lies outside of the tensor, element by element.  Stores leave it alone, but for the innermost
dimension: what they write there are whole pieces of 16 bytes, up to 15 bytes past the tensor's
edge.  [seen on an H200]  In shared memory it is dense, innermost dimension
first.  With a swizzle each row takes the whole span of the swizzle, also where the box is
narrower, and the address is swizzled; the bytes between a narrow row's end and the next are left
as they were, and the mbarrier does not count them.  [seen on an H200: proof/boxes.py]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from phasebit.emulator.copy_engine.tensormap import Descriptor
from phasebit.emulator.numbers.swizzle import MODES
from phasebit.emulator.ptx.placement import GLOBAL_BASE
from phasebit.emulator.ptx.types import Array

NAN = 0x7FF7
"""The special NaN for elements outside of the tensor: 16 bits, repeated in wider types.

[seen on an H200; the PTX ISA does not say which NaN]
"""

PIECE = 16
"""Bytes that stores write or leave as one; rows of a box begin at a multiple of it."""

LINE = 128
"""Bytes within which a swizzle moves chunks."""


@functools.lru_cache(maxsize=256)
def places(mode: str, phase: int, size: int, row: int, pitch: int) -> tuple[Array, int]:
    """Where a tile's bytes go that begins at ``phase`` of the pattern, relative to its begin.

    ``size`` bytes in all, ``row`` in a row, rows ``pitch`` apart.  In units of 16 bytes (8 for
    the mode that flips halves): the places, and the unit.
    """
    unit = 8 if MODES[mode].flip else 16
    begins = np.arange(size // row) * pitch + phase
    inside = (begins[:, None] + np.arange(0, row, unit)).ravel()
    return (MODES[mode](inside) - phase) // unit, unit


class Box:
    """A tile in shared memory, read and written without its swizzle."""

    space = "shared"

    def __init__(self, memory: Any, start: int, d: Descriptor, elements: str = "") -> None:
        self.memory = memory
        self.start = start
        """The byte of the buffer at which it begins; a multiple of 128."""
        self.elements = elements
        """What they are where they have less than a byte; ``d`` has the tile in bytes."""
        self.size = d.nbytes
        self.row = d.row
        self.pitch = d.pitch
        self.mode = d.swizzle

    def _view(self) -> tuple[Array, Array]:
        """The buffer in units that stay together, and where each unit of the tile is."""
        where, unit = places(
            self.mode, self.start % MODES[self.mode].repeat, self.size, self.row, self.pitch
        )
        view = self.memory.c16 if unit == 16 else self.memory.u8
        return view, where + self.start // unit

    def read(self) -> Array:
        if self.mode == "none":
            found: Array = self.memory.u1[self.start : self.start + self.size].copy()
            return found
        view, where = self._view()
        bytes_: Array = view[where].view(np.uint8)
        return bytes_

    def write(self, data: Array) -> None:
        if self.mode == "none":
            self.memory.u1[self.start : self.start + self.size] = data
            return
        view, where = self._view()
        view[where] = data.view(view.dtype)

    def words(self, shift: int, kept: Array | None = None) -> Array:
        """The words of the tile, in order; ``kept``: of which of its bytes (:meth:`Rows.kept`)."""
        if kept is not None:
            return self._words_of(np.flatnonzero(kept), shift)
        full = self.row == self.pitch and self.size % LINE == 0
        if self.mode == "none" or full:
            return np.arange(self.start >> shift, (self.start + self.size) >> shift)
        where, unit = places(
            self.mode, self.start % MODES[self.mode].repeat, self.size, self.row, self.pitch
        )
        begins = np.sort(where) * unit + self.start >> shift
        return (begins[:, None] + np.arange(unit >> shift)).ravel()

    def _words_of(self, inside: Array, shift: int) -> Array:
        """The words of these bytes of the tile."""
        if self.mode != "none":
            where, unit = places(
                self.mode, self.start % MODES[self.mode].repeat, self.size, self.row, self.pitch
            )
            inside = where[inside // unit] * unit + inside % unit
        return np.unique(inside + self.start >> shift)


@functools.lru_cache(maxsize=256)
def _rows(strides: tuple[int, ...], box: tuple[int, ...], steps: tuple[int, ...]) -> Array:
    """Where each row of a box begins, in bytes from the first; dimension 1 is the fastest."""
    offsets = np.zeros(1, np.int64)
    for stride, extent, step in zip(strides, box[1:], steps[1:], strict=True):
        along = np.arange(0, extent, step) * stride
        offsets = (along[:, None] + offsets[None, :]).ravel()
    return offsets


def converted(kind: str, data: Array) -> Array:
    """What a load makes of the elements: tf32 is rounded to 10 bits, its NaNs are one.

    Loads of ``f32.ftz`` flush nothing.  [seen on an H200]
    """
    if kind.startswith("tf32"):
        bits = data.view(np.uint32)
        odd = bits >> np.uint32(13) & np.uint32(1)
        near = bits + np.uint32(0xFFF) + odd & np.uint32(0xFFFFE000)
        nan = bits & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000)
        data = np.where(nan, np.uint32(0x7FFFE000), near).view(data.dtype)
    return data


class Rows:
    """Rows of a tensor in global memory, of which some bytes may lie outside."""

    space = "global"

    def __init__(
        self, memory: Any, d: Descriptor, column: int, begins: Array, inside: Array | None,
        writes: bool,
    ) -> None:  # fmt: skip
        self.memory = memory
        self.d = d
        self.writes = writes
        self.size = d.bits // 8
        self.rows = d.nbytes // (d.box[0] * self.size)
        """How many rows the box has."""
        each = max(1, PIECE // self.size) if writes else 1
        low, high = max(column, 0), min(column + d.box[0], -(-d.dims[0] // each) * each)
        self.skip = (low - column) * self.size
        """Bytes at the beginning of each row that are outside of the tensor."""
        self.length = max(0, high - low) * self.size
        """Bytes of each row that are inside."""
        self.begins = begins + (d.address - GLOBAL_BASE + low * self.size)
        """The byte of the buffer at which the inside of each row begins."""
        self.inside = inside
        """Which rows are inside of the tensor; None: all."""
        if inside is not None:
            self.begins = self.begins[inside]
        if not self.length:
            self.begins = self.begins[:0]

    def _view(self) -> tuple[Array, Array, int]:
        """The buffer in the widest units that fit, where each unit of a row is, the unit."""
        crooked = int(self.begins[0]) | self.length | self.skip | 8
        unit = crooked & -crooked
        index = (self.begins // unit)[:, None] + np.arange(self.length // unit)
        return getattr(self.memory, f"u{unit}"), index, unit

    def _inner(self, table: Array, unit: int) -> Array:
        """Of a table with one row of the box in each row: the part inside of the tensor."""
        return table.view(f"u{unit}")[:, self.skip // unit : (self.skip + self.length) // unit]

    def kept(self) -> Array | None:
        """Which bytes of the box lie inside of the tensor, in the box's order; None: all."""
        row = self.d.box[0] * self.size
        if self.inside is None and self.length == row:
            return None
        table = np.zeros((self.rows, row), bool)
        rows = slice(None) if self.inside is None else self.inside
        table[rows, self.skip : self.skip + self.length] = True
        return table.ravel()

    def read(self) -> Array:
        table = np.zeros((self.rows, self.d.box[0] * self.size), np.uint8)
        if self.d.oob_fill == "nan":
            table.view(np.uint16)[:] = NAN
        if len(self.begins):
            view, index, unit = self._view()
            inner = self._inner(table, unit)
            data = view[index]
            if not self.writes:  # what is reduced is taken as it is
                data = converted(self.d.data_type, data)
            if self.inside is None:
                inner[:] = data
            else:
                inner[self.inside] = data
        return table.reshape(-1)

    def write(self, data: Array) -> None:
        if len(self.begins):
            view, index, unit = self._view()
            inner = self._inner(data.reshape(self.rows, -1), unit)
            view[index] = inner if self.inside is None else inner[self.inside]

    def words(self, shift: int) -> Array:
        if not len(self.begins):
            return np.zeros(0, np.int64)
        first = self.begins >> shift
        last = (self.begins + self.length - 1) >> shift
        return (first[:, None] + np.arange(int(last[0] - first[0]) + 1)).ravel()


def _slices(d: Descriptor, at: tuple[int, ...]) -> tuple[Descriptor, tuple[int, ...]]:
    """An interleaved tensor as one whose rows are a pixel's slice of channels, one element each.

    So pixels can be strided, and walked.  A slice that the tensor has not is outside of the row.
    """
    if d.mode == "tile":
        dims, strides, box = (1, *d.dims), (d.unit, *d.strides), (1, *d.box)
        steps, at = (1, *d.element_strides), (0, *at)
        address = d.address
    else:
        *pixel, channels, image = at
        dims, strides = (1, *d.dims[:-2], d.dims[-1]), (d.unit, *d.strides[:-2], d.strides[-1])
        box, steps = d.box, (1, *d.element_strides[:-2], d.element_strides[-1])
        address = d.address + channels * d.strides[-2]
        at = (0 if 0 <= channels < d.dims[-2] else 1, *pixel, image)
    made = dataclasses.replace(
        d, address=address, dims=dims, strides=strides, box=box, element_strides=steps
    )
    return made, at


def tile(memory: Any, d: Descriptor, at: tuple[int, ...], writes: bool) -> Rows:
    """The box of a tensor at coordinates, to be read or to be written."""
    if d.unit:
        d, at = _slices(d, at)
    begins = _rows(d.strides, d.box, d.element_strides)
    begins = begins + sum(c * s for c, s in zip(at[1:], d.strides, strict=True))
    inside: Array | None = None
    if any(c < 0 or c + b > n for c, b, n in zip(at[1:], d.box[1:], d.dims[1:], strict=True)):
        inside = np.ones(1, bool)
        for c, b, e, n in zip(at[1:], d.box[1:], d.element_strides[1:], d.dims[1:], strict=True):
            index = np.arange(c, c + b, e)
            inside = ((index >= 0) & (index < n))[:, None] & inside[None, :]
            inside = inside.ravel()
    return Rows(memory, d, at[0], begins, inside, writes)


def rows_at(
    memory: Any, d: Descriptor, first: int, rows: Sequence[int], writes: bool
) -> Rows:
    """Rows of a tensor with two dimensions, from column ``first`` on, in the order given."""
    where = np.array(rows, np.int64)
    inside: Array = (where >= 0) & (where < d.dims[1])
    begins = where * d.strides[0]
    return Rows(memory, d, first, begins, None if inside.all() else inside, writes)


def column(
    memory: Any, d: Descriptor, at: tuple[int, ...], offsets: tuple[int, ...], writes: bool
) -> Rows:
    """The pixels of an im2col copy (PTX ISA 5.5.4), walked through the window from coordinates.

    ``offsets``: how far from its place in the window each pixel is taken, along width, height
    and depth: the place in the filter.
    """
    if d.unit:
        d, at = _slices(d, at)
    spatial = list(zip(d.dims[1:-1], d.lower, d.upper, d.element_strides[1:-1], strict=True))
    counts = [-(-(n + high - low) // step) for n, low, high, step in spatial]
    number, per_image = 0, 1
    for c, count, (_, low, _, step) in zip(at[1:-1], counts, spatial, strict=True):
        number += (c - low) // step * per_image
        per_image *= count
    walk = number + np.arange(d.box[1])
    image, left = at[-1] + walk // per_image, walk % per_image
    begins = image * d.strides[-1]
    inside: Array = (image >= 0) & (image < d.dims[-1])
    for count, (n, low, _, step), offset, stride in zip(
        counts, spatial, offsets, d.strides, strict=False
    ):
        place = low + left % count * step + offset
        left = left // count
        begins = begins + place * stride
        inside &= (place >= 0) & (place < n)
    return Rows(memory, d, at[0], begins, None if inside.all() else inside, writes)


__all__ = ["PIECE", "Box", "Rows", "column", "rows_at", "tile"]
