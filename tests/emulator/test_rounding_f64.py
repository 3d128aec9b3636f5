"""Rounding in f64 and to f32: a·b + c of what is no number or has no bound, and directions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from phasebit.emulator.numbers.numerics import fma64, round32

INF, NAN = math.inf, math.nan
CASES = [
    (INF, 1.0, 2.0, INF), (1.0, -INF, 2.0, -INF), (INF, 0.0, 2.0, NAN), (1.0, 2.0, INF, INF),
    (1e300, 1e300, -INF, -INF), (INF, 1.0, -INF, NAN), (INF, 1.0, INF, INF), (NAN, 1.0, 2.0, NAN),
    (1.0, 2.0, NAN, NAN), (1e300, 1e300, -1.0, INF), (3.0, 5.0, -15.0, 0.0), (NAN, 1.0, INF, NAN),
]  # fmt: skip


@pytest.mark.parametrize("rounding", ["rn", "rz"])
@pytest.mark.parametrize(("a", "b", "c", "right"), CASES)
def test_special_values(a: float, b: float, c: float, right: float, rounding: str) -> None:
    if rounding == "rz" and (a, c) == (1e300, -1.0):
        right = np.finfo(np.float64).max
    for shape in ((), (3,)):
        given = (np.full(shape, x)[()] for x in (a, b, c))
        with np.errstate(all="ignore"):
            found = fma64(*given, rounding)
        assert np.array_equal(found, np.full(shape, right), equal_nan=True)


@pytest.mark.parametrize(
    ("rounding", "above", "below"), [("rn", 0, 0), ("rz", 0, -1), ("rm", 0, -1), ("rp", 1, 0)]
)
def test_f64_to_f32_is_rounded_where_asked(rounding: str, above: int, below: int) -> None:
    """Steps of f32 from 1 for what lies a little above 1, or below; what is exact stays."""
    step = {1: np.nextafter(np.float32(1), np.float32(2)), 0: np.float32(1)}
    step[-1] = np.nextafter(np.float32(1), np.float32(0))
    found = round32(np.array([1 + 2**-40, 1 - 2**-40, 1.0, -0.5]), rounding)
    assert [*found] == [step[above], step[below], 1, -0.5]
