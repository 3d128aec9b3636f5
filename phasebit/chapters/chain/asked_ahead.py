"""What a second slot for answers of launch control buys, in clocks of the model.

The last reader of an answer is the epilogue, when it has carried out a tile; with one slot the next
answer is asked for only then. An answer has readers in all roles, so this is no row of rings: each
job says which jobs must have ended before it (:mod:`phasebit.pipeline.tasks`). With as many slots
as anybody wants it is the chain of :func:`rates.gemm`, clock by clock, which a test compares.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from phasebit.chapters.chain import rates
from phasebit.pipeline.tasks import Task, spans

if TYPE_CHECKING:
    from phasebit.draw import Picture

Name = tuple[int, int]
"""A worker, and the number of its job."""

ASK, COPY, MULTIPLY, FETCH, STORE = range(5)
"""The workers: who asks for tiles, and those of the chain, in its order."""

STAGES, SUMS, PIECES_SLOTS = 4, 2, 2
"""Slots of the rings behind the answers."""


def per_tile(
    k: int, slots: int, *, answer: int = 1000, latency: int = 1000, bytes_a_clock: int = 128,
    out_bytes: int = 4, tiles: int = 64,
) -> Fraction:  # fmt: skip
    """Clocks for a tile of 128 × 256 by a block that asks for tiles, ``slots`` answers at most.

    ``answer``: clocks from asking to the answer. The rest is what :func:`rates.gemm` is told.
    """
    slices, pieces = k // rates.SLICE, rates.PIECES
    product = 2 * rates.ROWS * rates.COLUMNS * rates.SLICE // rates.OPERATIONS
    slice_bytes = 2 * rates.SLICE * (rates.ROWS + rates.COLUMNS)
    out = rates.ROWS * rates.COLUMNS // pieces * out_bytes
    asked: dict[Name, Task] = {}
    copies: dict[Name, Task] = {}
    multiplied: dict[Name, Task] = {}
    fetched: dict[Name, Task] = {}
    stored: dict[Name, Task] = {}
    for tile in range(tiles):
        read = (FETCH, (tile - slots + 1) * pieces - 1)  # then all have read what was in the slot
        asked[ASK, tile] = Task(ASK, 1, 0, [(read, 0)] if tile >= slots else [])
        for slice_ in range(slices):
            number = tile * slices + slice_
            needs: list[tuple[Name, int]] = []
            if number >= STAGES:
                needs.append(((MULTIPLY, number - STAGES), 0))
            if slice_ == 0 and tile:  # answer 0 names tile 1
                needs.append(((ASK, tile - 1), answer))
            copies[COPY, number] = Task(COPY, -(-slice_bytes // bytes_a_clock), 0, needs)
            needs = [((COPY, number), latency)]
            if slice_ == 0 and tile >= SUMS:
                needs.append(((FETCH, (tile - SUMS + 1) * pieces - 1), 0))
            multiplied[MULTIPLY, number] = Task(MULTIPLY, product, slice_bytes, needs)
        for at in range(pieces):
            number = tile * pieces + at
            needs = [((MULTIPLY, (tile + 1) * slices - 1), 0)] if at == 0 else []
            if number >= PIECES_SLOTS:
                needs.append(((STORE, number - PIECES_SLOTS), 0))
            piece = out // rates.SHARED_BYTES
            fetched[FETCH, number] = Task(FETCH, piece, out, needs)
            stored[STORE, number] = Task(STORE, piece, out, [((FETCH, number), 0)])
    done = spans([asked, copies, multiplied, fetched, stored], rates.SHARED_BYTES)
    last = [done[STORE, (tile + 1) * pieces - 1].end for tile in range(tiles - 4)]
    for period in range(1, len(last) // 4):
        turns = {last[i] - last[i - period] for i in range(len(last) // 2, len(last))}
        if len(turns) == 1:
            return Fraction(turns.pop(), period)
    raise ValueError(f"{tiles} tiles do not repeat: give more")


def picture(*depths: int) -> Picture:
    """How much longer a tile takes with one slot for answers than with two, by k and type of C."""
    from phasebit.draw import curves

    longer = {
        f"C in {kind}": [
            float(per_tile(k, 1, out_bytes=size) / per_tile(k, 2, out_bytes=size)) for k in depths
        ]
        for kind, size in {"f32": 4, "bf16": 2}.items()
    }
    return curves(
        list(depths), longer, x_label="k", y_label="clocks a tile, one slot over two", evenly=True,
        title="A block alone; an answer comes 1000 clocks after it was asked for",
    )
