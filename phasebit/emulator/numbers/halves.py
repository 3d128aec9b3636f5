"""Arithmetic of f16 and bf16, single and packed in pairs.

Every operand is exact in f64; a result is computed there, rounded to odd, and
rounded once to the short format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit.emulator.numbers import numerics
from phasebit.emulator.numbers.numerics import bf16_to_f32, where
from phasebit.emulator.ptx.types import Value

HALVES = frozenset({"f16", "bf16", "f16x2", "bf16x2"})
PACKED = frozenset({"f16x2", "bf16x2"})


def decode(bits: Value, kind: str) -> Value:
    """16 bits as an f64 number."""
    if kind.startswith("bf16"):
        return bf16_to_f32(bits).astype(np.float64)
    return bits.view(np.float16).astype(np.float64)


def encode(x: Value, kind: str) -> Value:
    """An f64 number, rounded to odd, as 16 bits; NaN becomes 0x7fff."""
    if kind.startswith("bf16"):
        return numerics.f64_to_bf16(x)
    bits = x.astype(np.float16).view(np.uint16)
    return where(x != x, np.uint16(0x7FFF), bits)


def parts(a: Value, kind: str) -> list[Value]:
    """The 16-bit parts of a value, lowest first."""
    if kind.endswith("x2"):
        bits = a.view(np.uint32)
        return [bits.astype(np.uint16), (bits >> np.uint32(16)).astype(np.uint16)]
    return [a.view(np.uint16)]


def join(halves: list[Value], kind: str) -> Value:
    """The parts as one value again."""
    if len(halves) == 2:
        return halves[0].astype(np.uint32) | (halves[1].astype(np.uint32) << np.uint32(16))
    return halves[0].view(np.float16) if kind == "f16" else halves[0]


def elementwise(
    function: Callable[..., Value], kind: str, operands: tuple[Value, ...], ftz: bool = False,
    sat: bool = False, relu: bool = False,
) -> Value:  # fmt: skip
    """Apply a function of f64 numbers to each part of the operands."""
    results = []
    for pieces in zip(*[parts(o, kind) for o in operands], strict=True):
        numbers = [decode(p, kind) for p in pieces]
        if ftz:
            numbers = [where(np.abs(n) < 2.0**-14, np.copysign(0.0, n), n) for n in numbers]
        exact = function(*numbers)
        bits = encode(exact, kind)
        if ftz:  # tiny as if the exponent had no limits: rounded where it has room
            small = np.abs(decode(encode(exact * 2.0**8, kind), kind)) < 2.0**-6
            bits = where(small, bits & np.uint16(0x8000), bits)
        if sat or relu:
            number = decode(bits, kind)
            clamped = np.minimum(number, 1.0) if sat else number
            one = encode(clamped, kind)
            zero = np.uint16(0)
            bits = where(number > 0, one, zero if sat else where(number != number, bits, zero))
        results.append(bits)
    return join(results, kind)


def extreme(
    pick: Any, a: Value, b: Value, kind: str, ftz: bool = False, nan: bool = False,
    xorsign: bool = False,
) -> Value:  # fmt: skip
    """The smaller by ``pick=np.fmin``, the larger by ``np.fmax``; a NaN loses unless ``nan``."""
    def choose(x: Value, y: Value) -> Value:
        if xorsign:
            sign = np.signbit(x) ^ np.signbit(y)
            x, y = np.abs(x), np.abs(y)
        zeros = (x == 0) & (y == 0)
        negative = (
            np.signbit(x) | np.signbit(y) if pick is np.fmin else np.signbit(x) & np.signbit(y)
        )
        r = where(zeros, where(negative, np.float64(-0.0), np.float64(0.0)),
                  numerics.prefer_number(pick, x, y))
        if xorsign:
            r = where(sign, -np.abs(r), r)
        return where((x != x) | (y != y), np.float64(np.nan), r) if nan else r

    return elementwise(choose, kind, (a, b), ftz=ftz)


__all__ = [
    "HALVES", "PACKED", "decode", "elementwise", "encode", "extreme", "join", "parts",
]  # fmt: skip
