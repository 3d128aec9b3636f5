"""Checks of *Caches and tiles*."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from phasebit import caches, native
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown


@judged
def which_set(answer: Callable[[int, int, int], int]) -> str:
    """``answer(address, line, sets)``: the set that the line of this address belongs to."""
    draw = random.Random(60)
    cases = [(0, 64, 64), (63, 64, 64), (64, 64, 64), (4096, 64, 64)]
    cases += [
        (draw.randrange(1 << 32), 1 << draw.randint(2, 8), draw.choice((1, 3, 64, 96)))
        for _ in range(60)
    ]
    for address, line, sets in cases:
        got, right = ask(answer, address, line, sets), address // line % sets
        if not same(got, right):
            raise Wrong(
                f"address {address} with lines of {line} bytes and {sets} sets is in set {right}, "
                f"not {shown(got)}"
            )
    return f"{len(cases)} addresses"


@judged
def misses_of_a_walk(answer: Callable[[int, int, int, int], int]) -> str:
    """``answer(count, stride, times, ways)``: misses of a walk over ``count`` addresses.

    They lie ``stride`` bytes apart, a whole number of lines, and are walked through ``times``
    times, in a cache of 64 sets of ``ways`` lines of 64 bytes. Compared with the simulator.
    """
    draw = random.Random(61)
    cases = [(8, 4096, 3, 8), (9, 4096, 3, 8), (64, 64, 2, 1), (65, 64, 2, 1), (1, 64, 5, 1)]
    cases += [
        (draw.randint(1, 400), 64 * draw.choice((1, 2, 3, 16, 64)), draw.randint(1, 4), ways)
        for ways in (1, 2, 4, 8)
        for _ in range(8)
    ]
    for count, stride, times, ways in cases:
        level = caches.Level("L1", 64, 64, ways)
        walk = [step * stride for _ in range(times) for step in range(count)]
        got = ask(answer, count, stride, times, ways)
        right = caches.trace(walk, (level,)).misses["L1"]
        if not same(got, right):
            raise Wrong(
                f"{count} addresses {stride} bytes apart, {times} times, {ways} ways: "
                f"{right} misses, not {shown(got)}"
            )
    return f"{len(cases)} walks"


def _padding(ld: int, rows: int, columns: int) -> int:
    """The fewest floats by which rows must be longer, so that a block leaves two ways free."""
    level = caches.TYPICAL[0]
    extra = 0
    while caches.crowding(level, rows, columns, ld + extra).max() > level.ways - 2:
        extra += 1
    return extra


@judged
def padding(answer: Callable[[int, int, int], int]) -> str:
    """``answer(ld, rows, columns)``: floats to add to each row so that the block can stay.

    The block has ``rows`` × ``columns`` floats and begins at the beginning of a line; the cache is
    the first of :data:`caches.TYPICAL`. Compared with the count of :func:`caches.crowding`.
    """
    draw = random.Random(62)
    cases = [(256, 48, 48), (264, 48, 48), (256, 16, 64), (512, 32, 32), (1024, 8, 16)]
    cases += [
        (draw.choice((192, 240, 250, 256, 320, 384, 512, 1000, 1024)), draw.randint(8, 40),
         draw.randint(8, 40))
        for _ in range(25)
    ]  # fmt: skip
    for ld, rows, columns in cases:
        got, right = ask(answer, ld, rows, columns), _padding(ld, rows, columns)
        if not same(got, right):
            raise Wrong(
                f"a block of {rows} × {columns} with rows {ld} floats apart needs {right} floats "
                f"more in each row, not {shown(got)}"
            )
    return f"{len(cases)} blocks"


SECONDS = 10.0
"""How long a reader's C++ function may take for one call."""

SIZES = ((64, 64), (100, 128), (129, 256), (192, 192), (144, 200))
"""n and ld of the matrices that are transposed."""

MISSES = 5
"""Of L1, for 32 elements: two lines would be 4. The rest is for what meets in a set."""


@judged
def transpose(answer: native.Library) -> str:
    """``watched(n, ld, from, to, at, count, levels, counts)``: to = the transposed of from.

    Both are (n, n) with ``ld`` floats from row to row, and each element is read and written once.
    With the first cache of :data:`caches.TYPICAL` at most 5 accesses miss for 32 elements.
    """
    function = answer.functions.get("watched") if isinstance(answer, native.Library) else None
    if function is None or len(function.parameters) != 8:
        raise Wrong("give a %%cpp cell with the function watched of the skeleton, 8 parameters")
    level = (caches.TYPICAL[0],)
    table = caches.table(level)
    for n, ld in SIZES:
        rng = np.random.default_rng(n)
        # Behind both there is room, so that a store past the end breaks nothing but the rule.
        given = rng.standard_normal((n + ld, ld), np.float32)
        room = np.full((n + ld, ld), np.float32(np.nan))
        before, to = given.copy(), room[:n]
        at = np.array([0, -(-n * ld * 4 // 4096) * 4096], np.int64)
        counts = np.zeros(2, np.int64)
        try:
            function.guarded(n, ld, given, room, at, 1, table, counts, timeout=SECONDS)
        except native.CallError as error:
            raise Wrong(str(error)) from error
        what = f"n {n} and ld {ld}"
        if not counts[0] and np.isnan(to).all():
            raise NotAnswered
        if not np.array_equal(given, before):
            raise Wrong(f"for {what} it writes to from")
        bad = np.argwhere(to[:, :n] != before[:n, :n].T)
        if bad.size:
            row, column = map(int, bad[0])
            got, right = to[row, column], before[column, row]
            raise Wrong(f"for {what} to[{row}][{column}] is {got:g}, not {right:g}")
        if not np.isnan(to[:, n:]).all() or not np.isnan(room[n:]).all():
            raise Wrong(f"for {what} it writes between the rows of to, or past the last")
        accesses, missed = map(int, counts)
        if accesses != 2 * n * n:
            raise Wrong(
                f"for {what} it makes {accesses} accesses: one load and one store for each "
                f"element are {2 * n * n}"
            )
        if missed * 32 > MISSES * n * n:
            raise Wrong(
                f"for {what} it is right, and misses L1 {missed} times, {32 * missed / n**2:.1f} "
                f"for 32 elements: at most {MISSES} are needed"
            )
    return f"{len(SIZES)} matrices"
