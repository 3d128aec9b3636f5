"""Small floating-point formats, against brute force over their numbers and against ml_dtypes.

The oracle here never computes a code: it lists every number of a format with
``Fraction``s, straight from the definition, and picks the nearest (or the next
below, or above) by comparing.
"""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from phasebit.emulator.numbers import formats
from phasebit.emulator.numbers.formats import FORMATS, Format, decode, encode

try:
    import ml_dtypes
except ModuleNotFoundError:
    ml_dtypes = None

SMALL = ("e5m2", "e4m3", "e3m2", "e2m3", "e2m1")
ALL = ("tf32", "f16", "bf16", *SMALL)

# name: exponent bits, mantissa bits, bias, codes above the largest number
DEFINITION = {
    "tf32": (8, 10, 127, 1 << 10),
    "f16": (5, 10, 15, 1 << 10),
    "bf16": (8, 7, 127, 1 << 7),
    "e5m2": (5, 2, 15, 4),  # FP8 Formats for Deep Learning, table 1
    "e4m3": (4, 3, 7, 1),
    "e3m2": (3, 2, 3, 0),  # OCP Microscaling Formats, table 1
    "e2m3": (2, 3, 1, 0),
    "e2m1": (2, 1, 1, 0),
}


@functools.cache
def numbers(name: str) -> list[Fraction]:
    """Every non-negative finite number of a format, in order of its code."""
    exponent_bits, mantissa_bits, bias, special = DEFINITION[name]
    result = []
    for code in range((1 << (exponent_bits + mantissa_bits)) - special):
        field, fraction = divmod(code, 1 << mantissa_bits)
        one = Fraction(1) if field else Fraction(0)
        significand = one + Fraction(fraction, 1 << mantissa_bits)
        result.append(significand * Fraction(2) ** (max(field, 1) - bias))
    return result


@functools.cache
def scale_of(name: str) -> list[Fraction]:
    """The numbers of a format, and what the next one would be."""
    values = numbers(name)
    return [*values, values[-1] + (values[-1] - values[-2])]


def rounded(name: str, x: Fraction, rounding: str) -> int | None:
    """The code that a positive ``x`` rounds to; None when it overflows."""
    scale = scale_of(name)
    largest = len(scale) - 2
    below = bisect.bisect_right(scale, x) - 1
    if below > largest:
        return None if rounding != "down" else largest
    if scale[below] == x or rounding == "down":
        return below
    middle = (scale[below] + scale[below + 1]) / 2
    up = rounding == "up" or x > middle
    if x == middle and rounding != "up":
        up = rounding == "away" or below % 2 == 1
    code = below + up
    return code if code <= largest else None


def samples(name: str) -> np.ndarray:
    """Values where rounding may go wrong: numbers, the middles between them, their neighbours."""
    values = numbers(name)
    if len(values) > 256:
        rng = np.random.default_rng(7)
        picks = {0, 1, 2, 3, len(values) - 2, len(values) - 1, *rng.integers(0, len(values), 60)}
        m = 1 << DEFINITION[name][1]
        picks |= {m - 1, m, m + 1, 2 * m - 1, 2 * m}
        chosen = sorted(int(p) for p in picks)
    else:
        chosen = list(range(len(values)))
    top = values[-1] + (values[-1] - values[-2])
    points = []
    for code in chosen:
        here = values[code]
        after = values[code + 1] if code + 1 < len(values) else top
        for part in (Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3)):
            points.append(float(here + part * (after - here)))
    points += [float(top), 2 * float(top), 5e-324, 1e-300, 1e300]
    centre = np.array(points)
    near = np.concatenate([np.nextafter(centre, np.inf), np.nextafter(centre, -np.inf), centre])
    return np.concatenate([near, -near])


MODES = {"rn": ("even", "even"), "rz": ("down", "down"), "rm": ("down", "up"),
         "rp": ("up", "down"), "rna": ("away", "away")}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_every_code_has_the_value_of_the_definition(name: str) -> None:
    form = FORMATS[name]
    values = numbers(name)
    codes = np.arange(len(values)).astype(form.storage) << form.low_bits
    assert [Fraction(float(x)) for x in decode(name, codes)] == values
    negative = decode(name, (codes | (form.sign_bit << form.low_bits)).astype(form.storage))
    assert [Fraction(-float(x)) for x in negative] == values
    assert np.signbit(negative).all()
    assert form.max == float(values[-1])


@pytest.mark.parametrize("rounding", MODES)
@pytest.mark.parametrize("name", ALL)
def test_rounding_against_the_ordered_list_of_numbers(name: str, rounding: str) -> None:
    form = FORMATS[name]
    points = samples(name)
    got = encode(name, points, rounding)
    kept = encode(name, points, rounding, satfinite=True)
    for x, code, saturated in zip(points, got, kept, strict=True):
        sign = form.sign_bit if np.signbit(x) else 0
        want = rounded(name, abs(Fraction(float(x))), MODES[rounding][int(x < 0)])
        finite = want if want is not None else form.largest
        assert saturated >> form.low_bits == finite | sign, (x, rounding)
        if want is None:
            over = form.nan if form.infinity is None else form.infinity
            want = form.largest if over is None else over
        assert code >> form.low_bits == want | sign, (x, rounding)


