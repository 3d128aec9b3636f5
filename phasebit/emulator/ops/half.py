"""f16 and bf16, single and packed in pairs (PTX ISA 9.7.4, 9.7.5).

Every operand is exact in f64; a result is computed there, rounded to odd, and
rounded once to the short format.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phasebit.emulator.numbers import numerics
from phasebit.emulator.numbers.halves import (
    HALVES,
    PACKED,
    decode,
    elementwise,
    extreme,
    join,
    parts,
)
from phasebit.emulator.numbers.numerics import where
from phasebit.emulator.ops import floating
from phasebit.emulator.ops.compare import BOOLEAN, COMPARE, compare
from phasebit.emulator.ptx.table import FTZ, ROUNDING, SAT, value
from phasebit.emulator.ptx.types import Value

RELU = {"relu": ("relu", True)}
OOB = {"oob": ("oob", True)}
ARITHMETIC = [ROUNDING, FTZ, SAT, RELU]
MINMAX = {"NaN": ("nan", True), "xorsign": ("xorsign", True), "abs": ("xorsign", True)}


@value("add", "x x -> x", HALVES, section="9.7.4.1", options=ARITHMETIC)
def add(a: Value, b: Value, *, kind: str, rounding: str = "rn", **options: Any) -> Value:
    """add: a + b."""
    return elementwise(numerics.odd_sum, kind, (a, b), **options)


@value("sub", "x x -> x", HALVES, section="9.7.4.2", options=ARITHMETIC)
def sub(a: Value, b: Value, *, kind: str, rounding: str = "rn", **options: Any) -> Value:
    """sub: a - b."""
    return elementwise(lambda x, y: numerics.odd_sum(x, -y), kind, (a, b), **options)


@value("mul", "x x -> x", HALVES, section="9.7.4.3", options=ARITHMETIC)
def mul(a: Value, b: Value, *, kind: str, rounding: str = "rn", **options: Any) -> Value:
    """mul: a * b."""
    return elementwise(lambda x, y: x * y, kind, (a, b), **options)


@value("fma", "x x x -> x", HALVES, section="9.7.4.4", options=[*ARITHMETIC, OOB])
def fma(
    a: Value, b: Value, c: Value, *, kind: str, rounding: str = "rn", oob: bool = False,
    **options: Any,
) -> Value:  # fmt: skip
    """fma: a * b + c, rounded once; .oob makes it 0 where a or b is the NaN 0x7ff7.

    That NaN is what a tensor copy can leave for elements outside of the tensor; the
    PTX ISA does not say which one it is, an H200 does.
    """
    r = elementwise(lambda x, y, z: numerics.odd_sum(x * y, z), kind, (a, b, c), **options)
    if not oob:
        return r
    pieces = zip(parts(r, kind), parts(a, kind), parts(b, kind), strict=True)
    return join([where(_outside(x) | _outside(y), np.uint16(0), p) for p, x, y in pieces], kind)


def _outside(bits: Value) -> Value:
    return (bits & np.uint16(0x7FFF)) == 0x7FF7


def _signs(a: Value, kind: str, change: Callable[[Value], Value]) -> Value:
    results = []
    for bits in parts(a, kind):
        nan = decode(bits, kind) != decode(bits, kind)
        results.append(where(nan, np.uint16(0x7FFF), change(bits)))
    return join(results, kind)


@value("neg", "x -> x", HALVES, section="9.7.4.5", options=[FTZ])
def neg(a: Value, *, kind: str, ftz: bool = False) -> Value:
    """neg: -a."""
    if ftz:
        a = elementwise(lambda x: x, kind, (a,), ftz=True)
    return _signs(a, kind, lambda bits: bits ^ np.uint16(0x8000))


@value("abs", "x -> x", HALVES, section="9.7.4.6", options=[FTZ])
def abs_(a: Value, *, kind: str, ftz: bool = False) -> Value:
    """abs: |a|."""
    if ftz:
        a = elementwise(lambda x: x, kind, (a,), ftz=True)
    return _signs(a, kind, lambda bits: bits & np.uint16(0x7FFF))


@value("min", "x x -> x", HALVES, section="9.7.4.7", options=[FTZ, MINMAX])
def min_(
    a: Value, b: Value, *, kind: str, ftz: bool = False, nan: bool = False, xorsign: bool = False
) -> Value:
    """min: the smaller; a NaN loses unless .NaN."""
    return extreme(np.fmin, a, b, kind, ftz, nan, xorsign)


@value("max", "x x -> x", HALVES, section="9.7.4.8", options=[FTZ, MINMAX])
def max_(
    a: Value, b: Value, *, kind: str, ftz: bool = False, nan: bool = False, xorsign: bool = False
) -> Value:
    """max: the larger; a NaN loses unless .NaN."""
    return extreme(np.fmax, a, b, kind, ftz, nan, xorsign)


APPROX_KINDS = frozenset({"f16", "f16x2", "bf16", "bf16x2"})


@value("tanh.approx", "x -> x", APPROX_KINDS, section="9.7.4.9")
def tanh(a: Value, *, kind: str) -> Value:
    """tanh.approx: the hyperbolic tangent."""
    return elementwise(np.tanh, kind, (a,))


@value("ex2.approx", "x -> x", APPROX_KINDS, section="9.7.4.10", options=[FTZ])
def ex2(a: Value, *, kind: str, ftz: bool = False) -> Value:
    """ex2.approx: 2 to the power of a."""
    return elementwise(np.exp2, kind, (a,))


@value("setp", "x x pred -> pred pred", PACKED, section="9.7.7.2", optional=1,
       options=[COMPARE, BOOLEAN, FTZ])  # fmt: skip
def setp_x2(
    a: Value, b: Value, c: Value = None, *, kind: str, cmp: str, op: str = "", ftz: bool = False
) -> tuple[Value, Value]:
    """setp.f16x2: one comparison for each half, with a predicate for each."""
    results = []
    for x, y in zip(parts(a, kind), parts(b, kind), strict=True):
        if ftz:
            x, y = (numerics.flush16(v).view(np.uint16) for v in (x, y))
        p = compare(decode(x, kind), decode(y, kind), cmp)
        if op:
            p = p & c if op == "and" else p | c if op == "or" else p ^ c
        results.append(p)
    return results[0], results[1]


@value("set", "y y pred -> x", PACKED | {"u32", "s32"}, PACKED, section="9.7.7.1", optional=1,
       options=[COMPARE, BOOLEAN, FTZ])  # fmt: skip
def set_x2(
    a: Value, b: Value, c: Value = None, *, kind: str, source: str, cmp: str, op: str = "",
    ftz: bool = False,
) -> Value:  # fmt: skip
    """set.f16x2: each comparison as a number in its half: 1.0, or all ones."""
    low, high = setp_x2(a, b, c, kind=source, cmp=cmp, op=op, ftz=ftz)
    one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(kind, 0xFFFF)
    bits = where(low, np.uint32(one), np.uint32(0)) | where(
        high, np.uint32(one << 16), np.uint32(0)
    )
    return bits.view(np.int32) if kind == "s32" else bits


# -- a short operand in an f32 sum (PTX ISA 9.7.5) ------------------------------

SHORT = frozenset({"f16", "bf16"})
MIXED = [ROUNDING, SAT]


def _f32(bits: Value, kind: str) -> Value:
    return decode(bits.view(np.uint16), kind).astype(np.float32)


@value("add", "y x -> x", {"f32"}, SHORT, section="9.7.5.1", options=MIXED)
def mixed_add(a: Value, c: Value, *, source: str, rounding: str = "rn", sat: bool = False) -> Value:
    """add.f32.{f16,bf16}: a + c, where a is short and c is f32."""
    return floating.add(_f32(a, source), c, rounding=rounding, sat=sat)


@value("sub", "y x -> x", {"f32"}, SHORT, section="9.7.5.2", options=MIXED)
def mixed_sub(a: Value, c: Value, *, source: str, rounding: str = "rn", sat: bool = False) -> Value:
    """sub.f32.{f16,bf16}: a - c, where a is short and c is f32."""
    return floating.sub(_f32(a, source), c, rounding=rounding, sat=sat)


@value("fma", "y y x -> x", {"f32"}, SHORT, section="9.7.5.3", options=MIXED)
def mixed_fma(
    a: Value, b: Value, c: Value, *, source: str, rounding: str = "rn", sat: bool = False
) -> Value:
    """fma.f32.{f16,bf16}: a * b + c rounded once, where a and b are short and c is f32."""
    return floating.fma(_f32(a, source), _f32(b, source), c, rounding=rounding, sat=sat)
