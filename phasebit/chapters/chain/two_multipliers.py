"""A pair's chain whose tensor core serves two multipliers, in clocks of the model.

Each multiplier has a sum of its own and takes every slice; a slot is empty when both have read it.
That is no row of rings, so ``model.Chain`` has no place for it. Here each job says which jobs must
have ended before it; the rest is ``Chain``'s rule: the job that can begin first does, a worker does
one at a time, and the shared memory serves jobs in the order in which they begin. With one product,
and two sums in turn, it is ``Chain`` clock by clock, which a test compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from phasebit.chapters.chain import rates

Name = tuple[int, ...]
"""A worker, and numbers that tell its jobs apart."""

COPY, MULTIPLY, FETCH, STORE = range(4)
"""The workers, in the order of the chain."""


class Job(NamedTuple):
    """What a worker does next, as soon as what it needs has ended."""

    worker: int
    clocks: int
    shared: int
    """Bytes that it moves in shared memory."""
    needs: Sequence[tuple[Name, int]]
    """Jobs by their names, and clocks from the end of each until it can be seen."""


def ends(queues: list[dict[Name, Job]]) -> dict[Name, int]:
    """When each job ends. A queue's jobs begin in its order; a worker may serve several queues."""
    end: dict[Name, int] = {}
    free, memory = [0] * 4, Fraction(0)
    waiting = [list(queue.items()) for queue in queues]
    while any(waiting):
        ready = []
        for at, queue in enumerate(waiting):
            if queue and all(need in end for need, _ in queue[0][1].needs):
                job = queue[0][1]
                seen = max([end[need] + after for need, after in job.needs], default=0)
                ready.append((max(seen, free[job.worker]), job.worker, seen, at))
        begin, worker, _, at = min(ready)
        name, job = waiting[at].pop(0)
        finish = begin + job.clocks
        if job.shared:
            memory = max(memory, Fraction(begin)) + Fraction(job.shared, rates.SHARED_BYTES)
            finish = max(finish, -(-memory.numerator // memory.denominator))
        end[name] = free[worker] = finish
    return end


def per_tile(
    k: int, *, products: int = 2, stages: int = 4, bytes_a_clock: int = 128, latency: int = 1000,
    tiles: int = 40,
) -> Fraction:  # fmt: skip
    """Clocks for 256 × 256 of C, by a pair that makes ``products`` with each slice of B.

    Two products fill both sums at once; one fills them in turn. Raises ``ValueError`` where a run
    does not repeat itself: give more tiles.
    """
    slices, pieces = k // rates.SLICE, rates.PIECES
    rows, columns = rates.ROWS, rates.COLUMNS
    product = 2 * rows * columns * rates.SLICE // rates.OPERATIONS
    read = 2 * rates.SLICE * (rows + columns // 2)  # of a product: its rows of A, half of B
    copied = 2 * rates.SLICE * (products * rows + columns // 2)
    out = rows * columns // pieces * 4
    piece = out // rates.SHARED_BYTES
    sums = 2
    copies: dict[Name, Job] = {}
    multiplied: list[dict[Name, Job]] = [{} for _ in range(products)]
    fetched: dict[Name, Job] = {}
    stored: dict[Name, Job] = {}
    for tile in range(tiles):
        for slice_ in range(slices):
            number = tile * slices + slice_
            before = number - stages
            readers = range(products) if before >= 0 else range(0)
            empty = [((MULTIPLY, p, before), 0) for p in readers]
            copies[COPY, number] = Job(COPY, -(-copied // bytes_a_clock), 0, empty)
            for p in range(products):
                needs: list[tuple[Name, int]] = [((COPY, number), latency)]
                used = tile * products + p - sums  # who had this sum before
                if slice_ == 0 and used >= 0:
                    needs.append(((FETCH, (used + 1) * pieces - 1), 0))
                multiplied[p][MULTIPLY, p, number] = Job(MULTIPLY, product, read, needs)
        for p in range(products):
            for at in range(pieces):
                number = (tile * products + p) * pieces + at
                needs = [((MULTIPLY, p, (tile + 1) * slices - 1), 0)] if at == 0 else []
                if number >= 2:
                    needs.append(((STORE, number - 2), 0))
                fetched[FETCH, number] = Job(FETCH, piece, out, needs)
                stored[STORE, number] = Job(STORE, piece, out, [((FETCH, number), 0)])
    end = ends([copies, *multiplied, fetched, stored])
    last = [end[STORE, (tile + 1) * products * pieces - 1] for tile in range(tiles - 4)]
    for period in range(1, len(last) // 4):
        turns = {last[i] - last[i - period] for i in range(len(last) // 2, len(last))}
        if len(turns) == 1:
            return Fraction(turns.pop(), period * products)
    raise ValueError(f"{tiles} tiles do not repeat: give more")
