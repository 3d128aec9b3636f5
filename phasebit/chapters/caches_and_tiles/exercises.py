"""Checks of *Caches and tiles*."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable

import numpy as np

from phasebit import caches, native
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown

SMALL = caches.cache("L1", 2 << 10, 8)
"""A cache that is to the matrices of the first exercise as a real one is to larger ones."""

MOST = 1.5
"""How many times the misses of the best order are still right: the innermost loop decides."""


@functools.cache
def _misses(pairs: tuple[str, str, str], order: str, n: int = 40) -> int:
    """Misses of :data:`SMALL` by ``c += a * b`` with these indices, in that order of the loops."""
    steps = np.meshgrid(*[np.arange(n)] * 3, indexing="ij")
    value = {letter: each.ravel() for letter, each in zip(order, steps, strict=True)}
    c, a, b = (
        4 * (n * value[pair[0]] + value[pair[1]]) + (number << 20)
        for number, pair in enumerate(pairs)
    )
    return caches.trace(np.stack([a, b, c, c], axis=1), (SMALL,)).misses["L1"]


@judged
def order(answer: Callable[[str, str, str], str]) -> str:
    """``answer(c, a, b)``: the loops, outermost first, that miss least for c += a * b.

    The three are the letters of the indices, as they are stored: "ij", "ik" and "kj", or with
    some of them transposed.
    """
    stored = [*itertools.product(("ij", "ji"), ("ik", "ki"), ("kj", "jk"))]
    for c, a, b in stored:
        got = ask(answer, c, a, b)
        product = f"C[{c[0]}][{c[1]}] += A[{a[0]}][{a[1]}] * B[{b[0]}][{b[1]}]"
        if not isinstance(got, str) or sorted(got) != ["i", "j", "k"]:
            raise Wrong(f'for {product} give an order, as "ijk", not {shown(got)}')
        counts = {
            each: _misses((c, a, b), each) for each in map("".join, itertools.permutations("ijk"))
        }
        if counts[got] > MOST * min(counts.values()):
            raise Wrong(
                f"for {product} {got} misses {counts[got] / min(counts.values()):.0f} times as "
                f"often as another order"
            )
    return f"{len(stored)} ways to store three matrices"


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
