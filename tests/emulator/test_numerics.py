"""Rounding one number or many, against fractions: sums, products, fused, short formats, zeros."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.numbers import numerics
from phasebit.emulator.numbers.numerics import NAN32, NAN64, fma32, fma64, odd_sum, round32

ROUNDINGS = ("rn", "rz", "rm", "rp")
NAN = 0x7FFFFFFF


def nearest(x: Fraction, kind: Any, rounding: str) -> Any:
    """A fraction that is not 0 as a number of a NumPy type, by looking at its two neighbours."""
    info = np.finfo(kind)
    most, size = Fraction(float(info.max)), abs(x)
    # Of the magnitude: the number at or below, and the next; the one after the last is infinity.
    if size > most:
        below, above = info.max, kind(math.inf)
    else:
        with np.errstate(over="ignore"):
            below = kind(min(float(size), float(info.max)))
        while Fraction(float(below)) > size:
            below = np.nextafter(below, kind(0))
        while below < info.max and Fraction(float(np.nextafter(below, info.max))) <= size:
            below = np.nextafter(below, info.max)
        with np.errstate(over="ignore"):
            above = np.nextafter(below, kind(math.inf))
    low = Fraction(float(below))
    step = most - Fraction(float(np.nextafter(info.max, kind(0))))
    high = most + step if above == math.inf else Fraction(float(above))
    if rounding == "rn":
        even = int(below.view(f"u{below.itemsize}")) % 2 == 0
        up = size - low > high - size or (size - low == high - size and not even)
    else:
        up = size != low and rounding == ("rm" if x < 0 else "rp")
    chosen = above if up else below
    return -chosen if x < 0 else chosen


def same(got: Any, wanted: Any) -> bool:
    """Bit by bit."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    return got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes()


TINY, LEAST, MOST = 2.0**-149, 2.0**-126, float(np.finfo(np.float32).max)
EDGES = [0.0, 1.0, 3.0, 1 + 2.0**-23, 1 - 2.0**-24, TINY, 3 * TINY, LEAST, LEAST - TINY, MOST,
         MOST / 2, 2.0**-63, 3 * 2.0**-74, 2.0**100]  # fmt: skip
SIGNED = [x for edge in EDGES for x in (edge, -edge)]
MIDDLES = [1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-52, 1 + 2.0**-24 - 2.0**-53, 1.5 * TINY, TINY / 2,
           TINY / 2 + 2.0**-200, TINY / 4, MOST + 2.0**102, MOST + 2.0**103, MOST + 2.0**104,
           MOST + 2.0**103 - 2.0**75]  # fmt: skip


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_an_f64_number_becomes_the_f32_number_that_is_asked_for(rounding: str) -> None:
    points = np.array([x for each in (*MIDDLES, *EDGES[1:]) for x in (each, -each)])
    with np.errstate(over="ignore"):
        got = round32(points, rounding)
        for x, one in zip(points, got, strict=True):
            wanted = nearest(Fraction(float(x)), np.float32, rounding)
            assert same(one, wanted) and same(round32(np.float64(x), rounding), wanted), x


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_sums_and_products_of_f32_in_every_direction(rounding: str) -> None:
    pairs = np.array([*itertools.product(SIGNED, SIGNED)], np.float32)
    a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
    with np.errstate(all="ignore"):
        if rounding == "rn":
            sums, products = a + b, a * b
        else:
            sums, products = numerics.add32(a, b, rounding), numerics.mul32(a, b, rounding)
    for x, y, total, product in zip(a, b, sums, products, strict=True):
        exact = Fraction(float(x)) + Fraction(float(y))
        if exact:
            assert same(total, nearest(exact, np.float32, rounding)), (x, y)
        elif x != 0 or np.signbit(x) != np.signbit(y):
            assert same(total, np.float32(-0.0 if rounding == "rm" else 0.0)), (x, y)
        else:
            assert same(total, x)
        exact = Fraction(float(x)) * Fraction(float(y))
        if exact:
            assert same(product, nearest(exact, np.float32, rounding)), (x, y)
        else:
            assert product == 0 and np.signbit(product) == (np.signbit(x) != np.signbit(y))