@pytest.mark.parametrize("name", ALL)
def test_every_number_survives_the_way_there_and_back(name: str) -> None:
    form = FORMATS[name]
    codes = (np.arange(form.largest + 1) << form.low_bits).astype(form.storage)
    for rounding in ("rn", "rz", "rm", "rp", "rna"):
        np.testing.assert_array_equal(encode(name, decode(name, codes), rounding), codes)


def test_an_f32_input_is_rounded_once() -> None:
    """Just above the middle of two f16: rounded to f32 first, it would fall on the middle."""
    x = np.array([1 + 2.0**-11 + 2.0**-23], np.float32)
    assert encode("f16", x)[0] == 0x3C01
    via_f32 = np.array([1 + 2.0**-11 + 2.0**-40])
    assert encode("f16", via_f32)[0] == 0x3C01
    assert encode("f16", via_f32.astype(np.float32))[0] == 0x3C00  # the double rounding


@pytest.mark.parametrize("name", ("f16", "f32"))
def test_numpy_agrees_on_every_f16_and_on_random_f32(name: str) -> None:
    rng = np.random.default_rng(3)
    if name == "f16":
        codes = np.arange(65536).astype(np.uint16)
        want = codes.view(np.float16).astype(np.float32)
        numbers_only = ~np.isnan(want)
        np.testing.assert_array_equal(decode("f16", codes)[numbers_only], want[numbers_only])
        x = rng.integers(0, 1 << 32, 200_000, np.uint32).view(np.float32)
        x = x[~np.isnan(x)]
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(encode("f16", x), x.astype(np.float16).view(np.uint16))
    else:
        x = rng.integers(0, 1 << 63, 200_000, np.int64).view(np.float64)
        x = np.concatenate([x, rng.normal(size=100_000) * 2.0 ** rng.integers(-152, 130, 100_000)])
        x = x[~np.isnan(x)]
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(encode("f32", x), x.astype(np.float32).view(np.uint32))


ML_NAMES = {"bf16": "bfloat16", "e5m2": "float8_e5m2", "e4m3": "float8_e4m3fn",
            "e3m2": "float6_e3m2fn", "e2m3": "float6_e2m3fn", "e2m1": "float4_e2m1fn"}  # fmt: skip


@pytest.mark.parametrize("name", ML_NAMES)
def test_ml_dtypes_agrees(name: str) -> None:
    if ml_dtypes is None:
        pytest.skip("ml_dtypes is not installed: this oracle was NOT asked")
    form = FORMATS[name]
    other = getattr(ml_dtypes, ML_NAMES[name])
    codes = np.arange(2 * form.sign_bit).astype(form.storage)
    want = codes.view(other).astype(np.float32)
    got = decode(name, codes)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~np.isnan(got)], want[~np.isnan(got)])
    rng = np.random.default_rng(5)
    x = (rng.normal(size=100_000) * 2.0 ** rng.integers(-20, 17, 100_000)).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        bits = x.astype(other).view(form.storage)
    np.testing.assert_array_equal(encode(name, x), bits)


