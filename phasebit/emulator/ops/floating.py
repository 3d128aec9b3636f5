"""Floating point in f32 and f64 (PTX ISA 9.7.3, 9.7.4 for f16 is in ``half``).

Results are those of IEEE 754 in every rounding mode, with PTX's one NaN for f32.
The approximations (``.approx``) are computed in f64 and rounded to f32 once, so
their error is at most half a unit in the last place, within what the PTX ISA
allows; hardware may differ in the last bits.

A launch with ``exact=False`` uses ``FAST`` forms: the f32 multiply-add rounds
twice and NaN keeps the pattern that the host's processor gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from phasebit.emulator.numbers import numerics
from phasebit.emulator.numbers.numerics import canonical, exactly, flush, saturate, where
from phasebit.emulator.ptx.table import FTZ, ROUNDING, SAT, value
from phasebit.emulator.ptx.types import Value

F32 = frozenset({"f32"})
BOTH = frozenset({"f32", "f64"})
ARITHMETIC = [ROUNDING, FTZ, SAT]
APPROX = {"approx": ("approx", True), "full": ("approx", False)}
MINMAX = {"NaN": ("nan", True), "xorsign": ("xorsign", True), "abs": ("xorsign", True)}

MINMAX3 = {"NaN": ("nan", True), "abs": ("absolute", True)}

FAST: dict[Callable[..., Any], Callable[..., Any]] = {}
"""Exact function -> the faster one that ``exact=False`` uses when no modifier asks for more."""


def _inputs(ftz: bool, *operands: Value) -> tuple[Value, ...]:
    return tuple(flush(o) for o in operands) if ftz else operands


def _result(r: Value, ftz: bool = False, sat: bool = False) -> Value:
    if ftz:
        r = flush(r)
    if sat:
        return saturate(r)
    return canonical(r) if r.dtype.itemsize == 4 else r


def _flush_exact(r: Value, exact: Value, rounding: str) -> Value:
    """``.ftz``: a result is tiny when it would be so with an exponent without limits.

    So the exact value is rounded 64 powers of two higher up: just below the least
    normal number it may round up to it, and then is not flushed.
    """
    scaled = numerics.round32(exact * 2.0**64, rounding)
    return where(np.abs(scaled) < np.float32(2.0**-62), np.copysign(np.float32(0), r), r)


def _nan64(r: Value, *operands: Value) -> Value:
    """f64 keeps a NaN's payload: the last operand that is one, made quiet; else 0xfff8…"""
    if not np.count_nonzero(r != r):
        return r
    bits = where(r != r, numerics.NAN64, r).view(np.uint64)
    for o in operands:
        bits = where((r != r) & (o != o), o.view(np.uint64) | np.uint64(1 << 51), bits)
    return bits.view(np.float64)


