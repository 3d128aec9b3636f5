"""2^f by a polynomial: the one with the least relative error, and what it loses in f32."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

SHIFT = np.float32(1.5 * 2**23)
"""Added to an f32 below 2²², it leaves the whole number in the last bits."""


def remez(degree: int) -> tuple[Array, float]:
    """The coefficients, lowest first, and the greatest relative error for 2^f on |f| ≤ ½.

    ``degree``: 1 to 4.

    Remez's exchange: an error that is as large at ``degree + 2`` points, with signs that take
    turns, cannot be made smaller. So we solve for it at such points, and move the points to where
    the error is largest.
    """
    terms = degree + 1
    at = -0.5 * np.cos(np.pi * np.arange(terms + 1) / terms)
    fine = np.linspace(-0.5, 0.5, 100_001)
    signs = (-1.0) ** np.arange(terms + 1)
    for _ in range(20):
        system = np.column_stack([at[:, None] ** np.arange(terms) / np.exp2(at)[:, None], signs])
        solved = np.linalg.solve(system, np.ones(terms + 1))
        error = np.polyval(solved[:-1][::-1], fine) / np.exp2(fine) - 1
        turns = np.flatnonzero(np.diff(np.sign(np.diff(error)))) + 1
        at = np.concatenate([[-0.5], fine[turns], [0.5]])
    return solved[:-1], float(abs(error).max())


def coefficients(text: str) -> Array:
    """Those of a kernel's text, ``C0`` to ``C3``, as f32."""
    found = re.findall(r"\bC(\d) = ([\d.]+)f", text)
    return np.array([float(value) for _, value in sorted(found)], np.float32)


def exp2(x: Array, terms: Array) -> Array:
    """2^x in f32 as the kernel computes it: Cody and Waite's reduction, then Horner's rule.

    NumPy rounds each product, where the kernel's ``fma`` does not.
    """
    x = np.maximum(np.asarray(x, np.float32), np.float32(-126))
    whole = x + SHIFT
    f = x - (whole - SHIFT)
    p = np.full_like(f, terms[-1])
    for term in terms[-2::-1]:
        p = p * f + term
    result: Array = np.ldexp(p, (whole - SHIFT).astype(np.int32)).astype(np.float32)
    return result


def error(x: Array, terms: Array) -> float:
    """The greatest relative error of :func:`exp2` at these places."""
    x = np.asarray(x, np.float32)
    right = np.exp2(x.astype(np.float64))
    return float((abs(exp2(x, terms) - right) / right).max())
