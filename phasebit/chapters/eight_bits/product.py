"""The products of *Eight bits* on the emulator: operands, a launch, and what is right."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.chapters.eight_bits.quantise import Scaled, quantise
from phasebit.emulator import formats

if TYPE_CHECKING:
    from phasebit.emulator import Run

Array = NDArray[Any]
KERNELS = ONE_SCALE, BLOCK_SCALES = "a_one_scale", "b_block_scales"
HARNESS = '#include "eight_bits/product_harness.cuh"'
BLOCK, TILE_ROWS, TILE_COLUMNS, BOX = 128, 128, 256, (64, 16)
"""Numbers along K that share a scale; a tile of C; columns and rows of a box of C."""


def source(name: str) -> str:
    """The source of one of :data:`KERNELS`."""
    return files.kernel(f"eight_bits/{name}")


def function(text: str, name: str) -> str:
    """A function of a kernel, with the comment above it; ``ValueError`` where there is none."""
    found = re.search(rf"^(?://[^\n]*\n)*__device__ (?:inline )?void {name}\(.*?^}}$", text,
                      re.M | re.S)  # fmt: skip
    if found is None:
        raise ValueError(f"the kernel has no function {name}")
    return found[0]


class Product(NamedTuple):
    """A product that was made on the emulator."""

    run: Run
    c: Array
    """float32 (m, n): bf16 as the kernel stored it."""


def multiply(
    a: Scaled, b: Scaled, text: str = "", *, schedule: str = "late", seed: int = 0, blocks: int = 2
) -> Product:
    """C (m, n) = A (m, k) · B (n, k)ᵀ by a kernel's text, with every check.

    k is a multiple of 16, n of 8. ``blocks`` stand for the multiprocessors. C is full of NaN
    before the launch.
    """
    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import compile

    (m, k), n = a.codes.shape, len(b.codes)
    if k % 16 or n % 8:
        raise ValueError(f"k is {k} and n is {n}: rows of A, B and C begin at 16 bytes, so give a "
                         "multiple of 16 and one of 8")  # fmt: skip
    text = (text or source(BLOCK_SCALES)).replace(HARNESS, "")
    in_blocks = "constexpr int SCALES = 128;" in text
    c = np.full((m, n), 0x7FFF, np.uint16)
    maps = [TensorMap(q.codes.view(np.uint16), (64, rows), swizzle="128B")
            for q, rows in ((a, TILE_ROWS), (b, TILE_COLUMNS))]  # fmt: skip
    maps += [TensorMap(c, BOX, data_type="bf16", swizzle="128B")]
    if in_blocks:
        along = np.zeros((a.scales.shape[1], -(-m // 4) * 4), np.float32)
        along[:, :m] = a.scales.T
        scales: list[Any] = [TensorMap(along, (128, 1)), b.scales]
    else:
        scales = [a.scales, b.scales]
    tiles = np.array([(m, n, k, TILE_ROWS)], np.dtype([(x, "i4") for x in "mnkh"]))[0]
    count = -(-m // TILE_ROWS) * -(-n // TILE_COLUMNS)
    run = compile(text, "sm_90a")["matmul"].launch(
        min(count, blocks), 384, [*maps, *scales, tiles], shared=232_448, schedule=schedule,
        seed=seed,
    )  # fmt: skip
    return Product(run, formats.decode("bf16", c).astype(np.float32))


def plain(rows: int, k: int, seed: int, *, blocks: tuple[int, int] | None) -> Scaled:
    """Small whole numbers whose sums the tensor core makes without rounding; scales all different.

    ``blocks``: rows and columns that share a scale, a power of two; None: all share one.
    """
    draw = np.random.default_rng(seed)
    codes = formats.encode("e4m3", draw.integers(-2, 3, (rows, k)).astype(np.float64))
    shape = (1, 1) if blocks is None else (-(-rows // blocks[0]), -(-k // blocks[1]))
    scales = 2.0 ** draw.integers(-2, 2, shape)
    return Scaled(codes.astype(np.uint8), scales.astype(np.float32), blocks)


def right(a: Scaled, b: Scaled) -> Array:
    """What the product is, rounded to bf16: of :func:`plain` numbers."""
    exact = a.values() @ b.values().T
    return formats.decode("bf16", formats.encode("bf16", exact)).astype(np.float32)


__all__ = ["BLOCK_SCALES", "KERNELS", "ONE_SCALE", "Product", "function", "multiply", "plain",
           "quantise", "right", "source"]  # fmt: skip
