"""Checks of *To pack or not to pack*."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from phasebit import native
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown


@judged
def pages_of_column(answer: Callable[[int, int], int]) -> str:
    """``answer(rows, ld)``: pages of 4096 bytes that a column of a matrix of f32 touches.

    ``ld`` elements from row to row; the column begins at the start of a page.
    """
    draw = random.Random(70)
    cases = [(1, 1), (100, 4800), (100, 50), (64, 1024), (65, 1024), (3, 512), (1024, 1)]
    cases += [(draw.randint(1, 500), draw.randint(1, 3000)) for _ in range(40)]
    for rows, ld in cases:
        right = len({row * ld * 4 // 4096 for row in range(rows)})
        got = ask(answer, rows, ld)
        if not same(got, right):
            raise Wrong(f"with rows {rows} and ld {ld} it is {right} pages, not {shown(got)}")
    return f"{len(cases)} columns"


@judged
def copied(answer: Callable[[dict[str, int], Sequence[str], Sequence[str], int], int]) -> str:
    """``answer(extents, order, index, depth)``: elements copied in one run of a nest.

    ``order`` names the loops, outermost first, ``index`` the variables of the array, and what the
    loops from ``order[depth]`` on touch of it is copied before that loop.
    """
    draw = random.Random(71)
    cases = 0
    for _ in range(40):
        names = draw.sample("ijklmn", draw.randint(2, 5))
        extents = {name: draw.randint(2, 90) for name in names}
        index = draw.sample(names, draw.randint(1, min(3, len(names))))
        for depth in range(len(names)):
            right = 1
            for name in {*names[:depth], *index}:
                right *= extents[name]
            got = ask(answer, dict(extents), tuple(names), tuple(index), depth)
            if not same(got, right):
                loops = ", ".join(f"{name} < {extents[name]}" for name in names)
                raise Wrong(
                    f"loops over {loops}, an array with {' '.join(index)}, packed at depth "
                    f"{depth}: {right} elements are copied, not {shown(got)}"
                )
            cases += 1
    return f"{cases} copies"


SECONDS = 10.0
"""How long a reader's C++ function may take for one call."""

PRODUCTS = ((8, 8, 4), (30, 33, 8), (48, 64, 16), (37, 37, 50), (21, 40, 1))
"""n, ld and block of the products in blocks."""


@judged
def packed_blocks(answer: native.Library) -> str:
    """``counted(n, ld, block, a, b, c, buffer, accesses)``: c += a b, blocks of b in a buffer.

    The buffer is (block, block); each element of b is read once, to be copied.
    """
    function = answer.functions.get("counted") if isinstance(answer, native.Library) else None
    if function is None or len(function.parameters) != 8:
        raise Wrong("give a %%cpp cell with the function counted of the skeleton, 8 parameters")
    for n, ld, block in PRODUCTS:
        rng = np.random.default_rng(n)
        a, b, c = (rng.integers(-8, 9, (n, ld)).astype(np.float32) for _ in "abc")
        right, gaps = c[:, :n] + a[:, :n] @ b[:, :n], c[:, n:].copy()
        given, before = [a.copy(), b.copy(), c.copy()], c[:, :n].copy()
        buffer = np.full(block * block + 1, np.float32(np.nan))  # one more, that must stay
        accesses = np.zeros(4, np.int64)
        try:
            function.guarded(n, ld, block, *given, buffer, accesses, timeout=SECONDS)
        except native.CallError as error:
            raise Wrong(str(error)) from error
        what = f"n {n}, ld {ld} and block {block}"
        if not accesses.any():
            raise NotAnswered
        if not (np.array_equal(given[0], a) and np.array_equal(given[1], b)):
            raise Wrong(f"for {what} it writes to a or b")
        if not np.isnan(buffer[-1]):
            raise Wrong(f"for {what} it writes behind the buffer of block × block")
        bad = np.argwhere(given[2][:, :n] != right)
        if bad.size:
            row, column = map(int, bad[0])
            got = given[2][row, column]
            raise Wrong(
                f"for {what} c[{row}][{column}] is {got:g}, not {right[row, column]:g}; it was "
                f"{before[row, column]:g} before"
            )
        if not np.array_equal(given[2][:, n:], gaps):
            raise Wrong(f"for {what} it writes between the rows of c")
        if accesses[1] != n * n:
            raise Wrong(
                f"for {what} it is right, and reads b {accesses[1]} times: {n * n} are enough, "
                "once for each element, to copy it"
            )
        if accesses[3] < 2 * n * n:
            raise Wrong(f"for {what} it is right, and does not use the buffer")
    return f"{len(PRODUCTS)} products"
