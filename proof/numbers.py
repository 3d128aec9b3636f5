"""Numbers that make a tensor core show how it rounds.

A sum of products shows its rounding where terms of different size meet, where they
cancel, and at the ends of the format.  Each *manner* of drawing aims at one of these:

==========  ======================================================================
``whole``   small whole numbers: every order of summation is exact
``near``    exponents within a few of each other: sums that lose a bit or two
``wide``    exponents over 32 binades: most terms are cut off somewhere
``far``     any exponent of the format
``cancel``  few mantissas, three exponents: large terms cancel, small ones stay
``low``     products at the lower end of f32, or subnormal factors
``high``    products at the upper end
``special`` infinities, NaNs, zeros of both signs, ends of the format among others
==========  ======================================================================
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.numbers.formats import FORMATS, encode
from proof.dice import Dice, Words

MANNERS = ("whole", "near", "wide", "far", "cancel", "low", "high", "special")
BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1,
         "s32": 4}  # fmt: skip

SUM = {"e4m3": ((-18, 18), 4), "e5m2": ((-32, 32), 4), "f16": ((-48, 32), 4),
       "bf16": ((-126, 120), 8), "tf32": ((-126, 120), 8)}  # fmt: skip
"""By the type of A: exponents at the ends of a product's range, where an f32 accumulator of
``low`` and ``high`` lies, and how far around."""


def draw(kind: str, count: int, manner: str, dice: Dice, of: str = "") -> Words:
    """``count`` numbers of a type as bits; ``of``: for an accumulator, the type of A."""
    words = dice.words(count)
    if kind in ("s8", "u8", "s32"):
        small = kind == "s32" and manner == "whole"
        return words & np.uint64({"s8": 0xFF, "u8": 0xFF}.get(kind, 0xFFF if small else 0xFFFFFFFF))
    form = FORMATS[kind]
    if manner == "whole":
        values = (words % np.uint64(17)).astype(np.float64) - 8
        return np.asarray(encode(kind, values)).astype(np.uint64)
    mantissa_bits = form.mantissa_bits
    fraction = words & np.uint64((1 << mantissa_bits) - 1)
    sign = words >> np.uint64(63)
    low, high = _exponents(kind, manner, of)
    least, most = 0, (1 << form.exponent_bits) - (2 if form.infinity is not None else 1)
    low, high = max(low, least), min(high, most)
    how = dice.words(count)
    exponent = how % np.uint64(high - low + 1) + np.uint64(low)
    if manner == "cancel":
        some = np.array([0, 1, 1 << mantissa_bits - 1, (1 << mantissa_bits) - 1], np.uint64)
        fraction = some[fraction % np.uint64(4)]
        third = np.uint64((high - low) // 2)
        exponent = np.uint64(low) + how % np.uint64(3) * third
    bits = fraction | exponent << np.uint64(mantissa_bits)
    if kind == "e4m3":
        bits = np.where(bits == 0x7F, np.uint64(0x7E), bits)
    bits |= sign * np.uint64(form.sign_bit)
    if manner == "special":
        ends = np.array(_ends(kind), np.uint64)
        rare = how >> np.uint64(58) == 0
        bits = np.where(rare, ends[how % np.uint64(len(ends))], bits)
    if form.low_bits:  # ignored by the tensor core, so anything may stand there
        bits = bits << np.uint64(form.low_bits) | words >> np.uint64(20) & np.uint64(0x1FFF)
    result: Words = bits
    return result


def _exponents(kind: str, manner: str, of: str) -> tuple[int, int]:
    """The exponent fields from which a manner draws."""
    form = FORMATS[kind]
    bias, top = form.bias, (1 << form.exponent_bits) - 1
    if of and kind == "f32" and manner in ("low", "high"):
        ends, around = SUM[of]
        centre = bias + ends[manner == "high"]
        return centre - around, centre + around
    if form.exponent_bits == 8 and manner in ("low", "high"):  # products at the ends of f32
        return (bias - 76, bias - 60) if manner == "low" else (bias + 58, bias + 64)
    return {
        "near": (bias - 3, bias + 2), "wide": (bias - 16, bias + 16), "far": (0, top),
        "cancel": (bias - 10, bias + 10), "low": (0, 2), "high": (top - 3, top),
        "special": (bias - 3, bias + 2),
    }[manner]  # fmt: skip


def _ends(kind: str) -> list[int]:
    """Zeros, subnormals, the largest, infinities, NaNs."""
    form = FORMATS[kind]
    some = [0, 1, (1 << form.mantissa_bits) - 1, 1 << form.mantissa_bits, form.largest]
    some += [x for x in (form.infinity, form.nan) if x is not None]
    return some + [x | form.sign_bit for x in some]


def packed(kind: str, bits: Words, size: int) -> Words:
    """Numbers side by side in words of ``size`` bytes, the first lowest."""
    narrow = bits.astype(f"u{BYTES[kind]}")
    return narrow.view(f"u{size}").astype(np.uint64)
