"""How far a right result may lie from the exact one: number formats and error bounds.

A format with p significant bits rounds a number x to x·(1 + d) with |d| ≤ u, and u = 2⁻ᵖ is its
*unit roundoff*. A sum of K products in it, added in any order, errs by at most γ·Σ|a·b| with
γ = K·u / (1 − K·u). A tolerance of the book is made of these, never of experience.

Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, ch. 2 and 3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Format(NamedTuple):
    """A binary floating-point format."""

    bits: int  # significant bits, the hidden one included
    least: int  # numbers below 2**(least - 1) are subnormal
    most: int  # numbers are below 2**most


FORMATS: dict[str, Format] = {
    "f64": Format(53, -1021, 1024),
    "f32": Format(24, -125, 128),
    "tf32": Format(11, -125, 128),
    "f16": Format(11, -13, 16),
    "bf16": Format(8, -125, 128),
}
"""The formats of the book: IEEE 754 binary64, 32 and 16, and NVIDIA's tf32 and bf16."""


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}: choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def unit(name: str) -> float:
    """The unit roundoff of a format, for rounding to nearest.

    >>> unit("bf16") == 2**-8
    True
    """
    return 2.0 ** -_format(name).bits


def gamma(terms: int, u: float) -> float:
    """γ = n·u / (1 − n·u), the relative error of n roundings in a row.

    Raises ``ValueError`` when n·u is 1 or more: then nothing is left to be right.
    """
    if terms < 0 or not 0 <= terms * u < 1:
        raise ValueError(f"{terms} roundings of {u:g} each leave no correct digit: no bound")
    return terms * u / (1 - terms * u)


def product_bound(
    K: int, *, sums: str = "f32", output: str = "f32", inputs: str | None = None, cut: bool = False
) -> float:
    """The largest |error| / Σ|a·b| of a correct sum of K products.

    ``sums`` is the format of products and sums, in any order; ``cut`` for an adder that cuts
    bits off instead of rounding, as tensor cores were seen to do (Fasi et al. 2021), which
    doubles u. ``output`` is the format of the stored result. ``inputs`` only when the reference
    was computed from numbers that the kernel then rounded to that format; with a reference from
    the rounded numbers, which is sharper, leave it out. Overflow and results too small for the
    format are not covered. Raises ``ValueError`` for an unknown format, or no bound.

    >>> product_bound(4096) < 0.00025 < product_bound(4096, output="bf16") < 0.0042
    True
    """
    factor = 1 + gamma(K, unit(sums) * (2 if cut else 1))
    if _format(output).bits < _format(sums).bits:
        factor *= 1 + unit(output)
    if inputs is not None:
        factor *= (1 + unit(inputs)) ** 2
    return factor - 1


def round_to(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Numbers rounded to the nearest of a format, ties to even; given back as f64.

    What is too large becomes an infinity; NaN stays NaN.
    """
    form = _format(name)
    given = np.asarray(values, np.float64)
    _, exponent = np.frexp(given)
    step = np.maximum(exponent, form.least) - form.bits
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = np.ldexp(np.rint(np.ldexp(given, -step)), step)
    too_large = np.frexp(rounded)[1] > form.most
    return np.where(too_large & np.isfinite(rounded), np.copysign(np.inf, given), rounded)


def reference(A: ArrayLike, B: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A·B and |A|·|B| in f64, for A (M, K) and B (K, N) or (K): the result, and its scale."""
    a, b = np.asarray(A, np.float64), np.asarray(B, np.float64)
    return a @ b, np.abs(a) @ np.abs(b)


def wrong(got: ArrayLike, exact: ArrayLike, allowed: ArrayLike) -> NDArray[np.bool_]:
    """Which elements are not within ``allowed`` of the exact ones.

    Written so that NaN is wrong: every comparison with NaN is false, so one must ask what is
    right, and turn the answer round. Raises ``ValueError`` when the shapes differ.
    """
    result, expected = np.asarray(got, np.float64), np.asarray(exact, np.float64)
    if result.shape != expected.shape:
        raise ValueError(f"the result has shape {result.shape}, the reference {expected.shape}")
    with np.errstate(invalid="ignore"):
        answer: NDArray[np.bool_] = ~(np.abs(result - expected) <= np.asarray(allowed))
    return answer


def check(got: ArrayLike, A: ArrayLike, B: ArrayLike, **formats: Any) -> str:
    """``"OK"``, or how many elements of ``got`` are no correct product A·B, and which is first.

    ``A`` and ``B`` are the very numbers that the kernel was given; ``formats`` as of
    :func:`product_bound`.
    """
    exact, scale = reference(A, B)
    bad = wrong(got, exact, product_bound(np.asarray(A).shape[-1], **formats) * scale)
    if not bad.any():
        return "OK"
    first = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"WRONG: {bad.sum()} of {bad.size} elements, the first at {first}"
