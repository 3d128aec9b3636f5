"""Conversions (PTX ISA 9.7.9.21): between integers, floats and the short formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from phasebit.emulator.numbers import formats, numerics
from phasebit.emulator.numbers.halves import decode, encode
from phasebit.emulator.numbers.numerics import bf16_to_f32, canonical, flush, saturate, where
from phasebit.emulator.ptx.operands import items_of, misfit
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import FTZ, ROUNDING, SAT, Selected, Traits, value
from phasebit.emulator.ptx.types import SIZE, UNSIGNED, Array, Value, dtype

INTEGER = frozenset({"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"})
FLOATING = frozenset({"f16", "bf16", "f32", "f64"})
TO_INTEGER = {r: ("rounding", r) for r in ("rni", "rzi", "rmi", "rpi", "rna", "rs")}
OTHER = {"relu": ("relu", True), "satfinite": ("satfinite", True)}
FP8 = frozenset({"e4m3x2", "e5m2x2"})
SHORT = FP8 | {"e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2"}

TO_SCALE: list[dict[str, tuple[str, Any]]] = [
    {"rz": ("rounding", "rz"), "rp": ("rounding", "rp")}, {"satfinite": ("satfinite", True)},
]  # fmt: skip

ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@value("cvt", "y -> x", INTEGER, INTEGER, section="9.7.9.21", options=[SAT])
def cvt_integer(a: Value, *, kind: str, source: str, sat: bool = False) -> Value:
    """cvt between integers: extended by the source's sign, cut, or with .sat clamped."""
    if sat:
        form = dtype(kind)
        low, high = np.iinfo(form).min, np.iinfo(form).max
        have = np.iinfo(a.dtype)
        a = np.minimum(np.maximum(a, a.dtype.type(max(low, have.min))),
                       a.dtype.type(min(high, have.max)))  # fmt: skip
        return a.astype(form)
    return a.astype(dtype(kind))


@value("cvt", "y -> x", INTEGER, FLOATING, section="9.7.9.21",
       options=[TO_INTEGER, ROUNDING, FTZ, SAT])  # fmt: skip
def cvt_to_integer(
    a: Value, *, kind: str, source: str, rounding: str = "rzi", ftz: bool = False, sat: bool = False
) -> Value:
    """cvt from float to integer: rounded as asked, clamped to the range.

    NaN gives 0, but from f64, and to 64 bits, the number with the top bit alone.
    """
    if source in ("f16", "bf16"):
        a = decode(a.view(np.uint16), source)
    elif ftz:
        a = flush(a)
    form = dtype(kind)
    bits = 8 * form.itemsize
    x = ROUND[rounding](a.astype(np.float64))
    low = -(2.0 ** (bits - 1)) if form.kind == "i" else 0.0
    high = 2.0 ** (bits - 1 if form.kind == "i" else bits)
    inside = (x >= low) & (x < high)
    safe = where(inside, x, np.float64(0))
    r = safe.astype(form)
    r = where(x >= high, form.type(np.iinfo(form).max), r)
    r = where(x < low, form.type(np.iinfo(form).min), r)
    nan = form.type(np.iinfo(form).min) if bits == 64 and form.kind == "i" else form.type(0)
    if bits == 64 and form.kind == "u":
        nan = form.type(1 << 63)
    if source == "f64":
        nan = form.type(np.iinfo(form).min) if form.kind == "i" else form.type(1 << (bits - 1))
    return where(a != a, nan, r)


@value("cvt", "y -> x", FLOATING, INTEGER, section="9.7.9.21", options=[ROUNDING, SAT])
def cvt_from_integer(
    a: Value, *, kind: str, source: str, rounding: str = "rn", sat: bool = False
) -> Value:
    """cvt from integer to float, rounded once."""
    small = SIZE[source] <= 4
    if kind == "f64":
        r = a.astype(np.float64)
        if not small and rounding != "rn":
            r = _exact_integer(a, "f8", rounding)
        return r
    if kind == "f32":
        if rounding == "rn":
            r = a.astype(np.float32)
        elif small:
            r = numerics.round32(a.astype(np.float64), rounding)
        else:
            r = _exact_integer(a, "f4", rounding)
        return saturate(r) if sat else r
    wide = a.astype(np.float64) if small else _odd_integer(a)
    bits = _encode_rounded(wide, kind, rounding)
    return bits.view(np.float16) if kind == "f16" else bits