FUSED = [
    (1 + 2.0**-12, 1 + 2.0**-12, -1.0), (1 + 2.0**-23, 1 + 2.0**-23, TINY), (3.0, 1.0, -3.0),
    (1 + 2.0**-12, 1 - 2.0**-12, TINY), (1 + 2.0**-12, 1 - 2.0**-12, -TINY), (-3.0, 1.0, 3.0),
    (1 + 2.0**-12, 1 + 2.0**-12, 2.0**-24), (2.0**-75, 2.0**-75, TINY), (2.0**-75, 2.0**-75, 0.0),
    (2.0**-75, -(2.0**-75), LEAST), (2.0**-100, 2.0**-26, 3 * TINY), (2.0**64, 2.0**64, -MOST),
    (2.0**64, 2.0**63, MOST), (2.0**63, 2.0**40, MOST), (0.0, -1.0, 0.0), (0.0, 1.0, -0.0),
    (0.0, -1.0, -0.0), (LEAST, 1.0, -TINY), (LEAST, 0.5, -TINY), (1.0, LEAST, 2.0**-200),
    (1 + 2.0**-23, 1.0, 2.0**-24), (1.0, 1.0, 2.0**-24), (2.0**-60, 2.0**-60, 1.0),
    (2.0**-60, -(2.0**-60), 1 + 2.0**-23), (1.5, TINY, 0.0), (2.5, TINY, 0.0),
]  # fmt: skip


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_a_fused_product_and_sum_is_rounded_once(rounding: str) -> None:
    given = np.array([*FUSED, *((-a, b, -c) for a, b, c in FUSED)], np.float32)
    a, b, c = (given[:, i].copy() for i in range(3))
    with np.errstate(all="ignore"):
        many = fma32(a, b, c, rounding)
        for x, y, z, one in zip(a, b, c, many, strict=True):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            if exact:
                wanted = nearest(exact, np.float32, rounding)
            else:
                agree = np.signbit(x) ^ np.signbit(y) == np.signbit(z)
                wanted = np.float32(0) if agree else np.float32(-0.0 if rounding == "rm" else 0.0)
                wanted = np.copysign(wanted, z) if agree else wanted
            assert same(one, wanted), (x, y, z)
            assert same(fma32(x, y, z, rounding), wanted), (x, y, z)
            assert same(
                fma32(a[:3], b[:3], z, rounding), fma32(a[:3], b[:3], np.full(3, z), rounding)
            )


def test_a_fused_sum_gives_the_one_nan_of_hardware() -> None:
    inf = np.float32(np.inf)
    nan = np.uint32(0xFFC00001).view(np.float32)
    one = np.float32(1)
    with np.errstate(invalid="ignore"):
        for a, b, c in ((nan, one, one), (one, nan, one), (one, one, nan),
                        (inf, np.float32(0), one), (inf, one, -inf)):  # fmt: skip
            assert fma32(a, b, c).view(np.uint32) == NAN
            many = fma32(np.array([a, one]), np.array([b, one]), np.array([c, one]))
            assert many.view(np.uint32).tolist() == [NAN, 0x40000000]
        assert fma32(np.array([inf]), np.array([one]), one)[0] == inf


