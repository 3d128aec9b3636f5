"""cuBLAS's products with block scales, through torch, to stand beside ours: the same operands.

``torch._scaled_mm`` takes a matrix of codes and its scales in the atoms that our kernels copy. No
GPU that runs it was at hand: what it refuses, or makes wrong, the record says in words, and has no
time of it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from phasebit.chapters.low_precision import mixed, nvfp4
from phasebit.chapters.low_precision.quantise import Quantised
from phasebit.instruments import beside_torch


class Kind(NamedTuple):
    """A product that torch has; types are torch's names."""

    elements: str
    scales: str
    per_row: int
    """Scales of a row in a slice of ours."""


KINDS = {
    "NVFP4": Kind("float4_e2m1fn_x2", "float8_e4m3fn", 16),
    "MXFP8": Kind("float8_e4m3fn", "float8_e8m0fnu", 4),
}
SMALL = 256, 384, 512
"""Of the check: whole tiles, for cuBLAS may take no others."""

_ROUNDS, _EACH = 5, 10


def plain(kind: str, rows: int, k: int, seed: int) -> Quantised:
    """Random numbers whose products add up without rounding."""
    if kind == "NVFP4":
        return nvfp4.plain(rows, k, seed)
    return mixed.plain(rows, k, "e4m3", seed)


def product(torch: Any, kind: str, a: Quantised, b: Quantised) -> beside_torch.Launch:
    """What makes C (m, n) = A (m, k) · B (n, k)ᵀ in bf16 on the GPU, and returns it."""
    of = KINDS[kind]

    def there(array: Any, name: str) -> Any:
        bits = torch.from_numpy(np.ascontiguousarray(array)).cuda()
        return bits.view(getattr(torch, name))

    codes = [nvfp4.packed(q.codes) if kind == "NVFP4" else q.codes.astype(np.uint8)
             for q in (a, b)]  # fmt: skip
    left, right = (there(each, of.elements) for each in codes)
    scales = [there(nvfp4.atoms(q.scales, a_slice=of.per_row).ravel(), of.scales) for q in (a, b)]
    return lambda: torch._scaled_mm(
        left, right.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16
    )


def times(torch: Any, kind: str, size: int) -> list[float] | str:
    """Microseconds of a cube, or why there are none: a sentence.

    A small product is checked before: every element, against the exact sums rounded to bf16.
    """
    m, n, k = SMALL
    try:
        a, b = plain(kind, m, k, 1), plain(kind, n, k, 2)
        found = product(torch, kind, a, b)().float().cpu().numpy()
        right = a.values() @ b.values().T
        if not (np.abs(found - right) <= 2.0**-8 * np.abs(right)).all():
            return f"{kind}: the result is wrong, so it was not timed"
        launch = product(torch, kind, *(plain(kind, size, size, seed) for seed in (3, 4)))
        return beside_torch.times(torch, {kind: launch}, _ROUNDS, _EACH)[kind]
    except (AttributeError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return f"{kind}: torch {torch.__version__} refuses: {str(error).splitlines()[0]}"


__all__ = ["KINDS", "SMALL", "plain", "product", "times"]
