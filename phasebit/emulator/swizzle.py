"""Swizzles: how a tile's 16-byte chunks change places in shared memory (PTX ISA 5.5.7).

A tile that is written row by row and read column by column would meet few banks.  The
copy engine and the tensor cores therefore exchange address bits: bits of the chunk within
its 128-byte line are combined with bits of the line's number, by exclusive or.  Doing it
twice gives the old place back, so one function serves both ways.

>>> [int(a) for a in swizzle(np.array([0, 128, 256, 1024]), "128B")]
[0, 144, 288, 1024]
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from phasebit.emulator.types import Array


@dataclass(frozen=True)
class Mode:
    """``bits``: which address bits take in the bits ``shift`` above them."""

    bits: int
    shift: int
    span: int
    """Bytes of a row within which chunks change places."""
    repeat: int
    """Bytes after which the pattern begins again."""
    flip: bool = False
    """Whether the halves of each 16 bytes change places in every other line."""


MODES = {
    "none": Mode(0, 0, 16, 16),
    "32B": Mode(0x10, 3, 32, 256),
    "64B": Mode(0x30, 3, 64, 512),
    "128B": Mode(0x70, 3, 128, 1024),
    "128B_ATOM_32B": Mode(0x60, 2, 128, 512),
    "128B_ATOM_32B_FLIP_8B": Mode(0x60, 2, 128, 512, flip=True),
    "128B_ATOM_64B": Mode(0x40, 1, 128, 256),
}
"""By the names of the driver's enumeration, in its order."""


def swizzle(address: Array, mode: str) -> Array:
    """Where the byte at each address goes; the same function brings it back."""
    m = MODES[mode]
    moved: Array = address ^ (address >> m.shift & m.bits)
    return moved ^ (address >> 4 & 8) if m.flip else moved


@functools.lru_cache(maxsize=256)
def places(mode: str, phase: int, size: int) -> tuple[Array, int]:
    """Where a tile's bytes go that begins at ``phase`` of the pattern, relative to its begin.

    In units of 16 bytes (8 for the mode that flips): the places, and the unit.
    """
    unit = 8 if MODES[mode].flip else 16
    inside = np.arange(phase, phase + size, unit)
    return (swizzle(inside, mode) - phase) // unit, unit


__all__ = ["MODES", "Mode", "places", "swizzle"]
