"""Operands of block-scaled products: codes, scales in the order that tcgen05 wants, and values."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator import formats

Array = np.ndarray[Any, np.dtype[Any]]
PIECE = 512
"""Bytes of the scales of 128 rows and 4 vectors: one piece, wherever they lie."""


def operand(
    kind: str, scale: str, rows: int, depth: int, vector: int
) -> tuple[Array, Array, Array]:
    """The bytes, the scales' bytes in their pieces, and the numbers that they stand for.

    ``kind`` e2m1 (two in a byte), e4m3, e5m2; ``scale`` ue8m0 or e4m3, one for ``vector`` elements
    along ``depth``; ``rows`` a multiple of 128.
    """
    random = np.random.default_rng()
    values = random.choice([0, 0.5, 1, 1.5, 2, 3, -1, -2, -4, 6], (rows, depth))
    codes = np.asarray(formats.encode(kind, values)).astype(np.uint8)
    if kind == "e2m1":
        codes = codes[:, ::2] | codes[:, 1::2] << 4
    if scale == "ue8m0":
        scales = random.integers(125, 130, (rows, depth // vector)).astype(np.uint8)
        factors = 2.0 ** (scales.astype(int) - 127)
    else:
        factors = random.choice([0.5, 1, 1.5, 2], (rows, depth // vector))
        scales = np.asarray(formats.encode(scale, factors)).astype(np.uint8)
    pieces = scales.reshape(rows // 128, 4, 32, -1, 4).transpose(0, 3, 2, 1, 4)
    return codes, np.ascontiguousarray(pieces), values * np.repeat(factors, vector, axis=1)
