"""Checks of *To pack or not to pack*."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable

import numpy as np

from phasebit import native
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, same, shown
from phasebit.nests import misses
from phasebit.nests.loops import Nest, parse
from phasebit.nests.source import buffer_shape


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
def used_again(answer: Callable[[list[tuple[str, int]], set[str]], dict[int, int]]) -> str:
    """``answer(loops, indices)``: the depths at which a copy is used again, with the uses of each.

    ``loops`` are pairs of a variable and its extent, outermost first; ``indices`` the variables
    that are an index of the array. The copy holds what the loops from its depth on touch.
    """
    draw = random.Random(71)
    example = [("i", 50), ("j", 60), ("k", 80), ("l", 100)]
    cases = [(example, set("kli")), (example, set("lkj")), (example, set("ij"))]
    for _ in range(40):
        variables = draw.sample("ijklmn", draw.randint(2, 5))
        loops = [(each, draw.randint(2, 9)) for each in variables]
        cases.append((loops, set(draw.sample(variables, draw.randint(1, len(variables))))))
    for loops, indices in cases:
        other = [(depth, extent) for depth, (variable, extent) in enumerate(loops)
                 if variable not in indices]  # fmt: skip
        right = {depth: math.prod(extent for at, extent in other if at >= depth)
                 for depth, _ in other}  # fmt: skip
        got = ask(answer, list(loops), set(indices))
        if not same(got, right):
            raise Wrong(
                f"with the loops {loops} and the indices {' '.join(sorted(indices))} it is "
                f"{right}, not {shown(got)}"
            )
    return f"{len(cases)} arrays"


PLAIN = parse("C[i][j] += A[k][i + 256] * B[j][k + 256]", i=256, j=256, k=256)
"""The nest of :func:`order_and_pack`."""


@judged
def order_and_pack(answer: Nest) -> str:
    """:data:`PLAIN` with ``j`` innermost and buffers of 1 KiB at most, and a quarter of its cycles.

    The cycles of misses are those of the estimate, copies included.
    """
    if not isinstance(answer, Nest):
        raise Wrong("give a nest, such as plain.interchange('k', 'i', 'j')")
    if dataclasses.replace(answer, order=PLAIN.order, packs=()) != PLAIN:
        raise Wrong(f"it is another nest: {answer}")
    if answer.order[-1].variable != "j":
        raise Wrong(f"C is read along its rows where j is innermost, not {answer.order[-1]}")
    for pack in answer.packs:
        size = math.prod(buffer_shape(answer, pack)) * misses.ELEMENT
        if size > 1024:
            raise Wrong(f"the buffer for {pack.array} takes {size} bytes, not 1024 at most")
    left = misses.estimate(answer).cycles / misses.estimate(PLAIN).cycles
    if left > 0.25:
        raise Wrong(f"{left:.2f} of the cycles of misses is left, not a quarter at most")
    return f"{left:.2f} of the cycles of misses is left"


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
