"""Where the copy engine lays a box of a tensor in shared memory, piece by piece, and the picture.

A piece is 16 bytes of a row: what the swizzles move, and what fills four of the 32 banks. In
shared memory a box is dense, innermost dimension first, but rows narrower than the swizzle's
span take that much; then the swizzle moves pieces within lines of 128 bytes (PTX ISA 5.5.7).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from phasebit.draw import Cell, Picture, chart
from phasebit.emulator import TensorMap, swizzle

PIECE, LINE = 16, 128
"""Bytes of a piece, and of a line: once through all banks."""


class Piece(NamedTuple):
    """16 bytes of a box."""

    row: int
    """Which row of the box: outer dimensions counted through, the second fastest."""
    number: int
    """Which piece of that row."""
    place: int
    """Where it lies: bytes from the beginning of the box in shared memory."""
    inside: int
    """How many of its bytes come from the tensor; the others are filled."""

    @property
    def group(self) -> int:
        """Which four banks hold it: 0 for banks 0 to 3, 7 for banks 28 to 31."""
        return self.place % LINE // PIECE


def pieces(tensor: TensorMap, at: Sequence[int] | int = ()) -> list[Piece]:
    """The pieces of a box in their order in the tensor, the box at ``at`` (innermost first).

    The box begins where the swizzle's pattern does, at a multiple of 1024 bytes. Raises
    ``ValueError`` for a tensor map whose elements are packed or whose copies are not tiles, and
    for a box whose rows begin within a piece, which the engine refuses.
    """
    d = tensor.descriptor
    if d.mode != "tile" or d.interleave != "none" or d.bits < 8:
        raise ValueError(f"boxes are drawn of plain tiles of whole bytes; {tensor!r} has others")
    at = (at,) if isinstance(at, int) else tuple(at) or (0,) * d.rank
    if len(at) != d.rank:
        raise ValueError(f"at has {len(at)} coordinates: give {d.rank}, the innermost first")
    size = d.bits // 8
    if at[0] * size % PIECE:
        raise ValueError(
            f"the box begins at byte {at[0] * size} of a row: give a multiple of {PIECE}, "
            "an H200 takes no other"
        )
    low, high = max(at[0], 0), min(at[0] + d.box[0], d.dims[0])
    move = swizzle.MODES[d.swizzle]
    found = []
    outer = [
        range(0, box, step) for box, step in zip(d.box[1:], d.element_strides[1:], strict=True)
    ]
    for row, reverse in enumerate(itertools.product(*reversed(outer))):
        index = [c + i for c, i in zip(at[1:], reversed(reverse), strict=True)]
        exists = all(0 <= i < n for i, n in zip(index, d.dims[1:], strict=True))
        for number in range(d.box[0] * size // PIECE):
            begin = at[0] * size + number * PIECE
            bytes_ = min(begin + PIECE, high * size) - max(begin, low * size)
            place = row * d.pitch + number * PIECE
            found.append(Piece(row, number, int(move(place)) & -PIECE, max(bytes_, 0) * exists))
    return found


def picture(tensor: TensorMap, at: Sequence[int] = (), marked: int = 0, lines: int = 16) -> Picture:
    """The first ``lines`` lines of a box's shared memory: which piece of which row lies where.

    Piece ``marked`` of every row stands out: where those are below one another, threads that read
    a column of the matrix queue at four banks.
    """
    all_ = pieces(tensor, at)
    table: list[list[Cell | None]] = [
        [None] * (LINE // PIECE) for _ in range(max(p.place for p in all_) // LINE + 1)
    ]
    for piece in all_:
        name = f"{piece.row}.{piece.number}"
        hue = "orange" if piece.number == marked else "cyan"
        if piece.inside < PIECE:
            hue = "pink" if piece.inside else "grey"
            name = f"{name} +0" if piece.inside else "0"
        table[piece.place // LINE][piece.group] = Cell(name, hue)
    shown = table[:lines]
    d = tensor.descriptor
    box = " × ".join(str(n) for n in reversed(d.box))
    where = ", ".join(str(n) for n in at or (0,) * d.rank)
    part = f", its first {lines} lines" if len(table) > lines else ""
    legend = {"orange": f"piece {marked} of its row", "cyan": "other pieces"}
    hues = {cell.hue for line in shown for cell in line if cell}
    if "grey" in hues:
        legend["grey"] = "outside: filled"
    if "pink" in hues:
        legend["pink"] = "partly outside"
    return chart(
        shown,
        rows=[f"{LINE * line}" for line in range(len(shown))],
        columns=[4 * group for group in range(LINE // PIECE)],
        row_label="byte",
        column_label="first of four banks; in the cells row.piece",
        title=f"A box of {box} {d.data_type} at ({where}), swizzle {d.swizzle}{part}",
        legend={hue: words for hue, words in legend.items() if hue in hues},
    )


__all__ = ["Piece", "picture", "pieces"]
