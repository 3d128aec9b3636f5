"""Products of two formats: ``kernels/low_precision/mixed.cu`` on the emulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from phasebit import files
from phasebit.chapters.low_precision.nvfp4 import Prepared, Product, atoms
from phasebit.chapters.low_precision.quantise import Format, Quantised

if TYPE_CHECKING:
    from phasebit.emulator import TensorMap

Array = NDArray[Any]
SLICE = 128
"""Numbers along k in a slice: a row of 128 bytes."""

TYPES = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
"""The types of kind::mxf8f6f4, by their numbers in the instruction descriptor."""

BITS = {"e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}
PADDED = {8: "u8", 6: "b6x16_p32", 4: "b4x16_p64"}
"""Bits of a number -> the type of the tensor map that gives each number a byte."""


NAME = "mixed"
KERNEL = f"low_precision/{NAME}"


def _map(q: Quantised, bits: int) -> TensorMap:
    from phasebit.emulator import TensorMap, sub_byte

    rows, k = q.codes.shape
    packed = sub_byte.codes_to_packed(q.codes, bits)
    return TensorMap(packed, (SLICE, 128), data_type=PADDED[bits], dims=(k, rows),
                     strides=(k * bits // 8,), swizzle="128B")  # fmt: skip


def prepare(a: Quantised, b: Quantised, text: str = "") -> Prepared:
    """C (m, n) = A (m, k) · B (n, k)ᵀ; scales of ue8m0 for blocks of 32; k a multiple of 128."""
    from phasebit.launching.launch import compile

    (m, k), n = a.codes.shape, len(b.codes)
    if k % SLICE:
        raise ValueError(f"k is {k}: give a multiple of {SLICE}, as the copy that unpacks wants it")
    c = np.full((m, n), np.nan, np.float32)
    maps = [_map(q, q.format.bits) for q in (a, b)]
    scales = [atoms(q.scales, a_slice=4) for q in (a, b)]
    types = [TYPES[q.format.element] for q in (a, b)]
    return Prepared(
        compile(text or files.kernel(KERNEL), "sm_100a")["matmul"], (-(-n // 128), -(-m // 128)),
        128, [*maps, *scales, c, m, n, k // SLICE, *types], c,
    )  # fmt: skip


def multiply(a: Quantised, b: Quantised, text: str = "", **options: Any) -> Product:
    """:func:`prepare`, and one launch; ``options`` are those of a launch."""
    return prepare(a, b, text).run(**options)


def plain(rows: int, k: int, element: str, seed: int) -> Quantised:
    """Random numbers of a type whose products add up without rounding: small whole numbers."""
    from phasebit.emulator import formats

    draw = np.random.default_rng(seed)
    values = draw.choice([-4, -3, -2, -1, 0, 1, 2, 3, 4], (rows, k))
    codes = np.asarray(formats.encode(element, values.astype(float))).astype(np.uint8)
    form = Format(element, element, BITS[element], 32, "ue8m0")
    return Quantised(form, codes, draw.integers(126, 129, (rows, k // 32)).astype(np.uint8), 1.0)


def pairs(schedule: str = "late") -> str:
    """Of every type of A with every type of B, how many products are exact, with no finding."""
    wrong = []
    for of_a in TYPES:
        for of_b in TYPES:
            a, b = plain(130, 256, of_a, 1), plain(40, 256, of_b, 2)
            run, c = multiply(a, b, schedule=schedule)
            if run.findings or not np.array_equal(c, a.values() @ b.values().T):
                wrong.append(f"{of_a} · {of_b}")
    every = len(TYPES) ** 2
    return f"{every - len(wrong)} of {every} pairs of types are exact" + "".join(
        f"; not {pair}" for pair in wrong
    )