@pytest.mark.parametrize("name", ALL)
def test_nan_becomes_the_canonical_nan(name: str) -> None:
    """PTX ISA 9.7.9.21: 0x7FFF (f16, bf16), 0x7F (fp8), positive MAX_NORM where there is none."""
    canonical = {"tf32": 0x7FFFFFFF, "f16": 0x7FFF, "bf16": 0x7FFF, "e5m2": 0x7F, "e4m3": 0x7F,
                 "e3m2": 0x1F, "e2m3": 0x1F, "e2m1": 0x7}[name]  # fmt: skip
    nans = np.array([0x7FC00000, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    for relu in (False, True):
        for satfinite in (False, True):
            got = encode(name, nans, relu=relu, satfinite=satfinite)
            assert (got == canonical).all()
    if FORMATS[name].nan is not None:
        back = decode(name, encode(name, nans)).view(np.uint32)
        assert (back == 0x7FFFFFFF).all()


@pytest.mark.parametrize("name", ALL)
def test_infinity_and_relu(name: str) -> None:
    form = FORMATS[name]
    infinities = np.array([np.inf, -np.inf])
    top, bottom = encode(name, infinities, satfinite=True)
    assert decode(name, np.array([top, bottom])).tolist() == [form.max, -form.max]
    if form.infinity is not None:
        for rounding in ("rn", "rz", "rm", "rp"):
            back = decode(name, encode(name, infinities, rounding))
            assert back.tolist() == [math.inf, -math.inf]
    x = np.array([-1.0, -0.0, 0.0, 1.0, -np.inf])
    assert decode(name, encode(name, x, relu=True)).tolist() == [0, 0, 0, 1, 0]
    assert not np.signbit(decode(name, encode(name, x, relu=True))).any()


def test_stochastic_rounding_adds_the_random_bits_below_the_last_kept() -> None:
    """x + 5/16 of a step goes up for exactly 5 of the 16 values of four random bits."""
    x = np.full(16, 1 + 5 / 16 * 2.0**-10)
    got = encode("f16", x, "rs", random=np.arange(16), random_bits=4)
    assert (got == 0x3C01).sum() == 5
    assert (got[:11] == 0x3C00).all()
    subnormal = np.full(16, 2.0**-24 * 3 / 16)
    assert encode("f16", subnormal, "rs", random=np.arange(16), random_bits=4).sum() == 3
    exact = np.full(16, 1.5)
    assert (encode("f16", exact, "rs", random=np.arange(16), random_bits=4) == 0x3E00).all()
    with pytest.raises(ValueError, match="needs random"):
        encode("f16", exact, "rs")


def test_ue8m0_is_the_exponent_alone() -> None:
    """The rules of PTX ISA 9.7.9.21, case by case: (value, rz, rp, rp.satfinite)."""
    cases = [
        (1.0, 127, 127, 127),
        (1.5, 127, 128, 128),
        (-1.5, 127, 128, 128),  # no sign
        (0.0, 0, 0, 0),  # no zero: the smallest scale
        (2.0**-127, 0, 0, 0),
        (2.0**-127 * 1.5, 0, 1, 1),
        (2.0**-149, 0, 0, 0),
        (2.0**127, 254, 254, 254),
        (2.0**127 * 1.5, 254, 255, 254),
        (np.inf, 255, 255, 254),
        (np.nan, 255, 255, 255),
    ]
    value = np.array([c[0] for c in cases], np.float32)
    assert encode("ue8m0", value, "rz").tolist() == [c[1] for c in cases]
    assert encode("ue8m0", value, "rp").tolist() == [c[2] for c in cases]
    assert encode("ue8m0", value, "rp", satfinite=True).tolist() == [c[3] for c in cases]
    codes = np.arange(255).astype(np.uint8)
    np.testing.assert_array_equal(encode("ue8m0", decode("ue8m0", codes), "rz"), codes)
    np.testing.assert_array_equal(
        formats.decode_scale(codes), [2.0 ** (c - 127) for c in range(255)]
    )
    with pytest.raises(ValueError, match="'rz' or 'rp'"):
        encode("ue8m0", value, "rn")


def test_a_wrong_name_is_an_error_that_lists_the_right_ones() -> None:
    with pytest.raises(ValueError, match="e4m3"):
        encode("e4m4", np.zeros(1))
    with pytest.raises(ValueError, match="rounding mode 'rx'"):
        encode("f16", np.zeros(1), "rx")


@pytest.mark.parametrize("field", ("bias", "mantissa_bits", "largest"))
def test_the_oracle_catches_a_wrong_table(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake in the table of formats must not pass."""
    right = FORMATS["e4m3"]
    fields = {f: getattr(right, f) for f in Format.__dataclass_fields__}
    monkeypatch.setitem(FORMATS, "e4m3", Format(**fields | {field: fields[field] - 1}))
    formats._values.cache_clear()
    try:
        with pytest.raises((AssertionError, ValueError)):
            test_every_code_has_the_value_of_the_definition("e4m3")
            test_rounding_against_the_ordered_list_of_numbers("e4m3", "rn")
    finally:
        monkeypatch.undo()
        formats._values.cache_clear()


@pytest.mark.parametrize(
    ("name", "bias", "one", "most"),
    [("f32", 127, 0x3F800000, 3.4028234663852886e38), ("tf32", 127, 0x3F800000, 3.40116e38),
     ("f16", 15, 0x3C00, 65504.0), ("bf16", 127, 0x3F80, 3.3895313892515355e38),
     ("e5m2", 15, 0x3C, 57344.0), ("e4m3", 7, 0x38, 448.0), ("e3m2", 3, 0xC, 28.0),
     ("e2m3", 1, 0x8, 7.5), ("e2m1", 1, 0x2, 6.0), ("e8m13", 127, 0xFE000, 3.40262e38)],
)  # fmt: skip
def test_bias_the_code_of_one_and_the_largest(name: str, bias: int, one: int, most: float) -> None:
    form = FORMATS[name]
    assert form.bias == bias and form.max == pytest.approx(most, rel=1e-5)
    assert encode(name, np.array([1.0])).tolist() == [one]
    assert decode(name, np.array([one], form.storage)).tolist() == [1.0]