@value("add", "x x -> x", BOTH, section="9.7.3.6", options=ARITHMETIC)
def add(a: Value, b: Value, *, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Value:
    """add: a + b."""
    a, b = _inputs(ftz, a, b)
    if rounding == "rn":
        r = a + b
    elif a.dtype.itemsize == 4:
        r = numerics.add32(a, b, rounding)
    else:
        r = exactly(lambda x, y: x + y, rounding, "f8", a + b, a, b)
        r = numerics._signed_zero(r, a, b, rounding)
    if a.dtype.itemsize == 8:
        r = _nan64(r, a, b)
    return _result(r, ftz, sat)


@value("sub", "x x -> x", BOTH, section="9.7.3.7", options=ARITHMETIC)
def sub(a: Value, b: Value, *, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Value:
    """sub: a - b."""
    if rounding == "rn" and not ftz:
        r = a - b
        return _result(r, ftz, sat) if a.dtype.itemsize == 4 else _nan64(r, a, b)
    r = add(a, -b, rounding=rounding, ftz=ftz, sat=sat)
    return r if a.dtype.itemsize == 4 else _nan64(r, a, b)


@value("mul", "x x -> x", BOTH, section="9.7.3.8", options=ARITHMETIC)
def mul(a: Value, b: Value, *, rounding: str = "rn", ftz: bool = False, sat: bool = False) -> Value:
    """mul: a * b."""
    a, b = _inputs(ftz, a, b)
    if ftz:
        exact = a.astype(np.float64) * b
        return _result(_flush_exact(mul(a, b, rounding=rounding), exact, rounding), True, sat)
    if rounding == "rn":
        r = a * b
    elif a.dtype.itemsize == 4:
        r = numerics.mul32(a, b, rounding)
    else:
        r = exactly(lambda x, y: x * y, rounding, "f8", a * b, a, b)
    if a.dtype.itemsize == 8:
        r = _nan64(r, a, b)
    return _result(r, ftz, sat)


@value("fma mad", "x x x -> x", BOTH, section="9.7.3.9", options=ARITHMETIC)
def fma(
    a: Value, b: Value, c: Value, *, rounding: str = "rn", ftz: bool = False, sat: bool = False
) -> Value:
    """fma: a * b + c, rounded once."""
    if rounding == "rn" and not (ftz or sat) and a.dtype.itemsize == 4:
        return numerics.fma32(a, b, c)  # the commonest, and the heart of many a kernel
    a, b, c = _inputs(ftz, a, b, c)
    if a.dtype.itemsize == 4:
        r = numerics.fma32(a, b, c, rounding)
        if ftz:
            exact = numerics.odd_sum(a.astype(np.float64) * b, np.float64(1) * c)
            r = _flush_exact(r, exact, rounding)
    else:
        r = _nan64(numerics.fma64(a, b, c, rounding), a, c, b)
    return _result(r, ftz, sat)


@value("div", "x x -> x", BOTH, section="9.7.3.11", options=[*ARITHMETIC, APPROX])
def div(
    a: Value, b: Value, *, rounding: str = "rn", ftz: bool = False, approx: bool = False,
    sat: bool = False,
) -> Value:  # fmt: skip
    """div: a / b; .approx and .full allow an error of 2 units in the last place."""
    a, b = _inputs(ftz, a, b)
    r = a / b
    if approx and a.dtype.itemsize == 4:  # 1/b is subnormal there, and becomes zero
        large = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
        r = where(large, a * np.copysign(np.float32(0), b), r)
    if rounding != "rn":
        r = exactly(lambda x, y: x / y if y else None, rounding, a.dtype, r, a, b)
    if ftz:
        r = _flush_exact(r, a.astype(np.float64) / b, rounding)
    return _result(r, ftz, sat)


def _upper(a: Value) -> Value:
    """f64 as the approximations see it: the upper 32 bits; subnormal numbers are zeros."""
    bits = a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)
    small = (bits & np.uint64(0x7FF << 52)) == 0
    return where(small, bits & np.uint64(1 << 63), bits).view(np.float64)


def _upper_result(r: Value) -> Value:
    bits = where(r != r, np.uint64(0x7FFFFFFF00000000), _upper(r).view(np.uint64))
    return bits.view(np.float64)


@value("rcp.approx.ftz", "x -> x", {"f64"}, section="9.7.3.16")
def rcp_gross(a: Value) -> Value:
    """rcp.approx.ftz.f64: 1 / a in 20 bits; the lower 32 bits are zero."""
    return _upper_result(1.0 / _upper(a))


@value("rsqrt.approx.ftz", "x -> x", {"f64"}, section="9.7.3.18")
def rsqrt_gross(a: Value) -> Value:
    """rsqrt.approx.ftz.f64: 1 / sqrt(a) in 20 bits; the lower 32 bits are zero."""
    return _upper_result(1.0 / np.sqrt(_upper(a)))


@value("rcp", "x -> x", BOTH, section="9.7.3.15", options=[ROUNDING, FTZ, APPROX])
def rcp(a: Value, *, rounding: str = "rn", ftz: bool = False, approx: bool = False) -> Value:
    """rcp: 1 / a; .approx has an error of at most 1 unit in the last place."""
    return div(a.dtype.type(1), a, rounding=rounding, ftz=ftz)


def _root(x: Fraction, bits: int) -> Fraction | None:
    """The square root with ``bits`` more bits than needed, and a sticky one below."""
    if x < 0:
        return None
    scale = 4**bits
    whole = math.isqrt(x.numerator * scale // x.denominator)
    exact = Fraction(whole * whole, scale) == x
    return Fraction(2 * whole + (not exact), 2 * 2**bits)


@value("sqrt", "x -> x", BOTH, section="9.7.3.17", options=[ROUNDING, FTZ, APPROX])
def sqrt(a: Value, *, rounding: str = "rn", ftz: bool = False, approx: bool = False) -> Value:
    """sqrt: the square root; .approx has an error of about 1 unit in the last place."""
    (a,) = _inputs(ftz, a)
    r = np.sqrt(a)
    if rounding != "rn":
        r = exactly(lambda x: _root(x, 1200), rounding, a.dtype, r, a)
    return _result(r, ftz)


@value("rsqrt", "x -> x", BOTH, section="9.7.3.18", options=[FTZ, APPROX])
def rsqrt(a: Value, *, ftz: bool = False, approx: bool = False) -> Value:
    """rsqrt.approx: 1 / sqrt(a)."""
    (a,) = _inputs(ftz, a)
    return _result((1.0 / np.sqrt(a.astype(np.float64))).astype(a.dtype), ftz)


def _approximate(function: Any, a: Value, ftz: bool) -> Value:
    (a,) = _inputs(ftz, a)
    return _result(function(a.astype(np.float64)).astype(np.float32), ftz)


@value("sin.approx", "x -> x", F32, section="9.7.3.19", options=[FTZ])
def sin(a: Value, *, ftz: bool = False) -> Value:
    """sin.approx: the sine, absolute error below 2^-20.5 in [-pi, pi]."""
    return _approximate(np.sin, a, ftz)


@value("cos.approx", "x -> x", F32, section="9.7.3.20", options=[FTZ])
def cos(a: Value, *, ftz: bool = False) -> Value:
    """cos.approx: the cosine, absolute error below 2^-20.5 in [-pi, pi]."""
    return _approximate(np.cos, a, ftz)


@value("lg2.approx", "x -> x", F32, section="9.7.3.21", options=[FTZ])
def lg2(a: Value, *, ftz: bool = False) -> Value:
    """lg2.approx: the logarithm to base 2, error below 2^-22."""
    return _approximate(np.log2, a, ftz)


@value("ex2.approx", "x -> x", F32, section="9.7.3.22", options=[FTZ])
def ex2(a: Value, *, ftz: bool = False) -> Value:
    """ex2.approx: 2 to the power of a, relative error below 2^-22."""
    return _approximate(np.exp2, a, ftz)


@value("tanh.approx", "x -> x", F32, section="9.7.3.23")
def tanh(a: Value) -> Value:
    """tanh.approx: the hyperbolic tangent, relative error below 2^-11."""
    return _approximate(np.tanh, a, False)


def _bits(a: Value) -> tuple[Value, Any, Any]:
    form = np.dtype(f"u{a.dtype.itemsize}")
    return a.view(form), form.type(1 << (8 * form.itemsize - 1)), form


@value("neg", "x -> x", BOTH, section="9.7.3.13", options=[FTZ])
def neg(a: Value, *, ftz: bool = False) -> Value:
    """neg: -a; a NaN of f64 keeps its sign."""
    (a,) = _inputs(ftz, a)
    bits, sign, _ = _bits(a)
    r = (bits ^ sign).view(a.dtype)
    return _result(r) if a.dtype.itemsize == 4 else _nan64(r, a)


@value("abs", "x -> x", BOTH, section="9.7.3.12", options=[FTZ])
def abs_(a: Value, *, ftz: bool = False) -> Value:
    """abs: |a|; a NaN of f64 keeps its sign."""
    (a,) = _inputs(ftz, a)
    bits, sign, _ = _bits(a)
    r = (bits & ~sign).view(a.dtype)
    return _result(r) if a.dtype.itemsize == 4 else _nan64(r, a)


@value("copysign", "x x -> x", BOTH, section="9.7.3.5")
def copysign(a: Value, b: Value) -> Value:
    """copysign: b with the sign of a."""
    x, sign, _ = _bits(a)
    y, _, _ = _bits(b)
    return ((x & sign) | (y & ~sign)).view(a.dtype)


def _extreme(pick: Any, a: Value, b: Value, ftz: bool, nan: bool, xorsign: bool) -> Value:
    a, b = _inputs(ftz, a, b)
    if xorsign:
        sign = np.signbit(a) ^ np.signbit(b)
        a, b = np.abs(a), np.abs(b)
    # -0 is less than +0: let the bits decide between equal numbers
    x, _, _ = _bits(a)
    y, _, _ = _bits(b)
    tie = (x | y) if pick is np.fmin else (x & y)
    r = where(a == b, tie.view(a.dtype), numerics.prefer_number(pick, a, b))
    if xorsign:
        r = where(sign, -np.abs(r), r)
    if nan:
        r = where((a != a) | (b != b), _NAN[a.dtype.itemsize], r)
    return _result(r) if a.dtype.itemsize == 4 else _nan64(r, a, b)


_NAN = {4: numerics.NAN32, 8: numerics.NAN64}


@value("min", "x x -> x", BOTH, section="9.7.3.14", options=[FTZ, MINMAX])
def min_(
    a: Value, b: Value, *, ftz: bool = False, nan: bool = False, xorsign: bool = False
) -> Value:
    """min: the smaller; a NaN loses, unless .NaN lets it win; -0 is less than +0."""
    return _extreme(np.fmin, a, b, ftz, nan, xorsign)


@value("max", "x x -> x", BOTH, section="9.7.3.14", options=[FTZ, MINMAX])
def max_(
    a: Value, b: Value, *, ftz: bool = False, nan: bool = False, xorsign: bool = False
) -> Value:
    """max: the larger; a NaN loses, unless .NaN lets it win; -0 is less than +0."""
    return _extreme(np.fmax, a, b, ftz, nan, xorsign)


@value("min", "x x x -> x", {"f32"}, section="9.7.3.14", options=[FTZ, MINMAX3])
def min3(
    a: Value, b: Value, c: Value, *, ftz: bool = False, nan: bool = False, absolute: bool = False
) -> Value:
    """min of three (sm_100), or of their magnitudes."""
    return _extreme_of_three(min_, (a, b, c), ftz, nan, absolute)


@value("max", "x x x -> x", {"f32"}, section="9.7.3.14", options=[FTZ, MINMAX3])
def max3(
    a: Value, b: Value, c: Value, *, ftz: bool = False, nan: bool = False, absolute: bool = False
) -> Value:
    """max of three (sm_100), or of their magnitudes."""
    return _extreme_of_three(max_, (a, b, c), ftz, nan, absolute)


def _extreme_of_three(
    pick: Callable[..., Value], operands: tuple[Value, ...], ftz: bool, nan: bool, absolute: bool
) -> Value:
    a, b, c = map(np.abs, operands) if absolute else operands
    return pick(pick(a, b, ftz=ftz, nan=nan), c, ftz=ftz, nan=nan)


PROPERTIES = {
    p: ("what", p) for p in ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
}


@value("testp", "x -> pred", BOTH, section="9.7.3.4", options=[PROPERTIES])
def testp(a: Value, *, what: str) -> Value:
    """testp: whether a number is finite, infinite, a number, NaN, normal (zeros too), subnormal."""
    smallest = np.finfo(a.dtype).tiny
    return {
        "finite": lambda: np.isfinite(a),
        "infinite": lambda: np.isinf(a),
        "number": lambda: a == a,
        "notanumber": lambda: a != a,
        "normal": lambda: np.isfinite(a) & ((a == 0) | (np.abs(a) >= smallest)),
        "subnormal": lambda: (a != 0) & (np.abs(a) < smallest),
    }[what]()


def _pair(a: Value) -> tuple[Value, Value]:
    low = a.astype(np.uint32).view(np.float32)
    return low, (a >> np.uint64(32)).astype(np.uint32).view(np.float32)


def _packed(function: Any, operands: tuple[Value, ...], options: dict[str, Any]) -> Value:
    halves = [_pair(o) for o in operands]
    low = function(*[h[0] for h in halves], **options).view(np.uint32).astype(np.uint64)
    high = function(*[h[1] for h in halves], **options).view(np.uint32).astype(np.uint64)
    return low | (high << np.uint64(32))


X2 = frozenset({"f32x2"})


@value("add", "x x -> x", X2, section="9.7.3.6", options=[ROUNDING, FTZ])
def add_f32x2(a: Value, b: Value, **options: Any) -> Value:
    """add.f32x2: two sums."""
    return _packed(add, (a, b), options)


@value("sub", "x x -> x", X2, section="9.7.3.7", options=[ROUNDING, FTZ])
def sub_f32x2(a: Value, b: Value, **options: Any) -> Value:
    """sub.f32x2: two differences."""
    return _packed(sub, (a, b), options)


@value("mul", "x x -> x", X2, section="9.7.3.8", options=[ROUNDING, FTZ])
def mul_f32x2(a: Value, b: Value, **options: Any) -> Value:
    """mul.f32x2: two products."""
    return _packed(mul, (a, b), options)


@value("fma", "x x x -> x", X2, section="9.7.3.9", options=[ROUNDING, FTZ])
def fma_f32x2(a: Value, b: Value, c: Value, **options: Any) -> Value:
    """fma.f32x2: two multiply-adds, each rounded once."""
    return _packed(fma, (a, b, c), options)


def _fast_add(a: Value, b: Value) -> Value:
    return a + b


def _fast_sub(a: Value, b: Value) -> Value:
    return a - b


def _fast_mul(a: Value, b: Value) -> Value:
    return a * b


def _fast_fma(a: Value, b: Value, c: Value) -> Value:
    return a * b + c


FAST.update({add: _fast_add, sub: _fast_sub, mul: _fast_mul, fma: _fast_fma})
