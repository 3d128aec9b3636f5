"""Numbers of four and eight bits with a scale for each block: how they are made, what they lose.

The formats are those that ``tcgen05.mma`` takes (PTX ISA 9.7.16.10.9). How a scale is chosen is the
program's business: here as the OCP's specification of microscaling formats proposes it for powers
of two, and as NVIDIA describes it for NVFP4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit.emulator import formats

Array = NDArray[Any]


@dataclass(frozen=True)
class Format:
    """Elements of ``element``, and a scale of type ``scale`` for each ``block`` of them."""

    name: str
    element: str
    """``e2m1``, ``e4m3`` …, as PTX has it."""
    bits: int
    """Of an element."""
    block: int
    """Elements along k that share a scale; 0: all."""
    scale: str
    """``ue8m0``, ``ue4m3``, or ``f32`` for one of a whole tensor."""

    @property
    def largest(self) -> float:
        """The largest element."""
        return float(np.nanmax(formats.decode(self.element, np.arange(1 << self.bits))))

    @property
    def bits_an_element(self) -> float:
        """With its share of the scale; of a tensor's single scale nothing."""
        return self.bits + (8 / self.block if self.block else 0)


NVFP4 = Format("nvfp4", "e2m1", 4, 16, "ue4m3")
MXFP4 = Format("mxfp4", "e2m1", 4, 32, "ue8m0")
MXFP6 = Format("mxfp6", "e2m3", 6, 32, "ue8m0")
MXFP8 = Format("mxfp8", "e4m3", 8, 32, "ue8m0")
FP8 = Format("fp8, one scale", "e4m3", 8, 0, "f32")
FP4 = Format("fp4, one scale", "e2m1", 4, 0, "f32")
ONE_OF_TWO = (
    MXFP4, Format("blocks of 16, powers of two", "e2m1", 4, 16, "ue8m0"),
    Format("blocks of 32, ue4m3", "e2m1", 4, 32, "ue4m3"), NVFP4,
)  # fmt: skip
"""From MXFP4 to NVFP4 by either step first: the size of the block, the type of its scale."""

ALL = FP4, MXFP4, NVFP4, MXFP6, FP8, MXFP8


@dataclass(frozen=True)
class Quantised:
    """A matrix in a format: what a kernel is given."""

    format: Format
    codes: Array
    """uint8 (rows, k), one element each."""
    scales: Array
    """uint8 (rows, k / block): bits; of a single scale none."""
    whole: float
    """By which all is multiplied besides: of NVFP4 and of a single scale."""

    def values(self) -> Array:
        """The numbers that these stand for, float64 (rows, k)."""
        elements = formats.decode(self.format.element, self.codes).astype(np.float64)
        if not self.format.block:
            return elements * self.whole
        rows, k = elements.shape
        blocks = elements.reshape(rows, -1, self.format.block)
        return (blocks * factors(self)[..., None]).reshape(rows, k) * self.whole


def factors(q: Quantised) -> Array:
    """The scales as numbers, float64."""
    if q.format.scale == "ue8m0":
        return np.asarray(formats.decode_scale(q.scales))
    return formats.decode("e4m3", q.scales).astype(np.float64)


def quantise(x: Array, format: Format) -> Quantised:
    """The rows of ``x`` in a format, each block with the scale that its largest number asks for.

    Raises ``ValueError`` where the rows are no multiple of a block.
    """
    rows, k = x.shape
    if format.block and k % format.block:
        raise ValueError(f"rows of {k} have no whole blocks of {format.block}: pad them with zeros")
    largest = float(np.abs(x).max()) or 1.0
    if not format.block:
        whole = largest / format.largest
        codes = formats.encode(format.element, x / whole, satfinite=True)
        return Quantised(format, codes.astype(np.uint8), np.zeros((rows, 0), np.uint8), whole)
    most = np.abs(x).reshape(rows, -1, format.block).max(axis=2)
    whole = 1.0
    if format.scale == "ue8m0":  # the power of two with which the largest still has its exponent
        exponent = int(np.log2(format.largest))
        scales = formats.encode_scale(np.maximum(most, 2.0**-100) / 2.0**exponent, "rz")
    else:  # the largest scale is that of the largest number: the rest is one f32 for all
        whole = largest / (format.largest * 448)
        scales = formats.encode("e4m3", most / format.largest / whole, satfinite=True)
    q = Quantised(format, np.zeros((rows, k), np.uint8), scales.astype(np.uint8), whole)
    by = np.where(factors(q) > 0, factors(q), 1.0)[..., None] * whole
    codes = formats.encode(
        format.element, x.reshape(rows, -1, format.block) / by, satfinite=True
    ).reshape(rows, k)
    return Quantised(format, codes.astype(np.uint8), q.scales, whole)


def error(x: Array, format: Format) -> float:
    """How far the numbers move: the root of their mean square error, over that of themselves."""
    return float(np.linalg.norm(quantise(x, format).values() - x) / np.linalg.norm(x))


def product_error(a: Array, b: Array, format: Format) -> float:
    """The same for A · Bᵀ, both in this format."""
    got = quantise(a, format).values() @ quantise(b, format).values().T
    right = a @ b.T
    return float(np.linalg.norm(got - right) / np.linalg.norm(right))


def weights(rows: int, k: int, seed: int = 19) -> Array:
    """Weights as a trained layer has them, roughly: normal, small, without outliers."""
    return 0.02 * np.random.default_rng(seed).standard_normal((rows, k))


def activations(rows: int, k: int, outliers: int = 0, seed: int = 20, size: float = 60.0) -> Array:
    """Activations: normal, and ``outliers`` of the k channels ``size`` times as large in each row.

    Large language models have such channels (Dettmers et al. 2022).
    """
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((rows, k))
    x[:, draw.choice(k, outliers, replace=False)] *= size
    return np.asarray(x)
