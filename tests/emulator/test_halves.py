"""f16 and bf16, single and in pairs: what arithmetic does with each part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.numbers import halves, numerics

KINDS = ["f16", "bf16", "f16x2", "bf16x2"]
NAN = 0x7FFF
# By kind: 1, -1, 2, the smallest normal number, the largest subnormal and the smallest.
CODES = {
    "f16": (0x3C00, 0xBC00, 0x4000, 0x0400, 0x03FF, 0x0001),
    "bf16": (0x3F80, 0xBF80, 0x4000, 0x0080, 0x007F, 0x0001),
}
INF = {"f16": 0x7C00, "bf16": 0x7F80}


def value(kind: str, low: int, high: int = 0) -> Any:
    """A value of a kind from the bits of its parts."""
    if kind.endswith("x2"):
        return np.array([high << 16 | low], np.uint32)
    bits = np.array([low], np.uint16)
    return bits.view(np.float16) if kind == "f16" else bits


def bits(x: Any, kind: str) -> list[int]:
    return [int(part[0]) for part in halves.parts(x, kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_put_together_again(kind: str) -> None:
    given = value(kind, 0x1234, 0xABCD)
    parts = halves.parts(given, kind)
    assert [int(part[0]) for part in parts] == [0x1234, 0xABCD][: 1 + kind.endswith("x2")]
    again = halves.join(parts, kind)
    assert again.dtype == given.dtype and again.tobytes() == given.tobytes()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_bits_are_numbers(kind: str) -> None:
    one, minus, two, normal, subnormal, tiny = CODES[kind]
    least = {"f16": -14, "bf16": -126}[kind]
    fraction = {"f16": 10, "bf16": 7}[kind]
    codes = np.array([one, minus, two, normal, tiny, subnormal, INF[kind]], np.uint16)
    numbers = [1, -1, 2, 2.0**least, 2.0 ** (least - fraction),
               2.0**least - 2.0 ** (least - fraction), math.inf]  # fmt: skip
    got = halves.decode(codes, kind)
    assert got.tolist() == numbers and got.dtype == np.float64
    assert halves.encode(got, kind).tolist() == codes.tolist()
    for nan in (np.nan, -np.nan):
        assert halves.encode(np.array([nan]), kind).tolist() == [NAN]
    assert np.isnan(halves.decode(np.array([NAN], np.uint16), kind)).all()
    assert ({*KINDS}, {"f16x2", "bf16x2"}) == (halves.HALVES, halves.PACKED)


def plus(a: Any, b: Any) -> Any:
    return numerics.odd_sum(a, b)


@pytest.mark.parametrize("kind", KINDS)
def test_each_part_is_computed_by_itself(kind: str) -> None:
    one, minus, two, *_ = CODES[kind[:-2] if kind.endswith("x2") else kind]
    got = halves.elementwise(plus, kind, (value(kind, one, two), value(kind, one, minus)))
    assert bits(got, kind) == [two, one][: 1 + kind.endswith("x2")]
    twice = halves.elementwise(lambda x: x + x, kind, (value(kind, one, minus),))
    assert bits(twice, kind) == [two, two | 0x8000][: 1 + kind.endswith("x2")]


Given = tuple[str, float, dict[str, bool], float]
CLAMPED: list[Given] = [
    (kind, x, options, wanted)
    for kind in ("f16", "bf16")
    for x, options, wanted in (
        (1.5, {"sat": True}, 1.0), (1.0, {"sat": True}, 1.0), (0.5, {"sat": True}, 0.5),
        (-0.5, {"sat": True}, 0.0), (-0.0, {"sat": True}, 0.0), (math.inf, {"sat": True}, 1.0),
        (-math.inf, {"sat": True}, 0.0), (math.nan, {"sat": True}, 0.0),
        (1.5, {"relu": True}, 1.5), (-0.5, {"relu": True}, 0.0), (-0.0, {"relu": True}, 0.0),
        (math.inf, {"relu": True}, math.inf), (math.nan, {"relu": True}, math.nan),
        (-math.inf, {"relu": True}, 0.0), (-1.5, {}, -1.5), (-0.0, {}, -0.0),
    )
]  # fmt: skip


@pytest.mark.parametrize(("kind", "x", "options", "wanted"), CLAMPED)
def test_what_is_clamped(kind: str, x: float, options: dict[str, bool], wanted: float) -> None:
    given = halves.encode(np.array([x]), kind)
    got = halves.elementwise(lambda y: y, kind, (value(kind, int(given[0])),), **options)
    assert bits(got, kind) == halves.encode(np.array([wanted]), kind).tolist()


@pytest.mark.parametrize(("code", "flushed"), [
    (0x0001, 0), (0x83FF, 0x8000), (0x0400, 0x0400), (0x8400, 0x8400), (0x0000, 0),
    (0x8000, 0x8000),
])  # fmt: skip
def test_subnormal_f16_operands_are_flushed(code: int, flushed: int) -> None:
    def signed(x: Any) -> Any:  # the least normal number with the operand's sign, unless it is 0
        return np.where(x == 0, np.copysign(0.0, x), x)

    given = value("f16", code)
    assert bits(halves.elementwise(signed, "f16", (given,), ftz=True), "f16") == [flushed]
    assert bits(halves.elementwise(signed, "f16", (given,)), "f16") == [code]


@pytest.mark.parametrize(("factor", "code"), [
    (2.0**-14, 0x0400), (2.0**-14 - 2.0**-24, 0), (2.0**-14 - 2.0**-25, 0),
    (2.0**-14 - 2.0**-26, 0x0400), (2.0**-14 - 2.0**-26 - 2.0**-30, 0), (2.0**-20, 0),
    (-(2.0**-20), 0x8000), (-(2.0**-14), 0x8400),
])  # fmt: skip
def test_a_tiny_f16_result_is_flushed_as_if_the_exponent_had_no_limit(
    factor: float, code: int
) -> None:
    got = halves.elementwise(lambda x: x * factor, "f16", (value("f16", 0x3C00),), ftz=True)
    assert bits(got, "f16") == [code]


def least(kind: str, pick: Any, a: float, b: float, **options: bool) -> float:
    """The extreme of two numbers, as a number."""
    given = [value(kind, int(halves.encode(np.array([x]), kind)[0])) for x in (a, b)]
    got = halves.extreme(pick, *given, kind, **options)
    return float(halves.decode(np.array(bits(got, kind), np.uint16), kind)[0])


def text(x: float) -> str:
    return "nan" if math.isnan(x) else repr(x)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize(("a", "b", "options", "smaller", "larger"), [
    (1, 2, {}, 1, 2), (-1, 2, {}, -1, 2), (0.0, -0.0, {}, -0.0, 0.0), (-0.0, 0.0, {}, -0.0, 0.0),
    (-0.0, -0.0, {}, -0.0, -0.0), (0.0, 0.0, {}, 0.0, 0.0), (math.nan, 2, {}, 2, 2),
    (1, math.nan, {}, 1, 1), (math.nan, math.nan, {}, math.nan, math.nan),
    (math.nan, 2, {"nan": True}, math.nan, math.nan), (1, math.nan, {"nan": True}, math.nan,
    math.nan),
    (1, 2, {"nan": True}, 1, 2), (-3, 2, {"xorsign": True}, -2, -3),
    (3, -2, {"xorsign": True}, -2, -3),
    (-3, -2, {"xorsign": True}, 2, 3), (3, 2, {"xorsign": True}, 2, 3),
    (-0.0, 0.0, {"xorsign": True}, -0.0, -0.0), (-0.0, -0.0, {"xorsign": True}, 0.0, 0.0),
    (math.nan, -2, {"xorsign": True, "nan": True}, math.nan, math.nan),
    (-math.inf, 5, {}, -math.inf, 5),
    (math.inf, 5, {}, 5, math.inf),
])  # fmt: skip
def test_the_smaller_and_the_larger(
    kind: str, a: float, b: float, options: dict[str, bool], smaller: float, larger: float
) -> None:
    for pick, wanted in ((np.fmin, smaller), (np.fmax, larger)):
        assert text(least(kind, pick, a, b, **options)) == text(float(wanted))


def test_extremes_of_flushed_operands_and_of_pairs() -> None:
    pick: Callable[..., Any] = np.fmax
    assert least("f16", pick, 2.0**-20, 0.0) == 2.0**-20
    assert least("f16", pick, 2.0**-20, 0.0, ftz=True) == 0.0
    one, minus, two, *_ = CODES["f16"]
    pair = halves.extreme(np.fmin, value("f16x2", one, minus), value("f16x2", two, two), "f16x2")
    assert bits(pair, "f16x2") == [one, minus]
