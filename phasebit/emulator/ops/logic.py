"""Logic and shifts (PTX ISA 9.7.8)."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.numbers.numerics import where
from phasebit.emulator.ptx.table import value
from phasebit.emulator.ptx.types import BITS, UNSIGNED, Value

BITS_OR_PRED = BITS | {"pred"}
SHIFTS = frozenset({"b16", "b32", "b64"})
ARITHMETIC = frozenset({"u16", "u32", "u64", "s16", "s32", "s64"}) | BITS


@value("and", "x x -> x", BITS_OR_PRED, section="9.7.8.1")
def and_(a: Value, b: Value) -> Value:
    """and: bitwise and."""
    return a & b


@value("or", "x x -> x", BITS_OR_PRED, section="9.7.8.2")
def or_(a: Value, b: Value) -> Value:
    """or: bitwise or."""
    return a | b


@value("xor", "x x -> x", BITS_OR_PRED, section="9.7.8.3")
def xor(a: Value, b: Value) -> Value:
    """xor: bitwise exclusive or."""
    return a ^ b


@value("not", "x -> x", BITS_OR_PRED, section="9.7.8.4")
def not_(a: Value) -> Value:
    """not: all bits inverted."""
    return ~a


@value("cnot", "x -> x", BITS, section="9.7.8.5")
def cnot(a: Value) -> Value:
    """cnot: 1 when a is 0, else 0."""
    return (a == 0).astype(a.dtype)


@value("lop3", "b32 b32 b32 u32 -> b32", {"b32"}, section="9.7.8.6")
def lop3(a: Value, b: Value, c: Value, table: Value) -> Value:
    """lop3: any function of three bits, given by its truth table."""
    number = int(table)
    result = np.uint32(0)
    for row in range(8):
        if number >> row & 1:
            x = a if row & 4 else ~a
            y = b if row & 2 else ~b
            z = c if row & 1 else ~c
            result = result | (x & y & z)
    return result


@value("lop3.and", "b32 b32 b32 u32 pred -> b32 pred", {"b32"}, section="9.7.8.6")
def lop3_and(
    a: Value, b: Value, c: Value, table: Value, q: Value
) -> tuple[Value, Value]:
    """lop3.and: also whether the result is not zero and a predicate holds."""
    r = lop3(a, b, c, table)
    return r, (r != 0) & q


@value("lop3.or", "b32 b32 b32 u32 pred -> b32 pred", {"b32"}, section="9.7.8.6")
def lop3_or(
    a: Value, b: Value, c: Value, table: Value, q: Value
) -> tuple[Value, Value]:
    """lop3.or: also whether the result is not zero or a predicate holds."""
    r = lop3(a, b, c, table)
    return r, (r != 0) | q


@value("shf", "b32 b32 u32 -> b32", {"b32"}, section="9.7.8.7",
       options=[{"l": ("left", True), "r": ("left", False),
                 "wrap": ("wrap", True), "clamp": ("wrap", False)}])  # fmt: skip
def shf(low: Value, high: Value, amount: Value, *, left: bool, wrap: bool) -> Value:
    """shf: 32 bits out of the 64-bit number {high, low}, shifted left or right."""
    n = (amount & np.uint32(31)) if wrap else np.minimum(amount, np.uint32(32))
    wide = (high.astype(np.uint64) << np.uint64(32)) | low
    n = n.astype(np.uint64)
    if left:
        return ((wide << n) >> np.uint64(32)).astype(np.uint32)
    return (wide >> n).astype(np.uint32)


@value("shl", "x u32 -> x", SHIFTS, section="9.7.8.8")
def shl(a: Value, n: Value) -> Value:
    """shl: shift left; amounts past the width give 0."""
    if a.dtype.itemsize == 2:
        n = np.minimum(n, np.uint32(16))
    return a << n.astype(a.dtype) if a.dtype != n.dtype else a << n


@value("shr", "x u32 -> x", ARITHMETIC, section="9.7.8.9")
def shr(a: Value, n: Value) -> Value:
    """shr: shift right, filling with the sign (.s) or with zeros; clamped at the width."""
    if a.dtype.itemsize == 2:
        n = np.minimum(n, np.uint32(16))
    if a.dtype != n.dtype:
        n = n.view(a.dtype) if a.dtype.itemsize == 4 else n.astype(a.dtype)
        if a.dtype.kind == "i" and a.dtype.itemsize == 4:  # an amount past 2^31 looks negative
            n = where(n < 0, a.dtype.type(31), n)
    return a >> n


MODES = {m: ("mode", m) for m in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")}


@value("prmt", "b32 b32 u32 -> b32", {"b32"}, section="9.7.9.7", options=[MODES])
def prmt(a: Value, b: Value, selector: Value, *, mode: str = "") -> Value:
    """prmt: four bytes chosen from the eight of {b, a}, each perhaps replaced by its sign."""
    wide = (b.astype(np.uint64) << np.uint64(32)) | a
    result = np.uint32(0)
    for place in range(4):
        choice = _selector(selector, place, mode)
        byte = (wide >> ((choice & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
        if not mode:
            sign = where((byte & np.uint64(0x80)) != 0, np.uint64(0xFF), np.uint64(0))
            byte = where((choice & np.uint64(8)) != 0, sign, byte)
        result = result | (byte.astype(np.uint32) << np.uint32(8 * place))
    return result


def _selector(selector: Value, place: int, mode: str) -> Value:
    """Which byte goes to this place (the table under prmt in the PTX ISA)."""
    if not mode:
        return ((selector >> np.uint32(4 * place)) & np.uint32(15)).astype(np.uint64)
    s = (selector & np.uint32(3)).astype(np.int64)
    choice = {
        "f4e": s + place,
        "b4e": (s - place) & 7,
        "rc8": s,
        "ecl": np.maximum(s, place),
        "ecr": np.minimum(s, place),
        "rc16": (s & 1) * 2 + (place & 1),
    }[mode]
    return choice.astype(np.uint64)


__all__ = ["UNSIGNED", "lop3", "prmt", "shf", "shl", "shr"]
