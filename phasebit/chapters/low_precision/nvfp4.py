"""Products of four bits of *Low precision, block by block* on the emulator, and their layouts.

No GPU that it is for was at hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.chapters.low_precision.quantise import MXFP4, NVFP4, Format, Quantised

if TYPE_CHECKING:
    from phasebit.emulator import Run
    from phasebit.launching.launch import Kernel

Array = NDArray[Any]
PIECES = 32_768
"""Bytes for pieces of C on their way, where blocks stay."""

ATOM_ROWS, ATOM_SCALES, SLICE = 128, 4, 256
"""Rows and scales of a row in an atom of 512 bytes; numbers along k in a slice."""

ALONE, PAIR, TWO_SUMS, POWERS, PAIRS_STAY = KERNELS = (
    "nvfp4", "nvfp4_pair", "nvfp4_two_sums", "mxfp4", "nvfp4_pair_two_sums",
)  # fmt: skip


def format_of(name: str) -> Format:
    """Of what one of :data:`KERNELS` multiplies."""
    return MXFP4 if name == POWERS else NVFP4


def source(name: str = ALONE) -> str:
    """The source of one of :data:`KERNELS`, whole: with this chapter's headers in their places."""
    return files.whole_kernel(f"low_precision/{name}")


def packed(codes: Array) -> Array:
    """Codes of four bits (rows, k), two in a byte: the first one in the lower half."""
    return np.asarray(codes[:, ::2] | codes[:, 1::2] << 4, np.uint8)


def atoms(scales: Array, up_to: int = ATOM_ROWS, a_slice: int = 16) -> Array:
    """Scales uint8 (rows, k / block) as the kernel's copies want them, uint8 [n, 512]; padded.

    An atom holds four scales of 128 rows: scale j of row r at byte 16 (r % 32) + 4 (r / 32) + j.
    Atoms follow each other along k, then along the rows, up to whole slices of ``a_slice`` scales
    a row and to a multiple of ``up_to`` rows.
    """
    rows, count = scales.shape
    whole = np.zeros((-(-rows // up_to) * up_to, -(-count // a_slice) * a_slice), np.uint8)
    whole[:rows, :count] = scales
    tiles = whole.reshape(-1, 4, 32, whole.shape[1] // ATOM_SCALES, ATOM_SCALES)
    return np.ascontiguousarray(tiles.transpose(0, 3, 2, 1, 4)).reshape(-1, 512)


class Product(NamedTuple):
    """A product that was made on the emulator."""

    run: Run
    c: Array
    """float32 (m, n), without the two factors for whole tensors."""


@dataclass(frozen=True)
class Prepared:
    """A kernel with all that it is launched with."""

    kernel: Kernel
    grid: tuple[int, int] | int
    threads: int
    arguments: list[Any]
    c: Array
    """The argument that the kernel writes, full of NaN."""
    shared: int = 0

    def run(self, **options: Any) -> Product:
        """Launch it once."""
        run = self.kernel.launch(
            self.grid, self.threads, self.arguments, shared=self.shared, **options
        )
        return Product(run, self.c)

    def times(self, count: int) -> list[float]:
        """Microseconds of so many launches on this machine's GPU."""
        return self.kernel.times(
            self.grid, self.threads, [self.arguments], count=count, shared=self.shared
        )


def prepare(a: Quantised, b: Quantised, text: str = "", blocks: int = 2) -> Prepared:
    """C (m, n) = A (m, k) · B (n, k)ᵀ, both of the kernel's format; k a multiple of 32.

    ``text``: another kernel than :data:`ALONE`'s; of a pair where it has a cluster. Where it says
    what a role does for each tile, ``blocks`` of them stay and take tile after tile.
    """
    from phasebit.emulator import TensorMap
    from phasebit.launching.launch import compile

    (m, k), n = a.codes.shape, len(b.codes)
    if k % 32:
        raise ValueError(f"k is {k}: give a multiple of 32, so that rows begin at 16 bytes")
    text = text or source(ALONE)
    pair = 2 if "__cluster_dims__" in text else 1  # blocks that make a tile
    stays = "for_each_tile(" in text
    rows = 128 * pair, 256 if stays else 128 * pair  # of A and of B, of a tile
    b_rows = rows[1] // pair  # that a block brings
    maps = [TensorMap(packed(q.codes), (SLICE, high), data_type="b4x16", dims=(k, len(q.codes)),
                      strides=(k // 2,), swizzle="128B")
            for q, high in ((a, 128), (b, b_rows))]  # fmt: skip
    a_slice = SLICE // a.format.block  # scales of a row
    scales: list[Any] = [atoms(q.scales, up, a_slice) for q, up in zip((a, b), rows, strict=True)]
    if stays:  # a row for each 128 of the matrix; of B one copy brings what is for two
        width = 64 * 4 * -(-k // SLICE)
        mapped = [TensorMap(x.view(np.int64).reshape(-1, width), (256, high), data_type="s64")
                  for x, high in zip(scales, (1, 2), strict=True)]  # fmt: skip
        scales = mapped if pair == 2 else [scales[0], mapped[1]]
    elif pair == 2:
        scales = [TensorMap(x.view(np.int32), (128, 4), data_type="s32") for x in scales]
    held = np.full((m, -(-n // 4) * 4 if stays else n), np.nan, np.float32)
    out: Any = held
    if stays:  # by the copy engine: rows of C begin at multiples of 16 bytes
        out = TensorMap(held, (32, 128), data_type="f32", dims=(n, m),
                        strides=(4 * held.shape[1],), swizzle="128B")  # fmt: skip
    slot = SLICE // 2 * (128 + b_rows) + a_slice * (128 + rows[1])
    return Prepared(
        compile(text, "sm_100a")["matmul"],
        blocks // pair * pair if stays else (pair * -(-n // rows[1]), -(-m // rows[0])), 192,
        [*maps, *scales, out, m, n, -(-k // SLICE)], held[:, :n],
        3 * slot + PIECES * stays + 1_024,
    )  # fmt: skip


def multiply(a: Quantised, b: Quantised, text: str = "", **options: Any) -> Product:
    """:func:`prepare`, and one launch: on the emulator with every check, unless ``options`` say
    otherwise, which are those of a launch.
    """
    return prepare(a, b, text).run(**options)


def verdict(text: str, m: int, n: int, k: int, form: Format = NVFP4) -> str:
    """What three orders of copies and products say of a kernel, with numbers of :func:`plain`."""
    a, b, said = plain(m, k, 1, form), plain(n, k, 2, form), []
    for schedule in ("eager", "late", "random"):
        run, c = multiply(a, b, text, schedule=schedule)
        exact = np.array_equal(c, a.values() @ b.values().T)
        said.append(f"{schedule}: {'exact' if exact else 'WRONG'}, {len(run.findings)} findings")
    return "; ".join(said)


def plain(rows: int, k: int, seed: int, form: Format = NVFP4) -> Quantised:
    """Random numbers whose products add up without rounding: small scales, powers of two."""
    draw = np.random.default_rng(seed)
    codes = draw.integers(0, 16, (rows, k)).astype(np.uint8)
    small = {"ue4m3": [0x30, 0x38, 0x40], "ue8m0": [126, 127, 128]}[form.scale]
    scales = draw.choice(np.array(small, np.uint8), (rows, k // form.block))
    return Quantised(form, codes, scales, 1.0)
