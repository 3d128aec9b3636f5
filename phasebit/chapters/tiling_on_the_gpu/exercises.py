"""Checks of *Tiling on the GPU*."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np

from phasebit import rounding, toolchain
from phasebit.chapters.tiling_on_the_gpu import ladder
from phasebit.emulator import Fault
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, real, shown

WAVEFRONTS = ladder.METRICS[1]


@judged
def numbers_loaded(answer: Callable[[int, int], float]) -> str:
    """``answer(rows, columns)``: numbers loaded from shared memory for each multiply-add."""
    draw = random.Random(90)
    cases = [(1, 1), (8, 1), (8, 8), (16, 8)]
    cases += [(draw.randint(1, 32), draw.randint(1, 32)) for _ in range(40)]
    for rows, columns in cases:
        right = (rows + columns) / (rows * columns)
        got = real(ask(answer, rows, columns), "loads")
        if not math.isclose(got, right, rel_tol=1e-6):  # an f32 is right too
            raise Wrong(f"with {rows} × {columns} it is {right:.6g}, not {got:.6g}")
    return f"{len(cases)} register tiles"


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
    except Fault as error:
        raise Wrong(f"a lane leaves its tile: {str(error).splitlines()[0]}") from error
    verdict = rounding.check(c, a, b)
    if verdict != "OK":
        raise Wrong(f"the product is no longer right: {verdict}. Every pair must occur once")
    got, plain = run.counters[WAVEFRONTS], ladder.count("warp_tile", 16)[WAVEFRONTS]
    if 3 * got > 2 * plain:
        raise Wrong(f"the product is right, with {got} wavefronts where lane / 8 needs {plain}")
    return f"{got} wavefronts instead of {plain}"
