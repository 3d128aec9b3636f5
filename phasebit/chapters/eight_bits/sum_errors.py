"""What sums of eight-bit products lose: the emulator's tensor core against double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit.chapters.eight_bits.scaled import ROWS, SQUARES, Scaled, quantise, spread
from phasebit.emulator import formats

Array = NDArray[Any]
CHOICES = {"no promotion": 0, "every 512": 512, "every 128": 128, "every 32": 32}
"""After how much of K a part is added to a sum in f32."""


def added(a: Array, b: Array, every: int = 0, element: str = "e4m3") -> Array:
    """A (m, k) · B (n, k)ᵀ of numbers of a format, as ``wgmma`` adds them up, float64 (m, n).

    After ``every`` of k (0: never) the part goes to a sum in f32. Bit for bit what an H200 does:
    proof/warpgroups.py compares the two.
    """
    from phasebit.emulator import arithmetic

    hopper = arithmetic.WGMMA[element]
    k = a.shape[1]
    every = every or k
    total = np.zeros((len(a), len(b)), np.float32)
    for first in range(0, k, every):
        part = slice(first, min(first + every, k))
        factors = a[None, :, part], b[:, part].T[None]
        found = arithmetic.accumulate(*factors, None, (element, element), "f32", hopper)
        total += found[0].astype(np.float32)
    return total.astype(np.float64)


def growing(term: float, most: int, step: int, every: int = 0) -> list[float]:
    """A sum of equal terms, each ``term`` · 1, after each ``step`` of them up to ``most``.

    ``every``: after so many terms, a divisor of ``step``, the part goes to a sum in f32; 0: never.
    """
    from phasebit.emulator import arithmetic

    piece = every or step
    a, b = np.full((1, 1, piece), term), np.ones((1, piece, 1))
    part, total, found = None, np.float32(0), [0.0]
    for count in range(piece, most + 1, piece):
        part = arithmetic.accumulate(a, b, part, ("e4m3", "e4m3"), "f32", arithmetic.WGMMA["e4m3"])
        if every:
            total, part = total + np.float32(part.item()), None
        if count % step == 0:
            found.append(float(total) if part is None else float(part.item()))
    return found


def one_more(term: float, total: float) -> float:
    """A sum of the tensor core to which one product, ``term`` · 1, is added."""
    from phasebit.emulator import arithmetic

    a, b = np.zeros((1, 1, 32)), np.zeros((1, 32, 1))
    a[0, 0, 0], b[0, 0, 0] = term, 1.0
    sums, hopper = np.full((1, 1, 1), total), arithmetic.WGMMA["e4m3"]
    return float(arithmetic.accumulate(a, b, sums, ("e4m3", "e4m3"), "f32", hopper).item())


def relative(got: Array, right: Array) -> float:
    """The root of the mean square error, over that of what is right."""
    return float(np.linalg.norm(got - right) / np.linalg.norm(right))


def of_sums(k: int, positive: bool = False, size: int = 24, seed: int = 8) -> dict[str, float]:
    """Choice -> the relative error of a product of random numbers of e4m3, from the sums alone.

    ``positive``: A and B without signs, as after a ReLU, so that sums grow with k.
    """
    draw = np.random.default_rng(seed)
    a, b = draw.standard_normal((2, size, k))
    if positive:
        a, b = np.abs(a), np.abs(b)
    a, b = (formats.decode("e4m3", formats.encode("e4m3", 16 * x)).astype(float) for x in (a, b))
    right = a @ b.T
    found = {name: relative(added(a, b, every), right) for name, every in CHOICES.items()}
    return found | {"bf16": relative(added(a, b, 0, "bf16"), right)}


def activations(rows: int, k: int, size: float, seed: int = 20, outliers: int = 8) -> Array:
    """Normal numbers; ``outliers`` of the k channels ``size`` times as large in each row.

    Large language models have such channels (Dettmers et al. 2022).
    """
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((rows, k))
    x[:, draw.choice(k, outliers, replace=False)] *= size
    return x


def ordinary(size: float, k: int = 1024) -> dict[str, float]:
    """Relative error of the channels that are no outliers, by format and scales."""
    x = activations(64, k, size)
    plain = np.abs(x).mean(axis=0) < 2 if size > 4 else np.ones(k, bool)
    ways = {
        "e4m3, one scale": quantise(x, None),
        "e4m3, 1 × 128": quantise(x, ROWS),
        "e5m2, one scale": quantise(x, None, "e5m2"),
    }
    return {name: relative(q.values()[:, plain], x[:, plain]) for name, q in ways.items()}


def product_of(a: Scaled, b: Scaled, every: int = 128) -> Array:
    """A · Bᵀ of scaled numbers: parts of ``every`` along k, each times its scales, added in f32.

    With one scale for a tensor ``every`` may be anything, 0 for all of k.
    """
    k = a.codes.shape[1]
    every = every or k
    numbers = [formats.decode(x.element, x.codes).astype(float) for x in (a, b)]
    scales = [spread(x.scales, x.blocks, *x.codes.shape) for x in (a, b)]
    total = np.zeros((len(a.codes), len(b.codes)), np.float32)
    for first in range(0, k, every):
        part = slice(first, min(first + every, k))
        found = added(numbers[0][:, part], numbers[1][:, part])
        by = np.outer(scales[0][:, first], scales[1][:, first])
        total += (found * by).astype(np.float32)
    return total.astype(np.float64)


DATA = ("normal", "outliers", "no signs")
"""Activations and weights: normal; eight channels 16,384 times as large; all positive."""


def of_products(data: str, k: int = 4096, rows: int = 16, seed: int = 5) -> dict[str, float]:
    """Way -> the relative error of activations times weights against the product before rounding.

    With outliers it is that of the other channels: theirs are left out of the product.
    """
    x = activations(rows, k, 16_384.0 if data == "outliers" else 1.0, seed)
    w = 0.02 * np.random.default_rng(seed + 1).standard_normal((32, k))
    if data == "no signs":
        x, w = np.abs(x), np.abs(w)
    kept = np.abs(x).mean(axis=0) < 100
    right = x[:, kept] @ w[:, kept].T
    one, blocks = (quantise(x, None), quantise(w, None)), (quantise(x, ROWS), quantise(w, SQUARES))
    for q in (*one, *blocks):
        q.codes[:, ~kept] = 0
    return {
        "one scale, no promotion": relative(product_of(*one, 0), right),
        "one scale, every 128": relative(product_of(*one, 128), right),
        "block scales, every 128": relative(product_of(*blocks, 128), right),
        "block scales, exact sums": relative(blocks[0].values() @ blocks[1].values().T, right),
    }
