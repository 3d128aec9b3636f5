"""Comparison and selection (PTX ISA 9.7.6; 9.7.7 for f16)."""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.numbers.numerics import bf16_to_f32, flush, flush16, where
from phasebit.emulator.ptx.table import FTZ, Traits, value
from phasebit.emulator.ptx.types import BITS, INTEGERS, SIZE, Value, dtype

NUMBERS = INTEGERS | BITS | {"f16", "bf16", "f32", "f64"}

ORDERED: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
COMPARE = {
    c: ("cmp", c) for c in (*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
}
BOOLEAN = {b: ("op", b) for b in ("and", "or", "xor")}


def compare(a: Value, b: Value, cmp: str) -> Value:
    """One comparison.  The unordered forms (``ltu`` …) also hold when a NaN takes part."""
    if cmp in ORDERED:
        r = ORDERED[cmp](a, b)
        if cmp == "ne" and a.dtype.kind == "f":
            r = r & (a == a) & (b == b)
        return r
    numbers = (a == a) & (b == b)
    if cmp == "num":
        return numbers
    if cmp == "nan":
        return ~numbers
    return ORDERED[cmp[:2]](a, b) | ~numbers


def _combine(p: Value, c: Value, op: str) -> Value:
    return p & c if op == "and" else p | c if op == "or" else p ^ c


@value("setp", "x x pred -> pred", NUMBERS, section="9.7.6.2", optional=1,
       options=[COMPARE, BOOLEAN, FTZ])  # fmt: skip
def setp(
    a: Value, b: Value, c: Value = None, *, kind: str, cmp: str, op: str = "", ftz: bool = False,
    both: bool = False,
) -> Value:  # fmt: skip
    """setp: a comparison, perhaps combined with a predicate; the second result: the opposite."""
    if kind == "bf16":
        a, b = bf16_to_f32(a), bf16_to_f32(b)
    elif ftz and kind == "f16":
        a, b = flush16(a), flush16(b)
    elif ftz:
        a, b = flush(a), flush(b)
    p = compare(a, b, cmp)
    if not both:
        return _combine(p, c, op) if op else p
    return (_combine(p, c, op), _combine(~p, c, op)) if op else (p, ~p)


@value("selp", "x x pred -> x", NUMBERS, section="9.7.6.3", traits=Traits(untyped=True))
def selp(a: Value, b: Value, p: Value) -> Value:
    """selp: a where the predicate holds, else b."""
    return where(p, a, b)


@value("slct", "x x y -> x", NUMBERS, {"s32", "f32"}, section="9.7.6.4", options=[FTZ])
def slct(a: Value, b: Value, c: Value, *, ftz: bool = False) -> Value:
    """slct: a where c is at least zero, else b."""
    return where((flush(c) if ftz else c) >= 0, a, b)


SET = {"u32", "s32", "f32", "u16", "s16", "f16", "bf16"}


@value("set", "y y pred -> x", SET, NUMBERS, section="9.7.6.1", optional=1,
       options=[COMPARE, BOOLEAN, FTZ])  # fmt: skip
def set_(
    a: Value, b: Value, c: Value = None, *, kind: str, source: str, cmp: str, op: str = "",
    ftz: bool = False,
) -> Value:  # fmt: skip
    """set: a comparison as a number: 1.0 for floats, all ones for integers."""
    p = setp(a, b, c, kind=source, cmp=cmp, op=op, ftz=ftz)
    if kind == "f32":
        return p.astype(np.float32)
    if SIZE[kind] == 2:
        one = {"f16": 0x3C00, "bf16": 0x3F80}.get(kind, 0xFFFF)
        return where(p, np.uint16(one), np.uint16(0)).view(dtype(kind))
    return where(p, np.uint32(0xFFFFFFFF), np.uint32(0)).view(dtype(kind))
