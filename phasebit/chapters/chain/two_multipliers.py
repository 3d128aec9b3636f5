"""A pair's chain whose tensor core serves two multipliers, in clocks of the model.

Each multiplier has a sum of its own and takes every slice; a slot is empty when both have read it.
That is no row of rings, so ``model.Chain`` has no place for it. Here each job says which jobs must
have ended before it (:mod:`phasebit.pipeline.tasks`); the rest is ``Chain``'s rule. With one
product, and two sums in turn, it is ``Chain`` clock by clock, which a test compares.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from phasebit.chapters.chain import rates
from phasebit.pipeline.tasks import Task, spans

if TYPE_CHECKING:
    from phasebit.measure import Table

Name = tuple[int, ...]
"""A worker, and numbers that tell its jobs apart."""

COPY, MULTIPLY, FETCH, STORE = range(4)
"""The workers, in the order of the chain."""


def per_tile(
    k: int, *, products: int = 2, stages: int = 4, bytes_a_clock: int = 128, latency: int = 1000,
    out_bytes: int = 4, tiles: int = 40,
) -> Fraction:  # fmt: skip
    """Clocks for 256 × 256 of C, by a pair that makes ``products`` with each slice of B.

    Two products fill both sums at once; one fills them in turn. ``out_bytes``: of an element of C.
    Raises ``ValueError`` where a run does not repeat itself: give more tiles.
    """
    slices, pieces = k // rates.SLICE, rates.PIECES
    rows, columns = rates.ROWS, rates.COLUMNS
    product = 2 * rows * columns * rates.SLICE // rates.OPERATIONS
    read = 2 * rates.SLICE * (rows + columns // 2)  # of a product: its rows of A, half of B
    copied = 2 * rates.SLICE * (products * rows + columns // 2)
    out = rows * columns // pieces * out_bytes
    piece = out // rates.SHARED_BYTES
    sums = 2
    copies: dict[Name, Task] = {}
    multiplied: list[dict[Name, Task]] = [{} for _ in range(products)]
    fetched: dict[Name, Task] = {}
    stored: dict[Name, Task] = {}
    for tile in range(tiles):
        for slice_ in range(slices):
            number = tile * slices + slice_
            before = number - stages
            readers = range(products) if before >= 0 else range(0)
            empty = [((MULTIPLY, p, before), 0) for p in readers]
            copies[COPY, number] = Task(COPY, -(-copied // bytes_a_clock), 0, empty)
            for p in range(products):
                needs: list[tuple[Name, int]] = [((COPY, number), latency)]
                used = tile * products + p - sums  # who had this sum before
                if slice_ == 0 and used >= 0:
                    needs.append(((FETCH, (used + 1) * pieces - 1), 0))
                multiplied[p][MULTIPLY, p, number] = Task(MULTIPLY, product, read, needs)
        for p in range(products):
            for at in range(pieces):
                number = (tile * products + p) * pieces + at
                needs = [((MULTIPLY, p, (tile + 1) * slices - 1), 0)] if at == 0 else []
                if number >= 2:
                    needs.append(((STORE, number - 2), 0))
                fetched[FETCH, number] = Task(FETCH, piece, out, needs)
                stored[STORE, number] = Task(STORE, piece, out, [((FETCH, number), 0)])
    done = spans([copies, *multiplied, fetched, stored], rates.SHARED_BYTES)
    last = [done[STORE, (tile + 1) * products * pieces - 1].end for tile in range(tiles - 4)]
    for period in range(1, len(last) // 4):
        turns = {last[i] - last[i - period] for i in range(len(last) // 2, len(last))}
        if len(turns) == 1:
            return Fraction(turns.pop(), period * products)
    raise ValueError(f"{tiles} tiles do not repeat: give more")


def beside_the_pair(*depths: int) -> Table:
    """How busy either use of the second sum keeps the tensor core, by k and the copies' rate."""
    from phasebit.measure import Table

    copies = (48, 64, 96)
    rows = []
    for k in depths:
        products = k // rates.SLICE * 512
        uses = {
            "a pair": [rates.gemm(k, bytes_a_clock=each, stages=6, pair=True).per_tile()
                       for each in copies],
            "two products": [per_tile(k, bytes_a_clock=each) for each in copies],
        }  # fmt: skip
        for what, clocks in uses.items():
            shares = (f"{float(products / each):.2f}" for each in clocks)
            rows.append((what, str(k), *shares, f"{float(clocks[-1] - products):.0f}"))
    return Table(
        ("", "k", *(f"{each} bytes a clock" for each in copies),
         f"clocks beyond the products, at {copies[-1]}"),
        tuple(rows), "share of the time in which the tensor core multiplies; the model, C in f32",
    )  # fmt: skip
