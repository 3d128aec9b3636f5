"""Small floating-point formats: from bits to values and back, exactly rounded.

A floating-point number is a sign, an exponent field and a mantissa field.  With
``m`` mantissa bits and a *bias*, the fields ``E`` and ``M`` stand for

    E > 0:   ± (1 + M / 2**m) * 2**(E - bias)         a normal number
    E = 0:   ± (0 + M / 2**m) * 2**(1 - bias)         a subnormal number, or zero

Seen as one integer, exponent above mantissa, the *code* ``E * 2**m + M`` counts
the non-negative numbers of a format in order: the code after a number's is the
next larger number, across exponents too.  So to round is to find the code
below a value and perhaps to add one.

The formats differ in their widths and in what the largest codes mean: an
infinity and NaNs (IEEE 754), one NaN (e4m3), or simply more numbers (the 6- and
4-bit formats).  ``FORMATS`` says so for each; everything else here is generic.
All values of all formats here are float64 values, so float64 is the common
ground on which they are rounded.

    >>> encode("e4m3", np.array([0.1, 1.0, 500.0]), satfinite=True)
    array([ 29,  56, 126], dtype=uint8)
    >>> decode("e4m3", np.array([29, 56, 126], np.uint8))
    array([1.015625e-01, 1.000000e+00, 4.480000e+02], dtype=float32)

Sources: PTX ISA 5.2.3 (alternate floating-point formats), 9.7.9.21 (``cvt``);
Micikevicius et al., *FP8 Formats for Deep Learning*, arXiv:2209.05433; OCP
Microscaling Formats (MX) Specification 1.0.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator.ptx.types import Array

ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rs")
"""To nearest even, to zero, down, up, to nearest with ties away from zero, stochastic."""


@dataclass(frozen=True)
class Format:
    """One floating-point format."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    """The code of the largest finite number."""
    infinity: int | None
    """The code of infinity, in the formats that have one."""
    nan: int | None
    """The canonical NaN: what an instruction writes when its result is not a number."""
    low_bits: int = 0
    """Unused bits below the mantissa in a register: 13 in a tf32."""

    @property
    def sign_bit(self) -> int:
        """The sign, as a power of two, in the number without its unused bits."""
        return 1 << (self.exponent_bits + self.mantissa_bits)

    @property
    def storage(self) -> np.dtype[Any]:
        """The unsigned NumPy type that holds one number."""
        bits = 1 + self.exponent_bits + self.mantissa_bits + self.low_bits
        return np.dtype("u1" if bits <= 8 else "u2" if bits <= 16 else "u4")

    @property
    def max(self) -> float:
        """The largest finite number.

        >>> FORMATS["f16"].max, FORMATS["e4m3"].max, FORMATS["e2m1"].max
        (65504.0, 448.0, 6.0)
        """
        return float(_magnitude(self, np.array(self.largest)))


def _ieee(name: str, exponent_bits: int, mantissa_bits: int, nan: int, low_bits: int = 0) -> Format:
    """A format whose last exponent is kept for infinity and NaNs, as in IEEE 754."""
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    bias = (1 << (exponent_bits - 1)) - 1
    return Format(name, exponent_bits, mantissa_bits, bias, infinity - 1, infinity, nan, low_bits)


FORMATS = {
    f.name: f
    for f in (
        _ieee("f32", 8, 23, nan=0x7FFFFFFF),
        _ieee("tf32", 8, 10, nan=0x3FFFF, low_bits=13),
        _ieee("f16", 5, 10, nan=0x7FFF),
        _ieee("bf16", 8, 7, nan=0x7FFF),
        _ieee("e5m2", 5, 2, nan=0x7F),
        Format("e4m3", 4, 3, 7, largest=0x7E, infinity=None, nan=0x7F),
        Format("e3m2", 3, 2, 3, largest=0x1F, infinity=None, nan=None),
        Format("e2m3", 2, 3, 1, largest=0x1F, infinity=None, nan=None),
        Format("e2m1", 2, 1, 1, largest=0x7, infinity=None, nan=None),
        _ieee("e8m13", 8, 13, nan=0x1FFFFF),  # what Hopper's wgmma keeps of an fp8 sum
    )
}
"""The formats by their PTX names.  ``ue8m0``, a scale without sign, has functions of its own."""


def encode(
    name: str,
    value: Array,
    rounding: str = "rn",
    *,
    satfinite: bool = False,
    relu: bool = False,
    random: Array | None = None,
    random_bits: int = 0,
) -> Array:
    """The bits of float values (f16, f32 or f64, any shape), rounded once.

    - Too large a value becomes infinity, or the largest number where the rounding mode
      leads away from infinity (IEEE 754, 7.4); in e4m3, which has none, NaN; in the formats
      with neither, the largest number.
    - ``satfinite``: too large a value, infinity included, becomes the largest number.
    - ``relu``: a negative value becomes +0.
    - NaN becomes the canonical NaN, in a format without NaN the largest positive number.
    - Subnormal results are kept.
    - ``rounding="rs"`` adds ``random`` (integers of ``random_bits`` bits) just below the last
      bit that is kept and drops the rest: it rounds up with the probability of the part lost.

    Source: PTX ISA 9.7.9.21.  Raises ValueError for an unknown format or rounding mode.
    """
    if name == "ue8m0":
        return encode_scale(value, rounding, satfinite=satfinite)
    form = _format(name)
    if rounding not in ROUNDINGS:
        raise ValueError(f"no rounding mode {rounding!r}: it is one of {', '.join(ROUNDINGS)}")
    exact = _as_f64(value)
    negative = np.signbit(exact)
    code = _round(form, exact, negative, rounding, random, random_bits)
    code = np.where(code > form.largest, _overflow(form, negative, rounding, satfinite), code)
    code = np.where(np.isinf(exact), _overflow(form, negative, "rn", satfinite), code)
    code = np.where(negative, code | form.sign_bit, code)
    if relu:
        code = np.where(negative, 0, code)
    not_a_number = np.isnan(exact)
    code = np.where(not_a_number, form.largest if form.nan is None else form.nan, code)
    if form.low_bits:
        low = np.where(not_a_number, (1 << form.low_bits) - 1, 0)
        code = (code << form.low_bits) | low
    return code.astype(form.storage)


def decode(name: str, bits: Array) -> Array:
    """The values of bit patterns, as float32 (exact for every format); any shape.

    A NaN of any pattern becomes the canonical float32 NaN, 0x7FFFFFFF.
    Raises ValueError for an unknown format.
    """
    if name in ("f32", "tf32"):
        mask = 0xFFFFE000 if name == "tf32" else 0xFFFFFFFF  # PTX ISA 5.2.3: the rest is ignored
        wide: Array = (bits & np.uint32(mask)).view(np.float32)
        wide[np.isnan(wide)] = np.uint32(0x7FFFFFFF).view(np.float32)
        return wide
    result: Array = _values(name).take(bits)
    return result


@functools.cache
def _values(name: str) -> Array:
    """The value of every code of a format of at most 16 bits."""
    if name == "ue8m0":
        return decode_scale(np.arange(256, dtype=np.uint8)).astype(np.float32)
    form = _format(name)
    code = np.arange(2 * form.sign_bit)
    magnitude = code & (form.sign_bit - 1)
    value = _magnitude(form, np.minimum(magnitude, form.largest))
    if form.infinity is not None:
        value = np.where(magnitude == form.infinity, np.inf, value)
    values = np.where(code & form.sign_bit, -value, value).astype(np.float32)
    last = form.largest if form.infinity is None else form.infinity
    values.view(np.uint32)[magnitude > last] = 0x7FFFFFFF
    return values


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise ValueError(f"no floating-point format {name!r}: it is one of {', '.join(FORMATS)}")
    return FORMATS[name]


def _as_f64(value: Array) -> Array:
    with np.errstate(invalid="ignore"):  # a signalling NaN
        return np.asarray(value).astype(np.float64)


def _magnitude(form: Format, code: Array) -> Array:
    """The number that a code without sign stands for, were no code special."""
    field = code >> form.mantissa_bits
    fraction = code & ((1 << form.mantissa_bits) - 1)
    significand = np.where(field > 0, fraction + (1 << form.mantissa_bits), fraction)
    exponent = np.maximum(field, 1) - form.bias - form.mantissa_bits
    magnitude: Array = np.ldexp(significand.astype(np.float64), exponent)
    return magnitude


def _round(
    form: Format,
    exact: Array,
    negative: Array,
    rounding: str,
    random: Array | None,
    random_bits: int,
) -> Array:
    """Codes of the magnitudes of float64 values; beyond ``largest`` for values too large."""
    bits = exact.view(np.int64) & 0x7FFFFFFFFFFFFFFF
    field = bits >> 52
    fraction = bits & ((1 << 52) - 1)
    significand = np.where(field > 0, fraction | 1 << 52, fraction)
    exponent = np.maximum(field, 1) - 1023
    # the value is significand * 2**(exponent - 52); a code counts in steps of 2**(scale - m)
    least = 1 - form.bias
    scale = np.maximum(exponent, least)
    # below 2**-62 of the smallest step all values round alike
    far = scale - exponent + 52 - form.mantissa_bits
    dropped = np.minimum(far, 62)
    kept = significand >> dropped
    rest = significand - (kept << dropped)
    half = np.int64(1) << (dropped - 1)
    if rounding == "rn":
        up = (rest > half) | ((rest == half) & (kept & 1 == 1))
    elif rounding == "rna":
        up = rest >= half
    elif rounding == "rs":
        if random is None or random_bits <= 0:
            raise ValueError("rounding 'rs' needs random and random_bits")
        top = rest >> np.clip(far - random_bits, 0, 63) << np.maximum(random_bits - far, 0)
        up = top + random.astype(np.int64) >= 1 << random_bits
    else:
        away = {"rz": np.zeros_like(negative), "rm": negative, "rp": ~negative}[rounding]
        up = away & (rest != 0)
    code: Array = ((scale - least) << form.mantissa_bits) + kept + up
    return code


def _overflow(form: Format, negative: Array, rounding: str, satfinite: bool) -> Array:
    """The code for a magnitude beyond the largest number."""
    beyond = form.infinity
    if beyond is None:
        beyond = form.largest if form.nan is None else form.nan
    if satfinite or rounding == "rz":
        return np.full(negative.shape, form.largest)
    stays = {"rm": ~negative, "rp": negative}.get(rounding, np.zeros_like(negative))
    return np.where(stays, form.largest, beyond)


def encode_scale(value: Array, rounding: str = "rz", *, satfinite: bool = False) -> Array:
    """The ue8m0 scale of float values: the exponent of their magnitude, plus 127.

    A scale has no sign, no zero and no infinity: code ``c`` is 2**(c - 127), and 255 is NaN.
    ``rz`` takes the power of two at or below, ``rp`` the one at or above.  What is below
    2**-127 becomes 2**-127; what is above 2**127 becomes NaN, or 2**127 with ``satfinite``.
    Source: PTX ISA 9.7.9.21.  Raises ValueError for another rounding mode.
    """
    if rounding not in ("rz", "rp"):
        raise ValueError(f"ue8m0 is rounded by 'rz' or 'rp', not {rounding!r}")
    exact = np.abs(_as_f64(value))
    finite = np.where(np.isfinite(exact), exact, 1.0)
    mantissa, exponent = np.frexp(finite)  # finite = mantissa * 2**exponent, 0.5 <= mantissa < 1
    code = exponent.astype(np.int64) - 1 + 127
    if rounding == "rp":
        code += mantissa != 0.5
    code = np.where(finite <= 2.0**-127, 0, code)
    code = np.where(np.isinf(exact), 255, np.clip(code, 0, 255))
    if satfinite:
        code = np.minimum(code, 254)
    return np.where(np.isnan(exact), 255, code).astype(np.uint8)


def decode_scale(bits: Array) -> Array:
    """The float64 values of ue8m0 scales."""
    return np.where(bits == 255, np.nan, np.ldexp(1.0, bits.astype(np.int64) - 127))
