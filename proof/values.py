"""The numbers worth trying, for each type, as bits.

Faults of arithmetic live at the edges: the largest and the smallest, one more
and one less, the sign bit alone, a NaN with a payload, the smallest normal
number and the largest that is not, halfway between two neighbours.  Three
inputs in four are drawn from these; the rest are random bits, and random floats
of moderate size, on which cancellation and rounding show.
"""

from __future__ import annotations

import numpy as np

from proof.dice import Dice, Words

_F16 = [
    0xFFFF, 0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x0401, 0x3C00, 0xBC00,
    0x3C01, 0x3BFF, 0x3800, 0x4000, 0xC000, 0x4200, 0x3555, 0x7BFF, 0xFBFF, 0x7BFE, 0x7C00,
    0xFC00, 0x7E00, 0xFE00, 0x7C01, 0x7FFF, 0xFD55, 0x6400, 0x6401, 0x5BFF, 0x1400,
]  # fmt: skip
_BF16 = [
    0xFFFF, 0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x807F, 0x0080, 0x8080, 0x0081, 0x3F80, 0xBF80,
    0x3F81, 0x3F7F, 0x3F00, 0x4000, 0xC000, 0x4040, 0x3EAB, 0x7F7F, 0xFF7F, 0x7F7E, 0x7F80,
    0xFF80, 0x7FC0, 0xFFC0, 0x7F81, 0x7FFF, 0xFFAA, 0x4300, 0x4301, 0x42FF, 0x0100,
]  # fmt: skip
_F32 = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000,
    0x80800000, 0x00800001, 0x3F800000, 0xBF800000, 0x3F800001, 0x3F7FFFFF, 0xBF7FFFFF,
    0x3F000000, 0xBF000000, 0x3EFFFFFF, 0x3F000001, 0x3FC00000, 0x40200000, 0xC0200000,
    0x40400000, 0x40490FDB, 0xBFC90FDB, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F7FFFFE, 0x7F000000,
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFBFFFFF, 0x7FFFFFFF,
    0x4B000000, 0x4B000001, 0x4AFFFFFF, 0x4EFFFFFF, 0x4F000000, 0xCF000000, 0xCF000001,
    0x4F7FFFFF, 0x4F800000, 0x5F000000, 0x5F7FFFFF, 0x477FE000, 0x477FF000, 0x33000000,
    0x33800000, 0x43E00000, 0x43E80000, 0x3B000000, 0x00400000, 0x0C000000, 0x72000000,
]  # fmt: skip
_F64 = [
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
    0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x8010000000000000, 0x0010000000000001,
    0x3FF0000000000000, 0xBFF0000000000000, 0x3FF0000000000001, 0x3FEFFFFFFFFFFFFF,
    0x3FE0000000000000, 0xBFE0000000000000, 0x3FF8000000000000, 0x4004000000000000,
    0x400921FB54442D18, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x7FE0000000000000,
    0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0xFFF8000000000000,
    0x7FF0000000000001, 0x7FF4000000000123, 0xFFFFFFFFFFFFFFFF, 0x4330000000000000,
    0x4330000000000001, 0x41DFFFFFFFC00000, 0x41E0000000000000, 0xC1E0000000200000,
    0x41EFFFFFFFE00000, 0x43E0000000000000, 0x43F0000000000000, 0x47EFFFFFE0000000,
    0x47EFFFFFF0000000, 0x3690000000000000, 0x36A0000000000000, 0x3810000000000000,
    0x380FFFFFC0000000, 0x3F00000010000000,
]  # fmt: skip


def _integers(bits: int) -> list[int]:
    top, ones = 1 << (bits - 1), (1 << bits) - 1
    small = [0, 1, 2, 3, 5, 7, 8, 10, 31, 32, 33, 100, 127, 128, 255]
    patterns = [int("5" * (bits // 4), 16), int("A" * (bits // 4), 16), int("3C" * (bits // 8), 16)]
    edges = [top - 1, top, top + 1, ones, ones - 1, ones - 6, ones ^ 0x7F, 1 << (bits // 2)]
    return [v & ones for v in small + patterns + edges + [(1 << (bits // 2)) - 1]]


def _pairs(half: list[int]) -> list[int]:
    """Two 16-bit values in a word: each edge with another."""
    n = len(half)
    return [half[i] | half[(i * 7 + 3) % n] << 16 for i in range(n)]


EDGES: dict[str, list[int]] = {
    "f16": _F16, "bf16": _BF16, "f32": _F32, "f64": _F64, "tf32": _F32,
    "f16x2": _pairs(_F16), "bf16x2": _pairs(_BF16),
    "u16x2": _pairs(_integers(16)), "s16x2": _pairs(_integers(16)),
    "pred": [0, 1],
}  # fmt: skip
"""Type -> edge values; integer and untyped ones come from their width."""

SIZE = {
    "pred": 4, "u8": 2, "s8": 2, "b8": 2, "u16": 2, "s16": 2, "b16": 2, "f16": 2, "bf16": 2,
    "e4m3x2": 2, "e5m2x2": 2, "u32": 4, "s32": 4, "b32": 4, "f32": 4, "tf32": 4, "f16x2": 4,
    "bf16x2": 4, "u16x2": 4, "s16x2": 4, "u64": 8, "s64": 8, "b64": 8, "f64": 8, "b128": 16,
}  # fmt: skip
"""Bytes of the register that holds a value of each type."""

_FLOATS = {"f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023)}
"""Fraction bits and exponent bias."""


def edges(kind: str) -> list[int]:
    """The edge values of a type."""
    return EDGES.get(kind) or _integers({"u8": 8, "s8": 8, "b8": 8}.get(kind, 8 * SIZE[kind]))


def moderate(kind: str, words: Words, spread: int = 6) -> Words:
    """Random bits made into floats between about 2**-spread and 2**spread, of either sign."""
    fraction, bias = _FLOATS[kind]
    mantissa = words & np.uint64((1 << fraction) - 1)
    exponent = (words >> np.uint64(53)) % np.uint64(2 * spread) + np.uint64(bias - spread)
    sign = (words >> np.uint64(52)) & np.uint64(1)
    total = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}[kind]
    result: Words = mantissa | exponent << np.uint64(fraction) | sign << np.uint64(total - 1)
    return result


def draw(kind: str, n: int, dice: Dice) -> Words:
    """``n`` inputs of a type, as 64-bit words.

    A kind may carry a domain after a colon: ``u32:0..70`` draws only numbers of
    that range, ``f32:moderate`` only moderate floats, ``u32:nonzero`` no zero.
    """
    kind, _, domain = kind.partition(":")
    bits = {"u8": 8, "s8": 8, "b8": 8, "pred": 1}.get(kind, 8 * min(SIZE[kind], 8))
    ones = np.uint64((1 << bits) - 1)
    words = dice.words(n)
    if ".." in domain:
        low, high = (int(x) for x in domain.split(".."))
        return (words % np.uint64(high - low + 1) + np.uint64(low & int(ones))) & ones
    table = np.array(edges(kind), np.uint64)
    picked = table[dice.words(n) % np.uint64(len(table))]
    half = kind.removesuffix("x2")
    if half in _FLOATS:
        plain = moderate(half, words)
        if half != kind:
            plain |= moderate(half, dice.words(n)) << np.uint64(16)
    else:
        plain = words & ones
    if domain == "moderate":
        return plain
    how = dice.words(n) % np.uint64(8)
    result: Words = np.where(how < 4, picked, np.where(how < 6, plain, words & ones))
    if domain == "nonzero":
        result = np.where(result == 0, np.uint64(3), result)
    return result
