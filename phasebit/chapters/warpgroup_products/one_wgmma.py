"""One wgmma with every choice in the reader's hand: descriptors, majors, the sign, A's registers.

:func:`product` runs ``kernels/warpgroup_products/described.cu`` on the emulator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from phasebit import files
from phasebit.emulator import Schedule

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.emulator import Run

ROWS, DEPTH = 64, 64
"""Of a tile of A or of B."""


class Tile(NamedTuple):
    """A tile in shared memory and the descriptor that leads to its elements."""

    image: Any
    """What shared memory holds, as words of 32 bits."""
    descriptor: int
    """As if the tile began at address 0."""


def tile(matrix: Any, swizzle: str = "128B", *, mn_major: bool = False) -> Tile:
    """Lay a matrix (64 rows, 64 along k) of bf16 out as wgmma wants it.

    K-major: lines along k. MN-major: lines of 64 rows, one for each k.
    """
    import numpy as np

    from phasebit.emulator import formats, matrix_descriptors
    from phasebit.emulator import swizzle as swizzles

    pattern = swizzles.MODES[swizzle]
    span = pattern.span if pattern.bits else 16
    if mn_major:
        leading, stride = (DEPTH * span, 8 * span) if pattern.bits else (128, 1024)
    else:
        leading, stride = (16, 8 * span) if pattern.bits else (128, 1024)
    bits = matrix_descriptors.encode(0, leading, stride, pattern, "wgmma")
    where = places(bits, mn_major=mn_major)
    image = np.zeros(ROWS * DEPTH, np.uint16)
    image[where // 2] = formats.encode("bf16", np.asarray(matrix, np.float64))
    return Tile(image.view(np.uint32), bits)


def places(bits: int, *, mn_major: bool = False) -> Any:
    """Where each of 64 × 64 numbers of two bytes lies for a descriptor: bytes, (row, k)."""
    from phasebit.emulator import matrix_descriptors

    found = matrix_descriptors.decode(bits, "wgmma")
    return matrix_descriptors.places(found, ROWS, DEPTH, 2, mn_major)


def product(
    a: Tile, b: Tile, *, text: str = "", kernel: str = "described", step: int = 2,
    schedule: Schedule = "late",
) -> tuple[Any, Run]:  # fmt: skip
    """The 64 × 64 sums of A · Bᵀ over a depth of 64, and the run.

    ``kernel``: ``described``, ``m_major``, ``negated`` or ``from_registers``. ``step``: what is
    added to B's descriptor for the next 16 along k. ``text``: the kernels, if not the file's.
    """
    import numpy as np

    from phasebit.launching.launch import compile

    out = np.zeros((ROWS, ROWS), np.float32)
    module = compile(text or files.kernel("warpgroup_products/described"), "sm_90a")
    arguments = [a.image, b.image, a.descriptor, b.descriptor, step, out]
    return out, module[kernel].launch(1, 128, arguments, schedule=schedule)


def pieces(bits: int, title: str, *, mn_major: bool = False, lines: int = 10) -> Picture:
    """Where a tile's pieces of 16 bytes lie: the row and the k of the first number of each."""
    from phasebit.draw import Cell, chart

    where = places(bits, mn_major=mn_major)
    first = {int(where[r, k]): (r, k) for r in range(ROWS) for k in range(DEPTH)}
    cells = []
    for line in range(lines):
        held = [first[128 * line + 16 * piece] for piece in range(8)]
        cells.append([Cell(f"{r},{k}", "orange" if k < 16 else "blue") for r, k in held])
    return chart(
        cells, rows=[128 * line for line in range(lines)], columns=[16 * p for p in range(8)],
        row_label="byte", column_label="byte of the line; in the cells row,k", title=title,
        legend={"orange": "what the first instruction reads, k < 16", "blue": "later k"},
    )  # fmt: skip
