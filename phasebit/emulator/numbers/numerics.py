"""Rounding, exactly.

NumPy adds, multiplies, divides and takes roots in f32 and f64 as IEEE 754 asks,
rounding to nearest even.  What it lacks is here: a fused multiply-add, the
directed roundings, bf16 and the 8-bit formats, and what PTX does with NaN.

The tool is *rounding to odd*: a sum computed in f64 whose last bit is set to one
whenever something was cut off.  A second rounding, to any shorter format and in
any direction, then gives what one rounding of the exact value would have given
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", IEEE
Transactions on Computers 57(4), 2008).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from phasebit.emulator.ptx.types import Array, Value

NAN32 = np.frombuffer(b"\xff\xff\xff\x7f", "f4")[0]
"""The NaN that f32 instructions give: 0x7fffffff (PTX ISA 9.7.3)."""

NAN64 = np.frombuffer(b"\x00\x00\x00\x00\x00\x00\xf8\xff", "f8")[0]

LEAST_NORMAL = np.float32(2.0**-126)

LAST_29_BITS, MIDDLE = np.int64(0x1FFFFFFF), np.int64(0x10000000)
"""What of an f64 number has no room in f32; and that in the middle between two f32 numbers."""

ndarray = np.ndarray


def where(p: Value, a: Value, b: Value) -> Value:
    """``np.where`` that gives a scalar for scalars."""
    if isinstance(p, ndarray) or isinstance(a, ndarray) or isinstance(b, ndarray):
        return np.where(p, a, b)
    return a if p else b


def canonical(r: Value) -> Value:
    """Give every NaN of an f32 result the one pattern that hardware gives."""
    bad = r != r
    if bad.__class__ is ndarray:
        return np.where(bad, NAN32, r) if np.count_nonzero(bad) else r
    return NAN32 if bad else r


def prefer_number(pick: Any, a: Value, b: Value) -> Value:
    """``np.fmin`` or ``np.fmax``; theirs gives a NaN where one operand is a signalling NaN."""
    return where(a != a, b, where(b != b, a, pick(a, b)))


def flush(a: Value) -> Value:
    """``.ftz``: subnormal f32 numbers become zeros of the same sign."""
    bits = a.view(np.uint32)
    small = (bits & np.uint32(0x7F800000)) == 0
    return where(small, bits & np.uint32(0x80000000), bits).view(np.float32)


def flush16(a: Value) -> Value:
    """``.ftz`` for f16: subnormal numbers become zeros of the same sign."""
    bits = a.view(np.uint16)
    small = (bits & np.uint16(0x7C00)) == 0
    return where(small, bits & np.uint16(0x8000), bits).view(np.float16)


def saturate(a: Value) -> Value:
    """``.sat``: clamped to [0, 1]; NaN becomes +0."""
    kind = a.dtype.type
    clamped = np.minimum(np.maximum(a, kind(0)), kind(1))
    return where((a > 0), clamped, kind(0))


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """The f64 sum of two numbers and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def odd_sum(a: Value, b: Value) -> Value:
    """The f64 sum of two f64 numbers, rounded to odd."""
    s, error = two_sum(a, b)
    return _make_odd(s, error)


def _make_odd(s: Value, error: Value) -> Value:
    """``s + error`` rounded to odd, where ``s`` is that sum rounded to nearest."""
    bits = np.asarray(s).view(np.int64)
    fix = (np.asarray(error) != 0) & ((bits & 1) == 0) & np.isfinite(s) & np.isfinite(error)
    # towards the error: away from zero when the signs agree, else towards zero
    away = (np.asarray(error) > 0) == (np.asarray(s) > 0)
    moved = np.where(fix, bits + np.where(away, 1, -1), bits)
    result = moved.view(np.float64)
    return result if result.ndim else result[()]


def round32(x: Value, rounding: str) -> Value:
    """An f64 value as f32, rounded to nearest, to zero, down or up."""
    r = x.astype(np.float32)
    if rounding == "rn":
        return r
    back = r.astype(np.float64)
    inf = np.float32(np.inf)
    if rounding == "rz":
        too_far = np.abs(back) > np.abs(x)
        target = where(back > 0, np.float32(0), np.float32(-0.0))
    elif rounding == "rm":
        too_far, target = back > x, -inf
    else:
        too_far, target = back < x, inf
    return where(too_far, np.nextafter(r, target).astype(np.float32), r)


def fma32(a: Value, b: Value, c: Value, rounding: str = "rn") -> Value:
    """``a*b + c`` with one rounding; NaNs have the one pattern that hardware gives.

    The product of two f32 numbers is exact in f64.  For rounding to nearest the
    f64 sum is good unless it lies in the middle between two f32 numbers, or below
    the normal range; only then is the sum made odd.
    """
    product = a.astype(np.float64) * b
    if rounding != "rn":
        return _signed_zero(round32(odd_sum(product, np.float64(1) * c), rounding), product, c,
                            rounding)  # fmt: skip
    wide = product + c
    r = wide.astype(np.float32)
    if r.__class__ is not ndarray:
        return canonical(odd_sum(np.float64(product), np.float64(c)).astype(np.float32))
    doubtful = (wide.view(np.int64) & LAST_29_BITS) == MIDDLE
    if not np.minimum.reduce(abs(r), None) >= LEAST_NORMAL:  # also where there is a NaN
        r = canonical(r)
        doubtful |= (abs(r) < LEAST_NORMAL) & (wide != 0)
    if np.count_nonzero(doubtful):
        where_ = np.flatnonzero(doubtful)
        addend = c.take(where_) if c.__class__ is ndarray else np.full(len(where_), c)
        r[where_] = odd_sum(product.take(where_), addend.astype(np.float64)).astype(np.float32)
    return r


