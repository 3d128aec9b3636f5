"""The products of *Eight bits* on the emulator: operands, a launch, and what is right."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.chapters.eight_bits.scaled import Scaled, quantise
from phasebit.edits import function as function
from phasebit.emulator import Schedule, formats

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.launching.launch import Kernel

Array = NDArray[Any]
KERNELS = ONE_SCALE, BLOCK_SCALES, TWO_PARTS, UNROLLED, PAIRS, IN_SLOT = (
    "a_one_scale", "b_block_scales", "c_two_parts", "d_unrolled", "e_pairs", "f_scales_in_slot",
)
HARNESS = '#include "eight_bits/product_harness.cuh"'
_INCLUDE = re.compile(r"^#include .*$", re.MULTILINE)
TILE_ROWS = 128
TILE_COLUMNS = {TWO_PARTS: 192}
"""A tile of C has 256; of these kernels it has another number."""
TOGETHER = {PAIRS: 2}
"""Blocks that share a tile of B, by kernel; of another kernel a block has its own."""
BOX_ROWS = {IN_SLOT: 64}
"""A box of C has 16 rows and 64 columns; of these kernels it has another number of rows."""


def source(name: str) -> str:
    """The source of one of :data:`KERNELS`."""
    return files.kernel(f"eight_bits/{name}")


class Product(NamedTuple):
    """A product that was made on the emulator."""

    run: Run
    c: Array
    """float32 (m, n): bf16 as the kernel stored it."""


def kernels(texts: Mapping[str, str]) -> dict[str, Kernel]:
    """The kernel of each text, without its host half; compiled together, to read headers once."""
    from phasebit.launching.launch import compile

    spaces = {name: f"kernel_{number}" for number, name in enumerate(texts)}
    bodies = [
        f"namespace {spaces[name]} {{\n{_INCLUDE.sub('', text[: text.index('void launch(')])}\n}}"
        for name, text in texts.items()
    ]
    module = compile("\n".join(['#include "eight_bits/product.cuh"', *bodies]), "sm_90a")
    return {name: module[f"{space}::matmul"] for name, space in spaces.items()}


def multiply(
    a: Scaled, b: Scaled, kernel: str | Kernel = "", *, schedule: Schedule = "late", seed: int = 0,
    blocks: int = 2, of: str = BLOCK_SCALES,
) -> Product:  # fmt: skip
    """C (m, n) = A (m, k) · B (n, k)ᵀ by a kernel, or by its text, with every check.

    ``of`` says which of :data:`KERNELS` it was made from, with which scales and which tiles.
    k is a multiple of 16, n of 8. ``blocks`` stand for the multiprocessors. C is full of NaN
    before the launch.
    """
    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import compile

    (m, k), n = a.codes.shape, len(b.codes)
    if k % 16 or n % 8:
        raise ValueError(f"k is {k} and n is {n}: rows of A, B and C begin at 16 bytes, so give a "
                         "multiple of 16 and one of 8")  # fmt: skip
    if isinstance(kernel, str):
        text = kernel or source(of)
        kernel = compile(text[: text.index("void launch(")], "sm_90a")["matmul"]
    c = np.full((m, n), 0x7FFF, np.uint16)
    pair, width = TOGETHER.get(of, 1), TILE_COLUMNS.get(of, 256)
    maps = [TensorMap(q.codes.view(np.uint16), (64, rows), swizzle="128B")
            for q, rows in ((a, TILE_ROWS), (b, width // pair))]  # fmt: skip
    maps += [TensorMap(c, (64, BOX_ROWS.get(of, 16)), data_type="bf16", swizzle="128B")]
    if of != ONE_SCALE:
        along = np.zeros((a.scales.shape[1], -(-m // 4) * 4), np.float32)
        along[:, :m] = a.scales.T
        scales: list[Any] = [TensorMap(along, (128, 1)), b.scales]
    else:
        scales = [a.scales, b.scales]
    high = -(-m // (pair * TILE_ROWS))
    rows = m if pair == 1 else high * TILE_ROWS
    tiles = np.array([(rows, n, k, width)], np.dtype([(x, "i4") for x in "mnkw"]))[0]
    count = high * -(-n // width)
    run = kernel.launch(
        pair * min(count, max(1, blocks // pair)), 384, [*maps, *scales, tiles], shared=232_448,
        schedule=schedule, seed=seed,
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
