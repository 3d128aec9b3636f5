"""Numbers of eight bits and their scales: how they are made, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit.emulator import formats

Array = NDArray[Any]
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
"""The largest number of each format (PTX ISA 5.2.3; Micikevicius et al. 2022)."""

ROWS, SQUARES = (1, 128), (128, 128)
"""Numbers that share a scale: of activations a row's 128, of weights 128 × 128 (DeepSeek-V3)."""


@dataclass(frozen=True)
class Scaled:
    """A matrix (rows, k) of eight bits: what a kernel is given."""

    codes: Array
    """uint8 (rows, k)."""
    scales: Array
    """float32, one for each block, rounded up; of a whole tensor (1, 1)."""
    blocks: tuple[int, int] | None
    """Rows and columns that share a scale; None: all of them."""
    element: str = "e4m3"

    def values(self) -> Array:
        """The numbers that these stand for, float64 (rows, k)."""
        rows, k = self.codes.shape
        numbers = formats.decode(self.element, self.codes).astype(np.float64)
        return numbers * spread(self.scales, self.blocks, rows, k)


def spread(scales: Array, blocks: tuple[int, int] | None, rows: int, k: int) -> Array:
    """The scale of each number, float64 (rows, k)."""
    high, wide = blocks or (rows, k)
    each = np.repeat(np.repeat(scales, high, axis=0), wide, axis=1)
    return np.asarray(each[:rows, :k], np.float64)


def quantise(x: Array, blocks: tuple[int, int] | None, element: str = "e4m3") -> Scaled:
    """``x`` (rows, k), float, in eight bits; the largest number of each block becomes the largest
    of the format. Blocks of zeros get the scale 1.
    """
    rows, k = x.shape
    high, wide = blocks or (rows, k)
    up, along = -(-rows // high), -(-k // wide)
    whole = np.zeros((up * high, along * wide))
    whole[:rows, :k] = np.abs(x)
    most = whole.reshape(up, high, along, wide).max(axis=(1, 3))
    scales = np.where(most > 0, most / LARGEST[element], 1.0).astype(np.float32)
    codes = formats.encode(element, x / spread(scales, blocks, rows, k), satfinite=True)
    return Scaled(codes.astype(np.uint8), scales, blocks, element)
