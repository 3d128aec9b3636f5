"""Formats and error bounds: against NumPy's own formats, exact arithmetic, and worst cases."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phasebit import rounding

ANY = st.floats(width=64, allow_nan=True)


@given(ANY)
@pytest.mark.parametrize(("name", "kind"), [("f16", np.float16), ("f32", np.float32)])
def test_rounding_agrees_with_numpy(name: str, kind: type, x: float) -> None:
    with np.errstate(over="ignore"):
        expected = np.float64(kind(x))
    assert np.array_equal(rounding.round_to(x, name), expected, equal_nan=True)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bf16_is_the_upper_half_of_f32(x: float) -> None:
    """Ties to even, by the bits: what is cut off is added as a carry."""
    bits = int(np.float32(x).view(np.uint32))
    bits += 0x7FFF + (bits >> 16 & 1)
    expected = np.uint32(bits & 0xFFFF0000).view(np.float32)
    assert rounding.round_to(x, "bf16") == np.float64(expected)


@pytest.mark.parametrize("name", rounding.FORMATS)
def test_the_unit_roundoff_is_reached_and_not_passed(name: str) -> None:
    u = rounding.unit(name)
    draw = np.random.default_rng()
    x = draw.uniform(1, 2, 10_000)
    assert np.max(np.abs(rounding.round_to(x, name) - x) / x) <= u
    if name != "f64":
        assert rounding.round_to(1 + u, name) == 1  # the tie goes to even
        assert rounding.round_to(1 + 1.001 * u, name) == 1 + 2 * u


def test_gamma() -> None:
    assert rounding.gamma(0, 0.5) == 0 and rounding.gamma(1, 0.25) == pytest.approx(1 / 3)
    for terms, u in ((4, 0.25), (256, 2**-8), (-1, 0.1)):
        with pytest.raises(ValueError, match="no bound"):
            rounding.gamma(terms, u)
    with pytest.raises(ValueError, match="unknown format 'fp8'"):
        rounding.product_bound(8, sums="fp8")


@pytest.mark.parametrize("sums", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("output", ["bf16", "f32"])
def test_a_correct_sum_keeps_the_bound_in_any_order(sums: str, output: str) -> None:
    draw = np.random.default_rng()
    for K in (1, 2, 7, 100):
        a, b = (rounding.round_to(draw.normal(size=K), "bf16") for _ in range(2))
        exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True))
        scale = math.fsum(abs(a * b))
        order = draw.permutation(K)
        total = 0.0
        for i in order:
            total = float(rounding.round_to(total + rounding.round_to(a[i] * b[i], sums), sums))
        stored = float(rounding.round_to(total, output))
        bound = rounding.product_bound(K, sums=sums, output=output)
        assert abs(Fraction(stored) - exact) <= bound * scale


def test_the_bound_is_no_larger_than_it_must_be() -> None:
    """One product, rounded once: u is reached up to its second order."""
    x = 1 + 2.0**-24  # its f32 neighbours are 1 and 1 + 2⁻²³
    error = abs(float(np.float32(x)) - x)
    assert 0.99 * rounding.product_bound(1) < error / x <= rounding.product_bound(1)
    assert rounding.product_bound(8, cut=True) == pytest.approx(
        rounding.gamma(8, 2.0**-23)
    )
    assert rounding.product_bound(8, output="f16") > rounding.unit("f16")
    assert rounding.product_bound(8, inputs="bf16") > 2 * rounding.unit("bf16")


def test_nan_is_wrong() -> None:
    exact, allowed = np.zeros(4), np.full(4, 0.5)
    got = np.array([0.4, np.nan, -np.inf, -0.6])
    assert rounding.wrong(got, exact, allowed).tolist() == [False, True, True, True]
    with pytest.raises(ValueError, match=r"shape \(4,\), the reference \(1,\)"):
        rounding.wrong(got, [0.0], 1.0)


def test_check_names_the_first_wrong_element() -> None:
    draw = np.random.default_rng()
    A, B = draw.normal(size=(5, 300)), draw.normal(size=(300, 3))
    A32, B32 = A.astype(np.float32), B.astype(np.float32)
    got = A32 @ B32
    assert rounding.check(got, A32, B32) == "OK"
    got[4, 1] = np.nan
    assert rounding.check(got, A32, B32) == "WRONG: 1 of 15 elements, the first at (4, 1)"
    assert rounding.check(A32[:, :299] @ B32[:299], A32, B32).startswith("WRONG")
    bf16 = rounding.round_to(A32.astype(np.float64) @ B32, "bf16")
    assert rounding.check(bf16, A32, B32).startswith("WRONG")
    assert rounding.check(bf16, A32, B32, output="bf16") == "OK"