def _signed_zero(r: Value, a: Value, b: Value, rounding: str) -> Value:
    """An exact zero sum of numbers of opposite signs is -0 when rounding down, else +0."""
    zero = (r == 0) & (np.signbit(a) != np.signbit(b)) & (a == -b)
    kind = r.dtype.type
    return where(zero, kind(-0.0) if rounding == "rm" else kind(0.0), r)


def add32(a: Value, b: Value, rounding: str) -> Value:
    """An f32 sum in a directed rounding."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    return _signed_zero(round32(odd_sum(x, y), rounding), x, y, rounding)


def mul32(a: Value, b: Value, rounding: str) -> Value:
    """An f32 product in a directed rounding."""
    return round32(a.astype(np.float64) * b.astype(np.float64), rounding)


# -- one number at a time: slow and exact -------------------------------------


def exactly(
    function: Callable[..., Fraction | None],
    rounding: str,
    form: Any,
    native: Value,
    *operands: Value,
) -> Value:
    """Compute with fractions, thread by thread, and round once.

    ``native`` is NumPy's answer, kept where an operand is not finite, where the
    exact answer is zero, or where ``function`` returns None.
    """
    scalar = not any(isinstance(o, ndarray) for o in operands)
    arrays = np.broadcast_arrays(*[np.atleast_1d(o) for o in operands])
    result = np.array(np.broadcast_to(np.atleast_1d(native), arrays[0].shape), dtype=form)
    for i in range(len(result)):
        values = [float(x[i]) for x in arrays]
        if all(math.isfinite(v) for v in values):
            exact = function(*[Fraction(v) for v in values])
            if exact:
                result[i] = round_fraction(exact, np.dtype(form), rounding)
    return result[0] if scalar else result


def round_fraction(x: Fraction, form: np.dtype[Any], rounding: str) -> Any:
    """A non-zero fraction as a number of a NumPy float type."""
    precision, least, greatest = {2: (11, -24, 15), 4: (24, -149, 127), 8: (53, -1074, 1023)}[
        form.itemsize
    ]
    negative, x = x < 0, abs(x)
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** exponent > x:
        exponent -= 1
    unit = max(exponent - precision + 1, least)
    scaled = x / Fraction(2) ** unit
    whole, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator) - Fraction(1, 2)
    up = {
        "rn": half > 0 or (half == 0 and whole & 1),
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[rounding]
    whole += bool(up)
    top = (1 << precision) - 1
    if whole * Fraction(2) ** unit > top * Fraction(2) ** (greatest - precision + 1):
        outward = rounding == "rn" or (rounding == "rm" and negative) or (
            rounding == "rp" and not negative
        )  # fmt: skip
        value = math.inf if outward else math.ldexp(top, greatest - precision + 1)
    else:
        value = math.ldexp(whole, unit)
    return form.type(-value if negative else value)


def fma64(a: Value, b: Value, c: Value, rounding: str = "rn") -> Value:
    """``a*b + c`` in f64 with one rounding."""
    native = a * b + c
    finite = np.isfinite(a) & np.isfinite(b)
    native = where(finite & np.isinf(c), c, native)  # the product may only look infinite
    if rounding != "rn":
        native = _signed_zero(native, a * b, c, rounding)
        return exactly(lambda x, y, z: x * y + z, rounding, "f8", native, a, b, c)
    scalar = not isinstance(native, ndarray)
    a, b, c = np.broadcast_arrays(*[np.atleast_1d(v) for v in (a, b, c)])
    high, low = _two_product(a, b)
    th, tl = two_sum(c, low)
    vh, vl = two_sum(high, th)
    result = vh + odd_sum(tl, vl)
    with np.errstate(all="ignore"):
        size_a, size_b, size_c = np.abs(a), np.abs(b), np.abs(c)
        safe = (size_a < 1e150) & (size_b < 1e150) & (size_c < 1e300) & (np.abs(high) > 1e-250)
        safe &= (size_a > 1e-150) & (size_b > 1e-150)
    for i in np.flatnonzero(~safe):
        values = [float(x[i]) for x in (a, b, c)]
        if all(math.isfinite(v) for v in values):
            exact = Fraction(values[0]) * Fraction(values[1]) + Fraction(values[2])
            result[i] = round_fraction(exact, np.dtype("f8"), "rn") if exact else a[i] * b[i] + c[i]
        else:
            result[i] = np.atleast_1d(native)[i]
    return result[0] if scalar else result


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The f64 product and its exact error (Dekker, Veltkamp)."""
    p = a * b
    split = 134217729.0
    t = split * a
    ah = t - (t - a)
    al = a - ah
    t = split * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


# -- short formats -------------------------------------------------------------


def bf16_to_f32(bits: Value) -> Value:
    """bf16 is the upper half of an f32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(a: Value) -> Value:
    """f32 to bf16, rounded to nearest; NaN becomes 0x7fff."""
    bits = a.view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)
    return where(a != a, np.uint32(0x7FFF), rounded).astype(np.uint16)


def f64_to_bf16(a: Value) -> Value:
    """An odd-rounded f64 to bf16, through an odd-rounded f32."""
    return f32_to_bf16(odd32(a))


def odd32(x: Value) -> Value:
    """An f64 as f32, rounded to odd."""
    r = round32(x, "rz")
    inexact = (r.astype(np.float64) != x) & np.isfinite(r) & (x == x)
    bits = r.view(np.uint32)
    return where(inexact, bits | np.uint32(1), bits).view(np.float32)