def _exact_integer(a: Value, form: str, rounding: str) -> Value:
    numbers = np.atleast_1d(a)
    out = [
        numerics.round_fraction(Fraction(int(n)), np.dtype(form), rounding) if n else 0.0
        for n in numbers.tolist()
    ]
    result = np.array(out, dtype=form)
    return result if isinstance(a, np.ndarray) else result[0]


def _odd_integer(a: Value) -> Value:
    """A 64-bit integer as f64, rounded to odd."""
    r = _exact_integer(a, "f8", "rz")
    back = [int(v) for v in np.atleast_1d(r)]
    inexact = np.array([b != n for b, n in zip(back, np.atleast_1d(a).tolist(), strict=True)])
    bits = np.atleast_1d(r).view(np.uint64) | inexact.astype(np.uint64)
    result = bits.view(np.float64)
    return result if isinstance(a, np.ndarray) else result[0]


def _encode_rounded(x: Value, kind: str, rounding: str) -> Value:
    """An odd-rounded f64 as f16 or bf16 bits, in any rounding."""
    nearest = encode(x, kind)
    if rounding == "rn":
        return nearest
    back = decode(nearest, kind)
    up = {"rz": x < 0, "rm": np.bool_(False), "rp": np.bool_(True)}[rounding]
    wrong = where(up, back < x, back > x)
    # one step towards the right side, in the order of the bit patterns
    negative = (nearest & np.uint16(0x8000)) != 0
    toward_zero = where(up, negative, ~negative)
    zero = (nearest & np.uint16(0x7FFF)) == 0
    step = where(toward_zero, nearest - np.uint16(1), nearest + np.uint16(1))
    from_zero = where(up, np.uint16(1), np.uint16(0x8001))
    moved = where(zero, from_zero, step)
    return where(wrong & (x == x), moved, nearest)


@value("cvt", "y -> x", FLOATING, FLOATING, section="9.7.9.21",
       options=[ROUNDING, TO_INTEGER, FTZ, SAT, OTHER])  # fmt: skip
def cvt_float(
    a: Value, *, kind: str, source: str, rounding: str = "rn", ftz: bool = False,
    sat: bool = False, relu: bool = False, satfinite: bool = False,
) -> Value:  # fmt: skip
    """cvt between floats: rounded to a shorter one, or to an integral value (.rni …)."""
    if ftz and source == "f32" and kind != "f16":  # seen on an H200: not for f16
        a = canonical(flush(a))
    if source == kind == "f32" and rounding == "rn" and not (ftz or sat):
        return a
    if (source, kind) == ("bf16", "f32"):
        return bf16_to_f32(a)
    wide = decode(a.view(np.uint16), source) if source in ("f16", "bf16") else a.astype(np.float64)
    if rounding in ROUND:
        wide = ROUND[rounding](wide)
        rounding = "rn"
    if kind == "f64":
        return saturate(wide) if sat else _quiet(wide)
    if kind == "f32":
        r = numerics.round32(wide, rounding)
        if ftz:
            r = flush(r)
        if sat:
            return saturate(r)
        return _payload(wide, r, 4).view(np.float32) if source == "f64" else canonical(r)
    bits = _encode_rounded(wide, kind, rounding)
    if source == "f64":
        bits = _payload(wide, bits, 2, 10 if kind == "f16" else 7)
    if satfinite:
        top = np.uint16(0x7BFF if kind == "f16" else 0x7F7F)
        bits = where((bits & np.uint16(0x7FFF)) > top, (bits & np.uint16(0x8000)) | top, bits)
        bits = where(wide != wide, np.uint16(0x7FFF), bits)
    if sat or relu:
        number = decode(bits, kind)
        if sat:
            bits = where(number > 1, encode(np.float64(1), kind), bits)
            bits = where(number > 0, bits, np.uint16(0))
        else:
            bits = where((number > 0) | (number != number), bits, np.uint16(0))
    return bits.view(np.float16) if kind == "f16" else bits


def _quiet(a: Value) -> Value:
    """f64 with every NaN made quiet."""
    bits = a.view(np.uint64)
    return where(a != a, bits | np.uint64(1 << 51), bits).view(np.float64)