WIDE = [(1 + 2.0**-30, 1 + 2.0**-30, -1.0), (1 + 2.0**-52, 1 + 2.0**-52, -1 - 2.0**-51),
        (2.0**-537, 2.0**-537, 2.0**-1074), (2.0**-538, 2.0**-537, 0.0), (3.0, 2.0**-1074, 0.0),
        (2.0**600, 2.0**600, -math.inf), (2.0**600, -(2.0**600), 1.0),
        (2.0**512, 2.0**511, 2.0**1022),
        (1e160, 1e-160, -1.0), (1e-160, 1e-100, 1e-260), (2.0**-538, -(2.0**-537), 0.0),
        (1.0, 1.0, 1e301), (1e301, 1.0, 1e285), (1 + 2.0**-52, 1.0, 2.0**-53), (3.0, 1.0, -3.0),
        (1.0, 1 + 2.0**-52, 2.0**-53), (1.0, 1.0, 2.0**-53 + 2.0**-105), (1.0, 1.0, 2.0**-54),
        (0.0, 1.0, -0.0), (0.0, -1.0, 0.0), (0.0, 5.0, 7.0), (1e-151, 1e10, 3.0)]  # fmt: skip


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_an_f64_fused_product_and_sum_is_rounded_once(rounding: str) -> None:
    given = np.array([*WIDE, *((-a, b, -c) for a, b, c in WIDE)])
    a, b, c = (given[:, i].copy() for i in range(3))
    with np.errstate(all="ignore"):
        many = fma64(a, b, c, rounding)
        for x, y, z, one in zip(a, b, c, many, strict=True):
            alone = fma64(np.float64(x), np.float64(y), np.float64(z), rounding)
            assert same(alone, np.float64(one)), (x, y, z)
            if not math.isfinite(z):
                assert one == z
                continue
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            if exact:
                assert same(one, nearest(exact, np.float64, rounding)), (x, y, z)
            elif (np.signbit(x) ^ np.signbit(y)) == np.signbit(z):
                assert one == 0 and np.signbit(one) == np.signbit(z)
            else:
                assert one == 0 and np.signbit(one) == (rounding == "rm"), (x, y, z)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_a_fraction_is_rounded_to_every_format(kind: Any, rounding: str) -> None:
    info = np.finfo(kind)
    tiny, most, eps = (Fraction(float(x)) for x in (info.smallest_subnormal, info.max, info.eps))
    gap = most - Fraction(float(np.nextafter(info.max, kind(0))))
    third = Fraction(1, 3)
    points = [third, 1 + eps / 2, 1 + 3 * eps / 2, 1 + eps / 2 + third**40, 2 - eps / 4,
              Fraction(7), tiny, tiny / 2, tiny / 2 + tiny * third**40, 3 * tiny / 2, tiny / 5,
              most,
              most + gap / 2, most + gap / 2 - gap * third, most + gap, 2 * most, 1 - eps / 4,
              Fraction(2) ** 14, 2**14 + third, Fraction(2) ** -14 - tiny / 2]  # fmt: skip
    for x in (sign * each for each in points for sign in (1, -1)):
        assert same(
            numerics.round_fraction(x, np.dtype(kind), rounding), nearest(x, kind, rounding)
        ), x


def test_a_sum_rounded_to_odd_keeps_what_was_cut_off() -> None:
    cases = [
        (1.0, 2.0**-60, 1 + 2.0**-52), (1.0, -(2.0**-60), 1 - 2.0**-53),
        (-1.0, 2.0**-60, -1 + 2.0**-53),
        (-1.0, -(2.0**-60), -1 - 2.0**-52), (1 + 2.0**-52, 2.0**-60, 1 + 2.0**-52),
        (1.0, 1.0, 2.0), (1.0, -1.0, 0.0), (1 + 2.0**-51, 2.0**-53, 1 + 3 * 2.0**-52),
        (1 + 2.0**-51, -(2.0**-60), 1 + 2.0**-52), (math.inf, 1.0, math.inf),
    ]  # fmt: skip
    with np.errstate(invalid="ignore"):
        for a, b, wanted in cases:
            assert same(odd_sum(np.float64(a), np.float64(b)), np.float64(wanted)), (a, b)
        given = np.array(cases)
        assert same(odd_sum(given[:, 0], given[:, 1]), given[:, 2].copy())


def test_an_f32_number_rounded_to_odd() -> None:
    for x, wanted in ((1.0, 0x3F800000), (1 + 2.0**-24, 0x3F800001), (1 + 2.0**-23, 0x3F800001),
                      (1 + 3 * 2.0**-24, 0x3F800001), (-1 - 2.0**-40, 0xBF800001),
                      (2.0**-160, 0x00000001), (math.inf, 0x7F800000), (0.0, 0)):  # fmt: skip
        assert numerics.odd32(np.float64(x)).view(np.uint32) == wanted, x
    assert numerics.odd32(np.array([1 + 2.0**-24, 2.0])).view(np.uint32).tolist() == [
        0x3F800001, 0x40000000
    ]  # fmt: skip


@pytest.mark.parametrize(("bits", "short"), [
    (0x3F800000, 0x3F80), (0x3F808000, 0x3F80), (0x3F818000, 0x3F82), (0x3F808001, 0x3F81),
    (0x3F807FFF, 0x3F80), (0x7F7FFFFF, 0x7F80), (0xFF800000, 0xFF80), (0x7F800001, 0x7FFF),
    (0xFFFFFFFF, 0x7FFF), (0x80000000, 0x8000), (0x00008001, 0x0001),
])  # fmt: skip
def test_f32_to_bf16_and_back(bits: int, short: int) -> None:
    number = np.uint32(bits).view(np.float32)
    with np.errstate(over="ignore"):  # of a NaN's bits
        got = numerics.f32_to_bf16(number)
    assert got == short and got.dtype == np.uint16
    assert numerics.f32_to_bf16(np.array([number])).tolist() == [short]
    if bits & 0xFFFF == 0:
        assert numerics.bf16_to_f32(np.uint16(short)).view(np.uint32) == bits
    if number == number:
        assert numerics.f64_to_bf16(np.float64(number)) == short


