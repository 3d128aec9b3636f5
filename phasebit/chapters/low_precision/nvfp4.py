"""The NVFP4 products of *Low precision, block by block* on the emulator, and their layouts.

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

ALONE, PAIR, TWO_SUMS = KERNELS = "nvfp4", "nvfp4_pair", "nvfp4_two_sums"


def source(name: str = ALONE) -> str:
    """The source of one of :data:`KERNELS`."""
    return (files.kernels() / "low_precision" / f"{name}.cu").read_text(encoding="utf-8")


def packed(codes: Array) -> Array:
    """Codes of four bits (rows, k), two in a byte: the first one in the lower half."""
    return np.asarray(codes[:, ::2] | codes[:, 1::2] << 4, np.uint8)


def atoms(scales: Array, up_to: int = ATOM_ROWS) -> Array:
    """Scales uint8 (rows, k / 16) as the kernel's copies want them, uint8 [n, 512]; padded.

    An atom holds four scales of 128 rows: scale j of row r at byte 16 (r % 32) + 4 (r / 32) + j.
    Atoms follow each other along k, then along the rows, up to whole slices and to a multiple of
    ``up_to`` rows.
    """
    rows, count = scales.shape
    whole = np.zeros((-(-rows // up_to) * up_to, -(-count // 16) * 16), np.uint8)
    whole[:rows, :count] = scales
    tiles = whole.reshape(-1, 4, 32, whole.shape[1] // ATOM_SCALES, ATOM_SCALES)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(-1, 512)


STAYING = 2
"""Blocks of :data:`TWO_SUMS`, which take tile after tile."""


class Product(NamedTuple):
    """A product that was made on the emulator."""

    run: Run
    c: Array
    """float32 (m, n), without the two factors for whole tensors."""


def multiply(a: Quantised, b: Quantised, text: str = "", **options: Any) -> Product:
    """C (m, n) = A (m, k) · B (n, k)ᵀ with every check; k a multiple of 32.

    ``text``: another kernel than :data:`ALONE`'s; of a pair where it has a cluster, with blocks
    that stay where it says what a role does for each tile. ``options``: those of a launch. C is
    full of NaN before it.
    """
    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import compile

    (m, k), n = a.codes.shape, len(b.codes)
    if k % 32:
        raise ValueError(f"k is {k}: give a multiple of 32, so that rows begin at 16 bytes")
    text = text or source(ALONE)
    blocks = 2 if "__cluster_dims__" in text else 1
    stays = "for_each_tile(" in text
    maps = [TensorMap(packed(q.codes), (SLICE, 128), data_type="b4x16", dims=(k, len(q.codes)),
                      strides=(k // 2,), swizzle="128B") for q in (a, b)]  # fmt: skip
    rows = 128 * blocks, 256 if stays else 128 * blocks
    scales: list[Any] = [atoms(q.scales, up) for q, up in zip((a, b), rows, strict=True)]
    if blocks == 2:
        scales = [TensorMap(x.view(np.int32), (128, 4), data_type="s32") for x in scales]
    grid = blocks * -(-n // rows[1]), -(-m // rows[0])
    slot = (18 + 36) * 1024 if stays else 32_768 + 2_048 * (1 + blocks)
    c = np.full((m, n), np.nan, np.float32)
    run = compile(text, "sm_100a")["matmul"].launch(
        STAYING if stays else grid, 192, [*maps, *scales, c, m, n, -(-k // SLICE)],
        shared=3 * slot + 1_024, **options,
    )  # fmt: skip
    return Product(run, c)


def plain(rows: int, k: int, seed: int) -> Quantised:
    """Random numbers whose products add up without rounding: small scales, powers of two."""
    from phasebit.chapters.low_precision.quantise import NVFP4

    draw = np.random.default_rng(seed)
    codes = draw.integers(0, 16, (rows, k)).astype(np.uint8)
    scales = draw.choice(np.array([0x30, 0x38, 0x40], np.uint8), (rows, k // 16))
    return Quantised(NVFP4, codes, scales, 1.0)