def _payload(wide: Value, r: Value, size: int, fraction: int = 23) -> Value:
    """The bits of a shorter float; a NaN keeps the sign and the upper payload of the f64."""
    form = UNSIGNED[size]
    bits = _quiet(wide).view(np.uint64)
    sign = (bits >> np.uint64(63)) << np.uint64(8 * size - 1)
    exponent = ((1 << (8 * size - 1 - fraction)) - 1) << fraction
    payload = (bits & np.uint64((1 << 52) - 1)) >> np.uint64(52 - fraction)
    nan = (sign | np.uint64(exponent) | payload).astype(form)
    return where(wide != wide, nan, r.view(form))


@value("cvt", "f32 f32 -> x", {"f16x2", "bf16x2"}, {"f32"}, section="9.7.9.21",
       options=[ROUNDING, OTHER])  # fmt: skip
def cvt_pack(
    a: Value, b: Value, *, kind: str, rounding: str = "rn", relu: bool = False,
    satfinite: bool = False,
) -> Value:  # fmt: skip
    """cvt.f16x2.f32: two f32 in one register; the first operand goes to the upper half."""
    half = kind[:-2]
    halves = [
        cvt_float(v, kind=half, source="f32", rounding=rounding, relu=relu, satfinite=satfinite)
        .view(np.uint16).astype(np.uint32)
        for v in (b, a)
    ]  # fmt: skip
    return halves[0] | (halves[1] << np.uint32(16))


CARRIED = {"f16": (10, -14, 13), "bf16": (7, -126, 16)}
"""Bits of the mantissa, smallest exponent, random bits that a number of each format takes."""


@value("cvt.rs", "f32 f32 u32 -> x", {"f16x2", "bf16x2"}, {"f32"}, section="9.7.9.21",
       options=[OTHER])  # fmt: skip
def cvt_stochastic(
    a: Value, b: Value, rbits: Value, *, kind: str, relu: bool = False, satfinite: bool = False
) -> Value:
    """cvt.rs.f16x2.f32: away from zero where random bits carry out of the bits that are cut.

    Each number takes the random bits of its half of ``rbits``, 13 for f16, 16 for bf16, and they
    are added to as many of the highest bits that are cut, for subnormal results too. Which bits
    of ``rbits`` go where is an assumption, after what QuACK's kernels say of it: only Blackwell
    has the instruction, and none was asked.
    """
    half = kind[:-2]
    mantissa, smallest, taken = CARRIED[half]
    ones = np.uint32((1 << taken) - 1)
    result = np.uint32(0)
    for place, x in enumerate((b, a)):
        random = ((rbits >> np.uint32(16 * place)) & ones).astype(np.float64)
        wide = x.astype(np.float64)
        finite = where(np.isfinite(wide), wide, np.float64(0))
        exponent = np.maximum(np.frexp(finite)[1] - 1, smallest)
        step = np.ldexp(np.float64(1), exponent - mantissa)
        moved = np.floor(np.abs(finite) / step + np.ldexp(random, -taken)) * step
        rounded = where(np.isfinite(wide), np.copysign(moved, wide), wide).astype(np.float32)
        bits = cvt_float(rounded, kind=half, source="f32", relu=relu, satfinite=satfinite)
        result = result | (bits.view(np.uint16).astype(np.uint32) << np.uint32(16 * place))
    return result