def test_f64_to_bf16_is_rounded_once() -> None:
    middle = 1 + 2.0**-8
    for x, short in ((middle, 0x3F80), (middle + 2.0**-50, 0x3F81), (middle - 2.0**-50, 0x3F80)):
        assert numerics.f64_to_bf16(np.float64(x)) == short


def test_the_patterns_of_nan() -> None:
    assert NAN32.view(np.uint32) == NAN and NAN64.view(np.uint64) == 0xFFF8000000000000
    odd = np.uint32(0xFFC00001).view(np.float32)
    assert numerics.canonical(odd).view(np.uint32) == NAN
    given = np.array([odd, 1, np.inf], np.float32)
    assert numerics.canonical(given).view(np.uint32).tolist() == [NAN, 0x3F800000, 0x7F800000]
    plain = np.array([1, 2], np.float32)
    assert numerics.canonical(plain) is plain and numerics.canonical(np.float32(2)) == 2


@pytest.mark.parametrize("pick", [np.fmin, np.fmax])
def test_a_number_is_preferred_to_nan(pick: Any) -> None:
    nan, one, two = np.float32(np.nan), np.float32(1), np.float32(2)
    prefer = numerics.prefer_number
    assert prefer(pick, one, two) == pick(one, two) and prefer(pick, two, one) == pick(one, two)
    assert prefer(pick, nan, two) == 2 and prefer(pick, one, nan) == 1
    assert np.isnan(prefer(pick, nan, nan))
    got = prefer(pick, np.array([nan, one, two]), np.array([two, nan, one]))
    assert got.tolist() == [2, 1, pick(one, two)]


@pytest.mark.parametrize(("before", "after"), [
    (0x00000001, 0), (0x807FFFFF, 0x80000000), (0x00800000, 0x00800000), (0x80000000, 0x80000000),
    (0x7F800001, 0x7F800001), (0x3F800000, 0x3F800000), (0x80800001, 0x80800001),
])  # fmt: skip
def test_what_is_flushed_to_zero_in_f32(before: int, after: int) -> None:
    number = np.uint32(before).view(np.float32)
    assert numerics.flush(number).view(np.uint32) == after
    assert numerics.flush(np.array([number])).view(np.uint32).tolist() == [after]


@pytest.mark.parametrize(("before", "after"), [
    (0x0001, 0), (0x83FF, 0x8000), (0x0400, 0x0400), (0x8000, 0x8000), (0x7C01, 0x7C01),
    (0x8401, 0x8401),
])  # fmt: skip
def test_what_is_flushed_to_zero_in_f16(before: int, after: int) -> None:
    assert numerics.flush16(np.uint16(before).view(np.float16)).view(np.uint16) == after


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_saturated_is_from_0_to_1_and_nan_is_0(kind: Any) -> None:
    given = np.array([-1, -0.0, 0, 0.25, 1, 1.5, np.inf, -np.inf, np.nan], kind)
    got = numerics.saturate(given)
    assert same(got, np.array([0, 0, 0, 0.25, 1, 1, 1, 0, 0], kind))
    for x, one in zip(given, got, strict=True):
        assert same(numerics.saturate(x), one)


def test_fractions_answer_only_where_all_is_finite_and_not_zero() -> None:
    a = np.array([1.0, np.inf, 2.0, np.nan])
    b = np.array([3.0, 1.0, 0.0, 1.0])
    native = np.array([9.0, 8.0, 7.0, 6.0])
    got = numerics.exactly(lambda x, y: x * y, "rn", "f8", native, a, b)
    assert got.tolist() == [3.0, 8.0, 7.0, 6.0]
    none = numerics.exactly(lambda x, y: None, "rn", "f8", native, a, b)
    assert none.tolist() == native.tolist()
    one = numerics.exactly(
        lambda x, y: x / y, "rp", "f4", np.float32(0), np.float32(1), np.float32(3)
    )
    assert same(one, nearest(Fraction(1, 3), np.float32, "rp"))
    alike = numerics.exactly(lambda x, y: x + y, "rn", "f8", np.zeros(2), np.float64(1), np.ones(2))
    assert alike.tolist() == [2.0, 2.0]
