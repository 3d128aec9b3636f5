"""Checks of *The anatomy of a fast GEMM*."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit import native, rounding
from phasebit.exercises.judge import NotAnswered, Wrong, ask, judged, real, same, shown

SECONDS = 10.0
"""How long a reader's C++ function may take for one call."""

_POISON = np.float32(np.nan)


@judged
def share(answer: Callable[[int, int], float]) -> str:
    """``answer(rows, vectors)``: the share of the peak that a tile's loads allow.

    Two loads and two multiply-adds start in a cycle; a step loads each operand once.
    """
    cases = [(rows, vectors) for rows in (1, 2, 6, 9, 14, 15, 31) for vectors in (1, 2, 3, 4)]
    for rows, vectors in cases:
        got = real(ask(answer, rows, vectors), "share")
        right = min(1.0, rows * vectors / (rows + vectors))
        if not math.isclose(got, right, rel_tol=1e-6):  # an f32 is right too
            raise Wrong(f"{rows} rows × {vectors} vectors: {right:.4g}, not {got:.4g}")
    return f"{len(cases)} tiles"


def _tile(registers: int, width: int, units: int, latency: int, from_l2: int) -> tuple[int, int]:
    """The tile of :func:`tile_for`, by trying all."""
    fits = [
        (Fraction(rows + vectors, rows * vectors), -rows, vectors)
        for rows in range(1, registers)
        for vectors in range(1, registers)
        if rows * vectors + vectors + 1 <= registers
        and rows * vectors >= units * latency
        and 4 * width * units <= from_l2 * rows
    ]
    _, rows, vectors = min(fits)
    return -rows, vectors


@judged
def tile_for(answer: Callable[[int, int, int, int, int], tuple[int, int]]) -> str:
    """``answer(registers, width, units, latency, from_l2)``: rows and vectors of a core's tile."""
    cases = [(32, 16, 2, 4, 16), (32, 16, 2, 4, 64), (16, 8, 2, 4, 16), (16, 8, 2, 5, 32)]
    cases += [(32, 4, 4, 4, 16), (32, 4, 2, 4, 16), (32, 16, 1, 4, 8), (64, 8, 2, 6, 12)]
    for case in cases:
        got, right = ask(answer, *case), _tile(*case)
        if not same(got, right):
            said = ("registers", "width", "units", "latency", "from_l2")
            core = ", ".join(f"{name} {value}" for name, value in zip(said, case, strict=True))
            raise Wrong(f"{core}: the tile is {right}, not {shown(got)}")
    return f"{len(cases)} cores"


def _call(answer: native.Library, name: str, parameters: int, *given: Any) -> None:
    """Call a function of a cell in a process of its own."""
    function = answer.functions.get(name) if isinstance(answer, native.Library) else None
    if function is None or len(function.parameters) != parameters:
        raise Wrong(f"give a %%cpp cell with a function {name} of {parameters} parameters")
    try:
        function.guarded(*given, timeout=SECONDS)
    except native.CallError as error:
        raise Wrong(str(error)) from error


def _untouched(array: NDArray[np.float32]) -> bool:
    return bool(np.isnan(array).all())


@judged
def pack_transposed(answer: native.Library) -> str:
    """``pack(mc, kc, width, a, lda, to)``: panels of A where A is stored transposed, (kc, mc)."""
    rng = np.random.default_rng(81)
    cases = [(8, 3, 4, 8), (7, 5, 4, 7), (1, 1, 14, 3), (14, 64, 14, 20), (45, 33, 14, 45)]
    cases += [(int(m), int(k), int(w), int(m) + 5) for m, k, w in rng.integers(1, 60, (8, 3))]
    for mc, kc, width, lda in cases:
        a = rng.standard_normal((kc, lda), np.float32)
        panels = -(-mc // width)
        to = np.full(panels * kc * width + 1, _POISON)  # one more, that must stay
        _call(answer, "pack", 6, mc, kc, width, a, lda, to)
        if _untouched(to):
            raise NotAnswered
        padded = np.zeros((panels * width, kc), np.float32)
        padded[:mc] = a[:, :mc].T
        right = padded.reshape(panels, width, kc).transpose(0, 2, 1).ravel()
        what = f"mc {mc}, kc {kc}, width {width}, lda {lda}"
        if not np.isnan(to[-1]):
            raise Wrong(f"for {what} it writes behind the last panel")
        wrong = np.flatnonzero(to[:-1] != right)
        if wrong.size:
            at = int(wrong[0])
            panel, place = divmod(at, kc * width)
            step, row = divmod(place, width)
            raise Wrong(
                f"for {what} to[{at}], step {step} of row {row} of panel {panel}, is {to[at]:g} "
                f"instead of {right[at]:g}"
            )
    return f"{len(cases)} blocks"


ROWS, COLUMNS = 4, 16
"""The tile of the last exercise."""


@judged
def relu(answer: native.Library) -> str:
    """``micro(kc, a, b, bias, c, ldc)``: c (4, 16) = max(0, a b + bias) from two panels."""
    rng = np.random.default_rng(82)
    cases = [(1, 16), (0, 16), (3, 19), (64, 32), (257, 100)]
    for kc, ldc in cases:
        a = rng.standard_normal((kc, ROWS), np.float32)
        b = rng.standard_normal((kc, COLUMNS), np.float32)
        bias = rng.standard_normal(COLUMNS, np.float32)
        given = [each if each.size else np.zeros(1, np.float32) for each in (a, b)]
        c, filled = np.full((ROWS, ldc), _POISON), np.full((ROWS, ldc), np.float32(-7))
        _call(answer, "micro", 6, kc, *given, bias, c, ldc)
        if _untouched(c):  # or made from the poison that was in it: another filling tells
            _call(answer, "micro", 6, kc, *given, bias, filled, ldc)
            if (filled != -7).any():
                raise Wrong("it reads c, which holds nothing yet: only write there")
            if kc != cases[0][0]:
                raise Wrong(f"for kc {kc} nothing is written to c")
            raise NotAnswered
        product, size = rounding.reference(a.T, b)
        exact, size = product + bias, size + np.abs(bias)
        bad = rounding.wrong(c[:, :COLUMNS], np.maximum(exact, 0), _bound(kc) * size)
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            right = max(float(exact[row, column]), 0.0)
            got = c[row, column]
            raise Wrong(f"for kc {kc} and ldc {ldc} c[{row}][{column}] is {got:g}, not {right:g}")
        if not _untouched(c[:, COLUMNS:]) and ldc > COLUMNS:
            raise Wrong(f"for ldc {ldc} it writes between the rows of c")
    return f"{len(cases)} tiles"


def _bound(kc: int) -> float:
    return float(rounding.product_bound(kc + 2))