@value(
    "cvt", "f32 -> x", {"tf32"}, {"f32"}, section="9.7.9.21", options=[TO_INTEGER, ROUNDING, OTHER]
)
def cvt_tf32(
    a: Value, *, rounding: str = "rna", relu: bool = False, satfinite: bool = False
) -> Value:
    """cvt.tf32.f32: 10 bits of mantissa; .rna rounds halves away from zero."""
    bits = a.view(np.uint32)
    if rounding == "rz":
        rounded = bits
    elif rounding == "rna":
        rounded = bits + np.uint32(0x1000)
    else:
        rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    rounded = rounded & np.uint32(0xFFFFE000)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    if rounding == "rna":  # seen on an H200: a NaN is cut like a number
        step = np.uint32(0x2000 if satfinite else 0)
        special |= (rounded & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
        cut = where((bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000), bits, rounded)
        r = where(special, (cut & np.uint32(0xFFFFE000)) - step, rounded)
    else:
        r = where(special, where(a != a, np.uint32(0x7FFFE000), bits), rounded)
    if relu:
        r = where(r.view(np.int32) < 0, np.uint32(0), r)
    return r


# -- 8-bit and shorter formats -------------------------------------------------


def check_four(instruction: Instruction, chosen: Selected) -> None:
    """Four numbers in braces, and what is too large becomes the largest number."""
    if len(items_of(instruction.operands[1])) != 4 or "satfinite" not in instruction.modifiers:
        raise misfit(instruction, "cvt.rs to four numbers takes four in braces, and .satfinite")


def _short(function: Callable[..., Array], name: str, a: Value, **options: Any) -> Value:
    """A function of :mod:`phasebit.emulator.numbers.formats`, which wants arrays, for any value."""
    result = function(name, np.atleast_1d(a), **options)
    return result if isinstance(a, np.ndarray) else result[0]


@value("cvt", "f32 f32 -> x", SHORT - {"ue8m0x2"}, {"f32"}, section="9.7.9.21",
       options=[ROUNDING, OTHER])  # fmt: skip
def cvt_to_short(
    a: Value, b: Value, *, kind: str, rounding: str = "rn", relu: bool = False,
    satfinite: bool = True,
) -> Value:  # fmt: skip
    """cvt.e4m3x2.f32: two f32 as a pair of short floats; the first goes to the upper part."""
    name = kind[:-2]
    high = _short(formats.encode, name, a, satfinite=True, relu=relu).astype(np.uint8)
    low = _short(formats.encode, name, b, satfinite=True, relu=relu).astype(np.uint8)
    if kind == "e2m1x2":
        return low | (high << np.uint8(4))
    return low.astype(np.uint16) | (high.astype(np.uint16) << np.uint16(8))


@value("cvt", "y -> x", FP8, {"f16x2", "bf16x2"}, section="9.7.9.21", options=[ROUNDING, OTHER])
def cvt_half_to_short(
    a: Value, *, kind: str, source: str, rounding: str = "rn", relu: bool = False,
    satfinite: bool = True,
) -> Value:  # fmt: skip
    """cvt.e4m3x2.f16x2: a pair of halves as a pair of 8-bit floats."""
    bits = a.view(np.uint32)
    low = decode(bits.astype(np.uint16), source)
    high = decode((bits >> np.uint32(16)).astype(np.uint16), source)
    return cvt_to_short(high, low, kind=kind, relu=relu)


@value("cvt", "y -> x", {"f16x2"}, SHORT - {"ue8m0x2"}, section="9.7.9.21",
       options=[ROUNDING, OTHER])  # fmt: skip
def cvt_from_short(
    a: Value, *, kind: str, source: str, rounding: str = "rn", relu: bool = False,
    satfinite: bool = False,
) -> Value:  # fmt: skip
    """cvt.f16x2.e4m3x2: a pair of short floats as a pair of halves (exact)."""
    name = source[:-2]
    shift = 4 if source == "e2m1x2" else 8
    mask = {"e2m1": 0xF, "e2m3": 0x3F, "e3m2": 0x3F}.get(name, 0xFF)
    result = np.uint32(0)
    for place in range(2):
        pattern = (a.astype(np.uint32) >> np.uint32(shift * place)) & np.uint32(mask)
        number = _short(formats.decode, name, pattern.astype(np.uint8)).astype(np.float64)
        bits = encode(np.float64(1) * number, "f16").astype(np.uint32)
        if relu:
            bits = where((number > 0) | (number != number), bits, np.uint32(0))
        result = result | (bits << np.uint32(16 * place))
    return result


QUADS = frozenset({"e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"})


@value("cvt.rs", "*f32 u32 -> x", QUADS, {"f32"}, section="9.7.9.21", options=[OTHER],
       traits=Traits(check=check_four))  # fmt: skip
def cvt_stochastic_to_short(
    given: Sequence[Value], rbits: Value, *, kind: str, relu: bool = False, satfinite: bool = True
) -> Value:
    """cvt.rs.satfinite.e4m3x4.f32: four f32 as short floats, the first in the upper part.

    16 random bits are added to as many of the highest bits that are cut, as with two. The last
    two numbers share half of ``rbits``, the first two the other: its lower and its upper 16 bits,
    for e2m1 the lower and the upper byte of each 16. That the odd ones take theirs in reversed
    order the PTX ISA does not say; PyTorch's people found it on a B200, none was asked here.
    """
    name = kind[:-2]
    lower, upper = rbits & np.uint32(0xFFFF), rbits >> np.uint32(16)
    if name == "e2m1":
        byte, eight = np.uint32(0xFF), np.uint32(8)
        lower, upper = (
            (upper & byte) << eight | lower & byte, upper & ~byte | lower >> eight
        )  # fmt: skip
    taken = _backwards(upper), upper, _backwards(lower), lower
    width = 4 if name == "e2m1" else 8
    result: Value = np.uint32(0)
    for place, (x, random) in enumerate(zip(given, taken, strict=True)):
        both = np.broadcast_arrays(np.atleast_1d(x), np.atleast_1d(random))
        code = formats.encode(
            name, both[0], "rs", satfinite=True, relu=relu, random=both[1], random_bits=16
        )
        result = result | code.astype(np.uint32) << np.uint32(width * (3 - place))
    whole = result.astype(dtype(kind))
    spread = any(isinstance(x, np.ndarray) for x in (*given, rbits))
    return whole if spread else whole[0]


def _backwards(bits: Value) -> Value:
    """16 bits in reversed order."""
    result = np.uint32(0)
    for place in range(16):
        result = result | (bits >> np.uint32(place) & np.uint32(1)) << np.uint32(15 - place)
    return result


@value("cvt", "f32 f32 -> x", {"ue8m0x2"}, {"f32"}, section="9.7.9.21", options=TO_SCALE)
def cvt_to_scale(
    a: Value, b: Value, *, kind: str, rounding: str = "rz", satfinite: bool = False
) -> Value:
    """cvt.rp.ue8m0x2.f32: two f32 as a pair of scales; the first goes to the upper part."""
    high, low = (
        _short(formats.encode, "ue8m0", x, rounding=rounding, satfinite=satfinite)
        for x in (a, b)
    )
    return low.astype(np.uint16) | (high.astype(np.uint16) << np.uint16(8))


@value("cvt", "y -> x", {"ue8m0x2"}, {"bf16x2"}, section="9.7.9.21", options=TO_SCALE)
def cvt_halves_to_scale(
    a: Value, *, kind: str, source: str, rounding: str = "rz", satfinite: bool = False
) -> Value:
    """cvt.rp.ue8m0x2.bf16x2: a pair of bf16 as a pair of scales."""
    bits = a.view(np.uint32)
    low = decode(bits.astype(np.uint16), source)
    high = decode((bits >> np.uint32(16)).astype(np.uint16), source)
    return cvt_to_scale(high, low, kind=kind, rounding=rounding, satfinite=satfinite)


@value("cvt", "y -> x", {"bf16x2"}, {"ue8m0x2"}, section="9.7.9.21", options=[ROUNDING])
def cvt_from_scale(a: Value, *, kind: str, source: str, rounding: str = "rn") -> Value:
    """cvt.rn.bf16x2.ue8m0x2: a pair of scales as a pair of bf16 (exact)."""
    result = np.uint32(0)
    for place in range(2):
        code = ((a.astype(np.uint32) >> np.uint32(8 * place)) & np.uint32(0xFF)).astype(np.uint8)
        number = _short(formats.decode, "ue8m0", code)
        bits = encode(np.float64(1) * number, "bf16").astype(np.uint32)
        result = result | (bits << np.uint32(16 * place))
    return result


@value("cvt.pack", "y y u32 -> u32", {"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"}, {"s32"},
       section="9.7.9.21", options=[SAT], optional=1)  # fmt: skip
def cvt_pack_sat(a: Value, b: Value, c: Value = None, *, kind: str, sat: bool = True) -> Value:
    """cvt.pack.sat: two 32-bit integers clamped and packed below what c held."""
    width = int(kind[1:])
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (
        0, (1 << width) - 1
    )  # fmt: skip
    ones = np.uint32((1 << width) - 1)
    halves = [np.clip(v, low, high).view(np.uint32) & ones for v in (b, a)]
    packed = halves[0] | (halves[1] << np.uint32(width))
    if c is not None:
        packed = packed | (c << np.uint32(2 * width))
    return packed

