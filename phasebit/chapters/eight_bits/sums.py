"""What the tensor core keeps of a sum, asked of the emulator or of a GPU by the same kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.emulator import formats
from phasebit.launching.devices import Device

Array = NDArray[Any]
BYTES = {"e4m3": 1, "bf16": 2}
NEVER = 1 << 30
"""For ``every``: the tensor core adds up everything."""


def add_up(
    a: Array, b: Array, element: str, products: int, every: int = NEVER, device: Device = "emulator"
) -> Array:
    """A (64, k) · B (8, k)ᵀ of a format, float32 (64, 8); rows of 128 bytes, over and over.

    ``products``: instructions, each 32 bytes of k; after ``every`` of them what they have added up
    is added to a sum in f32. ``device`` as of :meth:`phasebit.Kernel.launch`.
    """
    from phasebit.launching.launch import compile

    sums = np.full((64, 8), np.nan, np.float32)
    codes = [np.ascontiguousarray(formats.encode(element, x)) for x in (a, b)]
    assert all(each.nbytes == len(each) * 128 for each in codes)
    kernel = compile(files.kernel("eight_bits/sum_bits"), "sm_90a")[f"sums_of_{element}"]
    kernel.launch(1, 128, [*codes, sums, products, every], device=device)
    return sums


def survivors(element: str, device: Device = "emulator") -> list[bool]:
    """Whether 2¹⁶ + 2¹⁶⁻ʳ is more than 2¹⁶ in one product, for r = 0 … 30 (e4m3: … 17)."""
    reach = 18 if element == "e4m3" else 31
    a, b = (np.zeros((rows, 128 // BYTES[element])) for rows in (64, 8))
    a[:, 0], b[:, :2] = 256.0, 256.0
    a[:reach, 1] = 2.0 ** (8 - np.arange(reach))
    sums = add_up(a, b, element, 1, device=device)
    return [bool(x > 65536) for x in sums[:reach, 0]]


def stalled(
    element: str, products: int, every: int = NEVER, term: float = 0.75, device: Device = "emulator"
) -> float:
    """A sum of ``products`` instructions' worth of ``term``: 32 each of e4m3, 16 of bf16."""
    k = 128 // BYTES[element]
    return float(
        add_up(np.full((64, k), term), np.ones((8, k)), element, products, every, device)[0, 0]
    )


def random_sums(
    element: str, products: int, every: int, seed: int, device: Device = "emulator"
) -> Array:
    """Sums of random numbers: the bits of them, uint32 (64, 8)."""
    draw = np.random.default_rng(seed)
    k = 128 // BYTES[element]
    a, b = draw.standard_normal((64, k)), draw.standard_normal((8, k))
    return add_up(a, b, element, products, every, device).view(np.uint32)
