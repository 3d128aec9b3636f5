"""Checks of *Tiling on the GPU*."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np

from phasebit import rounding, toolchain
from phasebit.chapters.tiling_on_the_gpu import ladder
from phasebit.emulator import EmulatorError, Run
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, real, shown

WAVEFRONTS = ladder.METRICS[1]


@judged
def sectors(answer: Callable[[int, int, int], int]) -> str:
    """``answer(n, rows, columns)``: 32-byte sectors of A and B that a product of n³ asks for.

    A block makes ``rows`` × ``columns`` of C and copies whole tiles; n is a multiple of both.
    The emulator's own counts of some rungs are among the cases.
    """
    draw = random.Random(91)
    for name in ("shared_tile", "column", "conflict_free"):
        tile = ladder.VARIANTS[name].tile
        right = ladder.predict(name, 512)[ladder.METRICS[0]]
        got = ask(answer, 512, tile, tile)
        if not math.isclose(real(got, "sectors"), right, rel_tol=1e-12):
            raise Wrong(f"rung {name}, n 512: {right} sectors are counted, not {shown(got)}")
    for _ in range(40):
        rows, columns = 8 * draw.randint(1, 32), 8 * draw.randint(1, 32)
        n = rows * columns * draw.randint(1, 3)
        right = (n // rows) * (n // columns) * n * (rows + columns) // 8
        got = ask(answer, n, rows, columns)
        if not math.isclose(real(got, "sectors"), right, rel_tol=1e-12):
            raise Wrong(f"n {n}, {rows} × {columns} a block: {right} sectors, not {shown(got)}")
    return "3 rungs and 40 other tiles"


@judged
def lanes(row: str, column: str) -> str:
    """C expressions in ``lane``: its row, 0 to 3, and its column, 0 to 7, within a warp tile.

    The rung "warp_tile" with these must be right, and need at most two thirds of its wavefronts.
    """
    if not (isinstance(row, str) and isinstance(column, str)):
        raise Wrong("give two texts, such as 'lane / 8' and 'lane % 8'")
    if not row.strip() or not column.strip():
        raise NotAnswered
    code = ladder.text("warp_tile")
    code = code.replace("return lane / 8;", f"return {row};")
    code = code.replace("return lane % 8;", f"return {column};")
    rng = np.random.default_rng()
    a, b = rng.standard_normal((128, 16), np.float32), rng.standard_normal((16, 128), np.float32)
    c = np.full((128, 128), np.nan, np.float32)
    try:
        run = ladder.multiply("warp_tile", a, b, c, code=code)
    except toolchain.CudaError as error:
        raise Wrong(f"it does not compile: {str(error).splitlines()[0]}") from error
    except EmulatorError as error:
        raise Wrong(f"a lane leaves its tile: {str(error).splitlines()[0]}") from error
    verdict = rounding.check(c, a, b)
    if verdict != "OK":
        raise Wrong(f"the product is no longer right: {verdict}. Every pair must occur once")
    got, plain = run.counters[WAVEFRONTS], ladder.count("warp_tile", 16)[WAVEFRONTS]
    if 3 * got > 2 * plain:
        raise Wrong(f"the product is right, with {got} wavefronts where lane / 8 needs {plain}")
    return f"{got} wavefronts instead of {plain}"


SQUARES = ladder.Rung("x_squares", 64, (256,))
"""How a reader's kernel is launched: 256 threads for 64 × 64 of C."""
_SECTORS, _LOADS = ladder.METRICS[0], ladder.METRICS[4]


@judged
def squares(code: str) -> str:
    """``code``: a kernel ``squares(Product g)``; 256 threads make 64 × 64 of C, 16 elements each.

    It is compiled with ``product.cuh`` and run on the emulator: ragged sizes, alpha and beta, C
    full of NaN where it must not be read. On whole tiles it must fetch each number once, and
    need no more than one shared load for four multiply-adds of a warp.
    """
    return _right_and_sparing(code)[0]


