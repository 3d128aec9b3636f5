"""Checks of *To pack or not to pack*."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Sequence

from phasebit import nests
from phasebit.exercises.judge import Wrong, ask, judged, same, shown
from phasebit.nests import misses

STATEMENTS: tuple[tuple[str, dict[str, int]], ...] = (
    ("C[i][j] += A[i][k] * B[k][j]", {"i": 96, "j": 80, "k": 112}),
    ("C[i][j] += A[k][i] * B[j][k]", {"j": 64, "k": 150, "i": 72}),
    ("C[i][j] += A[k][l][i] * B[l][k][j]", {"i": 20, "j": 24, "k": 30, "l": 28}),
    ("C[n][i][j] += A[i][k][n] * B[k][j][n]", {"n": 12, "i": 30, "j": 32, "k": 34}),
    ("y[i] += A[j][i] * x[j]", {"i": 400, "j": 500}),
)


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


@judged
def depths(answer: Callable[[Sequence[str], Sequence[str]], list[int]]) -> str:
    """``answer(order, index)``: the depths at which a copy of the array can pay, in order.

    The loop behind the copy must not be one of the array's own variables, and more than one
    element must be copied: some loop inside it is.
    """
    draw = random.Random(72)
    cases = [("ijkl", "kli"), ("ijkl", "lkj"), ("ijk", "ik"), ("ij", "ji"), ("ijk", "kj")]
    for _ in range(40):
        names = "".join(draw.sample("ijklm", draw.randint(2, 5)))
        cases.append((names, "".join(draw.sample(names, draw.randint(1, len(names))))))
    for names, index in cases:
        right = [
            depth
            for depth, name in enumerate(names)
            if name not in index and set(names[depth:]) & set(index)
        ]
        got = ask(answer, tuple(names), tuple(index))
        if not isinstance(got, list | tuple) or not same(got, right):
            raise Wrong(
                f"loops {' '.join(names)}, an array with {' '.join(index)}: the list of depths "
                f"is {right}, not {shown(got)}"
            )
    return f"{len(cases)} nests"


@judged
def best_order(answer: Callable[[nests.Nest], Sequence[str]]) -> str:
    """``answer(nest)``: the loops in an order that needs no packing, as few cycles as any.

    Cycles as ``misses.estimate(nest.interchange(*order)).cycles`` says; within 2 % of the
    best of all orders.
    """
    for statement, extents in STATEMENTS:
        nest = nests.parse(statement, **extents)
        got = ask(answer, nest)
        if not isinstance(got, list | tuple | str) or not _each_once(got, extents):
            raise Wrong(
                f"{statement}: give the loops {', '.join(extents)} in some order, each once; "
                f"{shown(got)} is no such order"
            )
        cycles = misses.estimate(nest.interchange(*got)).cycles
        best = min(
            misses.estimate(nest.interchange(*order)).cycles
            for order in itertools.permutations(extents)
        )
        if cycles > 1.02 * best:
            raise Wrong(
                f"{statement} in the order {' '.join(got)} takes {100 * (cycles / best - 1):.0f} % "
                "more cycles than in the best order"
            )
    return f"{len(STATEMENTS)} nests"


def _each_once(given: Sequence[object], names: Collection[str]) -> bool:
    return len(given) == len(names) and all(name in given for name in names)
