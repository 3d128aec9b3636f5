"""Integer arithmetic (PTX ISA 9.7.1).  NumPy's fixed-width integers wrap, as PTX's do."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.numbers.numerics import where
from phasebit.emulator.ptx.table import value
from phasebit.emulator.ptx.types import INTEGERS, SIGNED, SIZE, UNSIGNED, Value, dtype, widen

WORDS = frozenset({"u32", "s32"})
CARRY = frozenset({"u32", "s32", "u64", "s64"})
NARROW = frozenset({"u16", "s16", "u32", "s32"})
RELU = {"relu": ("relu", True)}
SAT = {"sat": ("sat", True)}


@value("add", "x x -> x", INTEGERS, section="9.7.1.1", options=[SAT])
def add(a: Value, b: Value, *, sat: bool = False) -> Value:
    """add: a + b, wrapping; .sat clamps s32 to its range."""
    if sat:
        return _clamp32(a.astype(np.int64) + b)
    return a + b


@value("sub", "x x -> x", INTEGERS, section="9.7.1.2", options=[SAT])
def sub(a: Value, b: Value, *, sat: bool = False) -> Value:
    """sub: a - b, wrapping; .sat clamps s32 to its range."""
    if sat:
        return _clamp32(a.astype(np.int64) - b)
    return a - b


def _clamp32(a: Value) -> Value:
    return np.minimum(np.maximum(a, -(1 << 31)), (1 << 31) - 1).astype(np.int32)


@value("add", "x x -> x", {"u16x2", "s16x2"}, section="9.7.1.1")
def add16x2(a: Value, b: Value) -> Value:
    """add.{u,s}16x2: two 16-bit sums."""
    high = np.uint32(0xFFFF0000)
    return ((a + b) & ~high) | ((a & high) + (b & high))


@value("mul.lo", "x x -> x", INTEGERS, section="9.7.1.3")
def mul_lo(a: Value, b: Value) -> Value:
    """mul.lo: the lower half of the product."""
    return a * b


@value("mul.wide", "x x -> w", NARROW, section="9.7.1.3")
def mul_wide(a: Value, b: Value, *, kind: str) -> Value:
    """mul.wide: the whole product, twice as wide as its operands."""
    return a.astype(dtype(widen(kind))) * b


@value("mul.hi", "x x -> x", INTEGERS, section="9.7.1.3")
def mul_hi(a: Value, b: Value, *, kind: str) -> Value:
    """mul.hi: the upper half of the product."""
    if SIZE[kind] < 8:
        wide = a.astype(dtype(widen(kind))) * b
        return (wide >> (8 * SIZE[kind])).astype(dtype(kind))
    low32, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    xl, xh, yl, yh = x & low32, x >> half, y & low32, y >> half
    middle = xh * yl + ((xl * yl) >> half)
    carry = (middle & low32) + xl * yh
    high = xh * yh + (middle >> half) + (carry >> half)
    if kind == "s64":  # from the unsigned to the signed product
        zero = np.uint64(0)
        high = high - where(a < 0, y, zero) - where(b < 0, x, zero)
        return high.view(np.int64)
    return high


@value("mad.lo", "x x x -> x", INTEGERS, section="9.7.1.4")
def mad_lo(a: Value, b: Value, c: Value) -> Value:
    """mad.lo: the lower half of a * b, plus c."""
    return a * b + c


@value("mad.hi", "x x x -> x", INTEGERS, section="9.7.1.4", options=[SAT])
def mad_hi(a: Value, b: Value, c: Value, *, kind: str, sat: bool = False) -> Value:
    """mad.hi: the upper half of a * b, plus c; .sat clamps s32."""
    if sat:
        return _clamp32(((a.astype(np.int64) * b) >> 32) + c)
    return mul_hi(a, b, kind=kind) + c


@value("mad.wide", "x x w -> w", NARROW, section="9.7.1.4")
def mad_wide(a: Value, b: Value, c: Value, *, kind: str) -> Value:
    """mad.wide: the whole product, plus a c that is as wide."""
    return a.astype(dtype(widen(kind))) * b + c


def _sign24(a: Value, kind: str) -> Value:
    if kind == "u32":
        return (a & np.uint32(0xFFFFFF)).astype(np.uint64)
    return ((a << 8) >> 8).astype(np.int64)


@value("mul24", "x x -> x", WORDS, section="9.7.1.5",
       options=[{"hi": ("high", True), "lo": ("high", False)}])  # fmt: skip
def mul24(a: Value, b: Value, *, kind: str, high: bool) -> Value:
    """mul24: bits 0-31 (.lo) or 16-47 (.hi) of the product of the low 24 bits."""
    product = _sign24(a, kind) * _sign24(b, kind)
    return (product >> (16 if high else 0)).astype(dtype(kind))


@value("mad24", "x x x -> x", WORDS, section="9.7.1.6",
       options=[{"hi": ("high", True), "lo": ("high", False)}, SAT])  # fmt: skip
def mad24(
    a: Value, b: Value, c: Value, *, kind: str, high: bool, sat: bool = False
) -> Value:
    """mad24: mul24 plus c; .hi.sat clamps s32."""
    product = mul24(a, b, kind=kind, high=high)
    return _clamp32(product.astype(np.int64) + c) if sat else product + c


@value("sad", "x x x -> x", INTEGERS, section="9.7.1.7")
def sad(a: Value, b: Value, c: Value) -> Value:
    """sad: c + |a - b|."""
    return c + where(a < b, b - a, a - b)


def _magnitudes(a: Value, b: Value) -> tuple[Value, Value]:
    form = UNSIGNED[a.dtype.itemsize]
    return where(a < 0, -a, a).view(form), where(b < 0, -b, b).view(form)


@value("div", "x x -> x", INTEGERS, section="9.7.1.8")
def div(a: Value, b: Value) -> Value:
    """div: the quotient, rounded towards zero; division by zero gives all ones (unspecified)."""
    zero = b == 0
    safe = where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return where(zero, ~a.dtype.type(0), a // safe)
    x, y = _magnitudes(a, safe)
    quotient = (x // y).view(a.dtype)
    quotient = where((a < 0) != (b < 0), -quotient, quotient)
    return where(zero, a.dtype.type(-1), quotient)


@value("rem", "x x -> x", INTEGERS, section="9.7.1.9")
def rem(a: Value, b: Value) -> Value:
    """rem: the remainder with the sign of a; by zero gives a (unspecified)."""
    zero = b == 0
    safe = where(zero, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return where(zero, a, a % safe)
    x, y = _magnitudes(a, safe)
    rest = (x % y).view(a.dtype)
    return where(zero, a, where(a < 0, -rest, rest))


@value("abs", "x -> x", {"s16", "s32", "s64"}, section="9.7.1.10")
def abs_(a: Value) -> Value:
    """abs: |a|; the least number stays as it is."""
    return where(a < 0, -a, a)


@value("neg", "x -> x", {"s16", "s32", "s64"}, section="9.7.1.11")
def neg(a: Value) -> Value:
    """neg: -a."""
    return -a


@value("min", "x x -> x", INTEGERS, section="9.7.1.12", options=[RELU])
def min_(a: Value, b: Value, *, relu: bool = False) -> Value:
    """min: the smaller; .relu makes a negative result 0."""
    r = np.minimum(a, b)
    return np.maximum(r, r.dtype.type(0)) if relu else r


@value("max", "x x -> x", INTEGERS, section="9.7.1.13", options=[RELU])
def max_(a: Value, b: Value, *, relu: bool = False) -> Value:
    """max: the larger; .relu makes a negative result 0."""
    r = np.maximum(a, b)
    return np.maximum(r, r.dtype.type(0)) if relu else r


@value("min", "x x -> x", {"u16x2", "s16x2"}, section="9.7.1.12",
       options=[RELU])  # fmt: skip
def min16x2(a: Value, b: Value, *, kind: str, relu: bool = False) -> Value:
    """min.{u,s}16x2: two 16-bit minima."""
    return _halves(a, b, kind, np.minimum, relu)


@value("max", "x x -> x", {"u16x2", "s16x2"}, section="9.7.1.13", options=[RELU])
def max16x2(a: Value, b: Value, *, kind: str, relu: bool = False) -> Value:
    """max.{u,s}16x2: two 16-bit maxima."""
    return _halves(a, b, kind, np.maximum, relu)


def _halves(a: Value, b: Value, kind: str, pick: np.ufunc, relu: bool) -> Value:
    form = dtype(kind[:3])
    parts = []
    for shift in (np.uint32(0), np.uint32(16)):
        x = (a.view(np.uint32) >> shift).astype(np.uint16).view(form)
        y = (b.view(np.uint32) >> shift).astype(np.uint16).view(form)
        r = pick(x, y)
        if relu:
            r = np.maximum(r, form.type(0))
        parts.append(r.view(np.uint16).astype(np.uint32) << shift)
    return parts[0] | parts[1]


@value("popc", "x -> u32", {"b32", "b64"}, section="9.7.1.14")
def popc(a: Value) -> Value:
    """popc: how many bits are one."""
    return np.bitwise_count(a).astype(np.uint32)


@value("clz", "x -> u32", {"b32", "b64"}, section="9.7.1.15")
def clz(a: Value) -> Value:
    """clz: how many bits above the highest one."""
    if a.dtype.itemsize == 4:
        return (32 - np.frexp(a.astype(np.float64))[1]).astype(np.uint32)
    high = (a >> np.uint64(32)).astype(np.uint32)
    low = a.astype(np.uint32)
    return where(high != 0, clz(high), clz(low) + np.uint32(32))


NOTHING = np.uint32(0xFFFFFFFF)
LEAST = -(1 << 31)


@value("bfind", "x -> u32", {"u32", "s32", "u64", "s64"}, section="9.7.1.16",
       options=[{"shiftamt": ("shiftamt", True)}])  # fmt: skip
def bfind(a: Value, *, shiftamt: bool = False) -> Value:
    """bfind: the position of the highest bit that is not the sign; all ones if there is none."""
    bits = 8 * a.dtype.itemsize
    if a.dtype.kind == "i":
        a = where(a < 0, ~a, a)
    zeros = clz(a.view(UNSIGNED[a.dtype.itemsize]))
    place = zeros if shiftamt else np.uint32(bits - 1) - zeros
    return where(zeros == bits, NOTHING, place)


@value("fns", "u32 u32 s32 -> u32", {"b32"}, section="9.7.1.17")
def fns(mask: Value, base: Value, offset: Value) -> Value:
    """fns: the n-th set bit of a mask from a position on, upwards or downwards.

    The least offset has no magnitude of 32 bits, so the ISA's program overflows: an H200 gives 0.
    """
    arrays = np.broadcast_arrays(*[np.atleast_1d(v) for v in (mask, base, offset)])
    result = np.full(arrays[0].shape, NOTHING)
    for i, (m, start, count) in enumerate(zip(*[x.tolist() for x in arrays], strict=True)):
        step = 1 if count >= 0 else -1
        place, left = start, abs(count)
        if count == 0:
            result[i] = start if start < 32 and m >> start & 1 else NOTHING
            continue
        if count == LEAST:
            result[i] = 0
            continue
        while 0 <= place < 32:
            left -= m >> place & 1
            if left == 0:
                result[i] = place
                break
            place += step
    return result if isinstance(mask + base + offset, np.ndarray) else result[0]


@value("brev", "x -> x", {"b32", "b64"}, section="9.7.1.18")
def brev(a: Value) -> Value:
    """brev: the bits in reverse order."""
    form = a.dtype.type
    patterns = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F,
                0x00FF00FF00FF00FF, 0x0000FFFF0000FFFF, 0x00000000FFFFFFFF)  # fmt: skip
    bits = 8 * a.dtype.itemsize
    for step, pattern in enumerate(patterns[: 5 if bits == 32 else 6]):
        mask, shift = form(pattern & ((1 << bits) - 1)), form(1 << step)
        a = ((a >> shift) & mask) | ((a & mask) << shift)
    return a


@value("bfe", "x u32 u32 -> x", {"u32", "s32", "u64", "s64"}, section="9.7.1.19")
def bfe(a: Value, start: Value, length: Value) -> Value:
    """bfe: a field of bits, extended by its sign (.s) or by zeros (.u)."""
    bits = 8 * a.dtype.itemsize
    form = UNSIGNED[a.dtype.itemsize].type
    if bits == 32:  # the 64-bit forms look at all 32 bits (seen on an H200)
        start, length = start & np.uint32(0xFF), length & np.uint32(0xFF)
    shift = start.astype(form)
    field = where(start < bits, a.view(form) >> shift, form(0))
    held = np.minimum(length, np.uint32(bits) - np.minimum(start, np.uint32(bits)))
    mask = where(held >= bits, ~form(0), (form(1) << held.astype(form)) - form(1))
    field = field & mask
    if a.dtype.kind == "u":
        return field
    last = np.minimum(start.astype(np.int64) + length - 1, bits - 1)
    last = np.maximum(last, 0).astype(form)
    negative = ((a.view(form) >> last) & form(1)).astype(bool) & (length > 0)
    return where(negative, field | ~mask, where(length == 0, form(0), field)).view(a.dtype)


@value("bfi", "x x u32 u32 -> x", {"b32", "b64"}, section="9.7.1.20")
def bfi(a: Value, b: Value, start: Value, length: Value) -> Value:
    """bfi: b with the low bits of a put in as a field."""
    bits = 8 * a.dtype.itemsize
    form = a.dtype.type
    if bits == 32:  # the 64-bit forms look at all 32 bits (seen on an H200)
        start, length = start & np.uint32(0xFF), length & np.uint32(0xFF)
    mask = where(length >= bits, ~form(0), (form(1) << length.astype(form)) - form(1))
    shift = start.astype(form)
    mask = where(start < bits, mask << shift, form(0))
    moved = where(start < bits, a << shift, form(0))
    return (b & ~mask) | (moved & mask)


PAST = {"clamp": ("wrap", False), "wrap": ("wrap", True)}
"""What a position past the width means: the width, or the position modulo 32."""


def _within(n: Value, wrap: bool) -> Value:
    return n & np.uint32(31) if wrap else np.minimum(n, np.uint32(32))


@value("szext", "x u32 -> x", WORDS, section="9.7.1.21", options=[PAST])
def szext(a: Value, length: Value, *, wrap: bool = False) -> Value:
    """szext: the low bits, extended by sign or zeros to the full width."""
    return bfe(a, np.uint32(0), _within(length, wrap))


@value("bmsk", "u32 u32 -> u32", {"b32"}, section="9.7.1.22", options=[PAST])
def bmsk(start: Value, length: Value, *, wrap: bool = False) -> Value:
    """bmsk: a mask of ``length`` ones from bit ``start`` on."""
    start, length = _within(start, wrap), _within(length, wrap)
    ones = where(length >= 32, NOTHING, (np.uint32(1) << length) - np.uint32(1))
    return where(start >= 32, np.uint32(0), ones << start)


# -- with the carry flag (PTX ISA 9.7.2) ----------------------------------------


def _sum(a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    """``a + b + carry`` and the carry out of it."""
    x, y = (v.view(UNSIGNED[a.dtype.itemsize]) for v in (a, b))
    s = x + y
    r = s + carry.astype(s.dtype)
    return r.view(a.dtype), (s < x) | (r < s)


def _difference(a: Value, b: Value, borrow: Value) -> tuple[Value, Value]:
    """``a - b - borrow`` and the borrow out of it."""
    x, y = (v.view(UNSIGNED[a.dtype.itemsize]) for v in (a, b))
    d = x - y
    r = d - borrow.astype(d.dtype)
    return r.view(a.dtype), (x < y) | (d < borrow.astype(d.dtype))


NO = np.bool_(False)
HALF = {"lo": ("high", False), "hi": ("high", True)}


@value("add.cc", "x x -> x pred", CARRY, section="9.7.2.1")
def add_cc(a: Value, b: Value) -> tuple[Value, Value]:
    """add.cc: a + b, and the carry into CC.CF."""
    return _sum(a, b, NO)


@value("addc", "x x pred -> x", CARRY, section="9.7.2.2")
def addc(a: Value, b: Value, carry: Value) -> Value:
    """addc: a + b + CC.CF."""
    return _sum(a, b, carry)[0]


@value("addc.cc", "x x pred -> x pred", CARRY, section="9.7.2.2")
def addc_cc(a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    """addc.cc: a + b + CC.CF, and the carry into CC.CF."""
    return _sum(a, b, carry)


@value("sub.cc", "x x -> x pred", CARRY, section="9.7.2.3")
def sub_cc(a: Value, b: Value) -> tuple[Value, Value]:
    """sub.cc: a - b, and the borrow into CC.CF."""
    return _difference(a, b, NO)


@value("subc", "x x pred -> x", CARRY, section="9.7.2.4")
def subc(a: Value, b: Value, borrow: Value) -> Value:
    """subc: a - (b + CC.CF)."""
    return _difference(a, b, borrow)[0]


@value("subc.cc", "x x pred -> x pred", CARRY, section="9.7.2.4")
def subc_cc(a: Value, b: Value, borrow: Value) -> tuple[Value, Value]:
    """subc.cc: a - (b + CC.CF), and the borrow into CC.CF."""
    return _difference(a, b, borrow)


def _product(a: Value, b: Value, kind: str, high: bool) -> Value:
    return mul_hi(a, b, kind=kind) if high else a * b


@value("mad.cc", "x x x -> x pred", CARRY, section="9.7.2.5", options=[HALF])
def mad_cc(
    a: Value, b: Value, c: Value, *, kind: str, high: bool
) -> tuple[Value, Value]:
    """mad.cc: half of a * b, plus c, and the carry into CC.CF."""
    return _sum(_product(a, b, kind, high), c, NO)


@value("madc", "x x x pred -> x", CARRY, section="9.7.2.6", options=[HALF])
def madc(a: Value, b: Value, c: Value, carry: Value, *, kind: str, high: bool) -> Value:
    """madc: half of a * b, plus c, plus CC.CF."""
    return _sum(_product(a, b, kind, high), c, carry)[0]


@value("madc.cc", "x x x pred -> x pred", CARRY, section="9.7.2.6", options=[HALF])
def madc_cc(
    a: Value, b: Value, c: Value, carry: Value, *, kind: str, high: bool
) -> tuple[Value, Value]:
    """madc.cc: half of a * b, plus c, plus CC.CF, and the carry into CC.CF."""
    return _sum(_product(a, b, kind, high), c, carry)


def _byte(a: Value, number: int, signed: bool) -> Value:
    part = (a.view(np.uint32) >> np.uint32(8 * number)).astype(np.uint8)
    return part.view(SIGNED[1]).astype(np.int64) if signed else part.astype(np.int64)


@value("dp4a", "x y u32 -> u32", WORDS, WORDS, section="9.7.1.23")
def dp4a(a: Value, b: Value, c: Value, *, types: tuple[str, ...]) -> Value:
    """dp4a: c plus the products of the four bytes of a and b."""
    signed = [kind[0] == "s" for kind in types]
    total: Value = sum(_byte(a, i, signed[0]) * _byte(b, i, signed[1]) for i in range(4))
    return c + total.astype(np.uint32)


@value("dp2a", "x y u32 -> u32", WORDS, WORDS, section="9.7.1.24",
       options=[{"hi": ("high", 2), "lo": ("high", 0)}])  # fmt: skip
def dp2a(a: Value, b: Value, c: Value, *, types: tuple[str, ...], high: int) -> Value:
    """dp2a: c plus the products of the two halves of a and two bytes of b."""
    form = dtype(types[0].replace("32", "16"))
    total: Value = np.int64(0)
    for i in range(2):
        half = (a.view(np.uint32) >> np.uint32(16 * i)).astype(np.uint16).view(form)
        total = total + half.astype(np.int64) * _byte(b, i + high, types[1][0] == "s")
    return c + total.astype(np.uint32)
