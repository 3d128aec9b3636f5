"""The NVFP4 product of *Low precision, block by block* on the emulator, and its layouts.

No GPU that it is for was at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.chapters.low_precision.quantise import Quantised

if TYPE_CHECKING:
    from phasebit.emulator import Run

Array = NDArray[Any]
ATOM_ROWS, ATOM_SCALES, SLICE = 128, 4, 256
"""Rows and scales of a row in an atom of 512 bytes; numbers along k in a slice."""

SOURCE = "nvfp4"


def source() -> str:
    """The kernel's source."""
    return (files.kernels() / "low_precision" / f"{SOURCE}.cu").read_text(encoding="utf-8")


def packed(codes: Array) -> Array:
    """Codes of four bits (rows, k), two in a byte: the first one in the lower half."""
    return np.asarray(codes[:, ::2] | codes[:, 1::2] << 4, np.uint8)


def atoms(scales: Array) -> Array:
    """Scales uint8 (rows, k / 16) as the kernel's copies want them, uint8 [n, 512]; padded.

    An atom holds four scales of 128 rows: scale j of row r at byte 16 (r % 32) + 4 (r / 32) + j.
    Atoms follow each other along k, then along the rows, up to whole slices.
    """
    rows, count = scales.shape
    whole = np.zeros((-(-rows // ATOM_ROWS) * ATOM_ROWS, -(-count // 16) * 16), np.uint8)
    whole[:rows, :count] = scales
    tiles = whole.reshape(-1, 4, 32, whole.shape[1] // ATOM_SCALES, ATOM_SCALES)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(-1, 512)


class Product(NamedTuple):
    """A product that was made on the emulator."""

    run: Run
    c: Array
    """float32 (m, n), without the two factors for whole tensors."""


def multiply(a: Quantised, b: Quantised, text: str = "", *, schedule: str = "late") -> Product:
    """C (m, n) = A (m, k) · B (n, k)ᵀ with every check; k a multiple of 32.

    ``text``: another kernel than the file's. C is full of NaN before the launch.
    """
    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import compile

    (m, k), n = a.codes.shape, len(b.codes)
    if k % 32:
        raise ValueError(f"k is {k}: give a multiple of 32, so that rows begin at 16 bytes")
    maps = [TensorMap(packed(q.codes), (SLICE, 128), data_type="b4x16", dims=(k, len(q.codes)),
                      strides=(k // 2,), swizzle="128B") for q in (a, b)]  # fmt: skip
    c = np.full((m, n), np.nan, np.float32)
    run = compile(text or source(), "sm_100a")["matmul"].launch(
        (-(-n // 128), -(-m // 128)), 192,
        [*maps, atoms(a.scales), atoms(b.scales), c, m, n, -(-k // SLICE)],
        shared=3 * 36_864 + 1_024, schedule=schedule,
    )  # fmt: skip
    return Product(run, c)


def plain(rows: int, k: int, seed: int) -> Quantised:
    """Random numbers whose products add up without rounding: small scales, powers of two."""
    from phasebit.chapters.low_precision.quantise import NVFP4

    draw = np.random.default_rng(seed)
    codes = draw.integers(0, 16, (rows, k)).astype(np.uint8)
    scales = draw.choice(np.array([0x30, 0x38, 0x40], np.uint8), (rows, k // 16))
    return Quantised(NVFP4, codes, scales, 1.0)