@judged
def slots(code: str) -> str:
    """``code``: the kernel of :func:`squares` with two slots for each tile.

    What is asked for there is asked for here; and with K = 64 a thread must multiply eight tiles
    and wait at no more than nine barriers.
    """
    said, run = _right_and_sparing(code)
    waits = run.counters.get("barrier.syncs", 0) // 256
    if waits > 9:
        raise Wrong(f"the product is right, with {waits} barriers for K = 64: eight tiles of two "
                    "slots need nine at most")  # fmt: skip
    reads = [each.space == "shared" and each.op == "load" for each in run.accesses if not each.warp]
    tiles = sum(now and not before for before, now in itertools.pairwise([False, *reads]))
    if tiles < 7:  # the last two run into each other where nothing is left to fetch
        raise Wrong(f"the product is right, but of K = 64 it makes {tiles} tiles, and not eight")
    return f"{said}; {waits} barriers"


def _right_and_sparing(code: str) -> tuple[str, Run]:
    """What :func:`squares` says of a kernel, and its run with 64³ and all accesses."""
    if not isinstance(code, str):
        raise Wrong("give the CUDA code as a text")
    if not code.strip() or "// ..." in code:
        raise NotAnswered
    kernel = f'#include "tiling_on_the_gpu/product.cuh"\n{code}\n'
    for m, n, k in ((64, 64, 32), (64, 128, 8), (70, 68, 12), (33, 129, 41), (1, 1, 1)):
        for alpha, beta in ((1.0, 0.0), (-0.5, 2.0)):
            _squares_once(kernel, (m, n, k), alpha, beta)
    run = _squares_once(kernel, (64, 64, 64), 1.0, 0.0, accesses=True)
    fetched, least = run.counters[_SECTORS], 2 * 64 * 64 * 4 // 32
    if fetched > least:
        raise Wrong(f"the product is right, but a block asks for {fetched} sectors: {least} hold "
                    "its rows of A and columns of B once")  # fmt: skip
    loads, terms = run.counters[_LOADS], 64 * 64 * 64 // 32
    if 4 * loads > terms:
        raise Wrong(f"the product is right, with {loads / terms:.2f} shared loads for each "
                    "multiply-add of a warp: at most a quarter is asked for")  # fmt: skip
    return f"5 shapes; {loads / terms:.3f} shared loads for each multiply-add of a warp", run


def _squares_once(
    kernel: str, shape: tuple[int, int, int], alpha: float, beta: float, accesses: bool = False
) -> Run:
    """One product of fresh numbers; raises :class:`Wrong` for whatever is wrong with it."""
    m, n, k = shape
    rng = np.random.default_rng()
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    before = rng.standard_normal((m, n), np.float32)
    c = before.copy() if beta else np.full((m, n), np.nan, np.float32)
    where = f"M {m}, N {n}, K {k}, alpha {alpha:g}, beta {beta:g}"
    try:
        run = ladder.launched(SQUARES, kernel, a, b, c, alpha, beta, accesses=accesses)
    except toolchain.CudaError as error:
        raise Wrong(f"it does not compile: {str(error).splitlines()[0]}") from error
    except LookupError as error:
        raise Wrong(f"{error}: call it squares, with one parameter, Product g") from error
    except EmulatorError as error:
        raise Wrong(f"{where}: it stops: {str(error).splitlines()[0]}") from error
    if run.findings:
        raise Wrong(f"{where}: {run.findings[0]}")
    exact, size = rounding.reference(a, b)
    exact, size = alpha * exact + beta * before, abs(alpha) * size + abs(beta * before)
    bad = rounding.wrong(c, exact, rounding.product_bound(k + 4) * size)
    if bad.any():
        row, col = (int(each[0]) for each in np.nonzero(bad))
        raise Wrong(
            f"{where}: {int(bad.sum())} elements of C are wrong, the first is ({row}, {col})"
        )
    return run
