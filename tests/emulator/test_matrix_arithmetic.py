"""The tensor core's sum, against the same steps done one number at a time with fractions.

The oracle follows the four steps in the docstring of ``tensor_core`` as the
papers state them, with exact rational numbers and no arrays.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from test_matrix_ptx import MMA, RECORD, WARPS, Case, inputs, values

from phasebit.emulator.numbers.formats import FORMATS, decode
from phasebit.emulator.ops.matrix import multiply
from phasebit.emulator.tensor_core import arithmetic
from phasebit.emulator.tensor_core.arithmetic import (
    MODELS,
    Model,
    accumulate,
    accumulate_f64,
    accumulate_s32,
)


def exponent(x: Fraction, kind: str) -> int:
    """The e of 2**e <= |x| < 2**(e + 1), but not below that of the format's subnormals."""
    e = 1 - FORMATS[kind].bias
    while abs(x) >= Fraction(2) ** (e + 1):
        e += 1
    return e


def cut(x: Fraction) -> Fraction:
    """Towards zero to an integer."""
    return Fraction(math.trunc(x))


def one_sum(
    a: list[Fraction], b: list[Fraction], c: Fraction, kind: str, result: str, fraction_bits: int
) -> Fraction:
    """Align, cut off, add, round: for one element of D."""
    terms = [(x * y, exponent(x, kind) + exponent(y, kind)) for x, y in zip(a, b, strict=True)]
    terms.append((c, exponent(c, result)))
    largest = max([-126, *(e for x, e in terms if x != 0)])
    unit = Fraction(2) ** (largest - fraction_bits)
    total = sum((cut(x / unit) for x, _ in terms), Fraction(0)) * unit
    step = Fraction(2) ** (exponent(total, result) - FORMATS[result].mantissa_bits)
    return cut(total / step) * step if result == "f32" else Fraction(round(total / step)) * step


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize(("kind", "result"), [("f16", "f32"), ("f16", "f16"), ("bf16", "f32"),
                                              ("tf32", "f32")])  # fmt: skip
@pytest.mark.parametrize("mode", ("integers", "normal", "wide", "sparse", "tiny"))
def test_against_fractions(model: Model, kind: str, result: str, mode: str) -> None:
    rng = np.random.default_rng(11)
    m, n, k = 3, 4, 16
    a = decode(kind, values(kind, mode, (1, m, k), rng)).astype(np.float64)
    b = decode(kind, values(kind, mode, (1, k, n), rng)).astype(np.float64)
    c = decode(result, values(result, mode, (1, m, n), rng)).astype(np.float64)
    got = accumulate(a, b, c, (kind, kind), result, model)
    block = model.block_bytes // (4 if kind == "tf32" else 2)
    for i in range(m):
        for j in range(n):
            want = Fraction(c[0, i, j])
            for start in range(0, k, block):
                row = [Fraction(x) for x in a[0, i, start : start + block]]
                column = [Fraction(x) for x in b[0, start : start + block, j]]
                want = one_sum(row, column, want, kind, result, model.fraction_bits)
            assert abs(want) <= FORMATS[result].max, "the samples are meant to stay finite"
            assert Fraction(got[0, i, j]) == want


def dot(a: list[float], b: list[float], c: float, kind: str = "f16", result: str = "f32") -> float:
    """One element of D on Hopper."""
    row, column = np.array([[a]]), np.array([[[x] for x in b]])
    return float(accumulate(row, column, np.array([[[c]]]), (kind, kind), result)[0, 0, 0])


def test_what_fasi_and_others_found() -> None:
    """The experiments of Fasi et al., with what Hopper's two extra bits make of them."""
    ones = [1.0] * 4
    # products are exact, and not rounded to f16: (1 + 2^-10)^2
    assert dot([1 + 2.0**-10], [1 + 2.0**-10], 0.0) == 1 + 2.0**-9 + 2.0**-20
    # the additions are not done one by one: each 2^-24 alone would be lost next to 1
    assert dot([2.0**-12] * 4, [2.0**-12] * 4, 1.0) == 1 + 2.0**-22
    # three bits below the last of f32, nothing is kept: 16 times 2^-26 next to 1
    assert dot([2.0**-13] * 16, [2.0**-13] * 16, 1.0) == 1.0
    # towards zero, on both sides of it
    assert dot([1.0, 2.0**-24], [1.0, 1.0], 0.0) == 1.0
    assert dot([1.0, 1.5 * 2.0**-23], [1.0, 1.0], 0.0, "bf16") == 1 + 2.0**-23
    assert dot([-1.0, -1.5 * 2.0**-23], [1.0, 1.0], 0.0, "bf16") == -1 - 2.0**-23
    # subnormal numbers count, in and out
    assert dot([2.0**-24], [2.0**-24], 0.0) == 2.0**-48
    assert dot([2.0**-100], [2.0**-48], 0.0, "bf16") == 2.0**-148
    # the sum is normalised once, at the end: the parts may cancel
    assert dot([2.0**15, *ones, -(2.0**15)], [2.0, *ones, 2.0], 0.0) == 4.0


def test_specials() -> None:
    inf, nan = math.inf, math.nan
    assert dot([inf], [1.0], 0.0) == inf
    assert dot([inf], [-1.0], 5.0) == -inf
    assert math.isnan(dot([inf], [0.0], 0.0))
    assert math.isnan(dot([inf, 1.0], [1.0, -inf], 0.0))
    assert math.isnan(dot([1.0], [1.0], nan))
    assert dot([60000.0, 60000.0], [1.0, 1.0], 0.0, result="f16") == inf
    assert dot([2.0**127, 2.0**127], [1.0, 1.0], 0.0, "bf16") == inf
    # what lies between is no f32: 2^128 and -2^128 cancel
    assert dot([2.0**127, -(2.0**127)], [2.0, 2.0], 2.0**110, "bf16") == 2.0**110
    for c in (0.0, -0.0):  # a zero is +0
        assert math.copysign(1.0, dot([-0.0], [1.0], c)) == 1.0
        assert math.copysign(1.0, dot([-(2.0**-24)], [2.0**-24], c, result="f16")) == 1.0


def test_the_chain_of_fma_in_f64() -> None:
    """Order along k, one rounding a step: the middle term alone decides."""
    a = np.array([[[2.0**53, 1.0, 1.0]]])
    b = np.ones((1, 3, 1))
    assert accumulate_f64(a, b, np.zeros((1, 1, 1)))[0, 0, 0] == 2.0**53
    assert accumulate_f64(a[:, :, ::-1], b, np.zeros((1, 1, 1)))[0, 0, 0] == 2.0**53 + 2
    assert accumulate_f64(a, b, np.zeros((1, 1, 1)), "rp")[0, 0, 0] == 2.0**53 + 4


def test_integers_wrap_or_stop() -> None:
    most = (1 << 31) - 1
    a, b = np.full((1, 1, 32), -128, np.int8), np.full((1, 32, 1), -128, np.int8)
    c = np.array([[[most - 5]]], np.int32)
    exact = most - 5 + 32 * 128 * 128
    assert accumulate_s32(a, b, c)[0, 0, 0] == exact - (1 << 32)
    assert accumulate_s32(a, b, c, satfinite=True)[0, 0, 0] == most
    low = np.array([[[-most]]], np.int32)
    assert accumulate_s32(a, -1 - b, low, satfinite=True)[0, 0, 0] == -most - 1


@pytest.mark.parametrize("case", MMA, ids=lambda case: case.name)
def test_the_h200_gives_the_same_bits_without_nvcc(case: Case) -> None:
    """The record again, from registers to registers: no PTX between."""
    m, n, k = case.shape
    got = multiply(inputs(case, WARPS), f"m{m}n{n}k{k}", case.types, satfinite=bool(case.suffix))
    want = np.load(RECORD)[case.name]
    bits = f"u{want.itemsize}"
    np.testing.assert_array_equal(got.view(bits), want.view(bits))


@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32", "e4m3", "e5m2"])
def test_whole_numbers_that_need_no_rounding_come_out_the_same(
    kind: str, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones are multiplied at once; on both sides of the limit the bits are the scheme's."""
    draw = np.random.default_rng(9)
    models = [*arithmetic.MODELS.values(), arithmetic.WGMMA[kind]]
    ways = {True: 0, False: 0}
    asked = arithmetic._is_exact
    for turn in range(400):
        model, k = models[turn % len(models)], int(draw.choice([4, 16, 32]))
        scale = 2.0 ** draw.integers(0, 19 if result == "f32" else 7)
        a = draw.integers(-3, 4, (2, 4, k)) * (-0.0 if turn % 7 == 0 else scale)
        b = draw.integers(-3, 4, (2, k, 8)) * 2.0 ** draw.integers(0, 4)
        c = draw.integers(-40, 41, (2, 4, 8)) * (-0.0 if turn % 5 == 0 else 1.0)
        ways[asked(a, b, c, result, model)] += 1
        got = arithmetic.accumulate(a, b, c, (kind, kind), result, model)
        monkeypatch.setattr(arithmetic, "_is_exact", lambda *_: False)
        by_scheme = arithmetic.accumulate(a, b, c, (kind, kind), result, model)
        monkeypatch.setattr(arithmetic, "_is_exact", asked)
        assert got.tobytes() == np.ascontiguousarray(by_scheme).tobytes(), (turn, model)
    assert min(ways.values()) > 20


def whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-3, 4, shape) * 2.0 ** rng.integers(-4, 5, shape)


@pytest.mark.parametrize("warps", [31, 32, 33, 64, 65])
@pytest.mark.parametrize("adds", [False, True])
def test_many_warps_are_as_many_times_one(warps: int, adds: bool) -> None:
    rng = np.random.default_rng(warps)
    a, b, c = whole(rng, warps, 2, 8), whole(rng, warps, 8, 3), whole(rng, warps, 2, 3)
    kinds, model = ("e4m3", "e4m3"), arithmetic.WGMMA["e4m3"]
    found = accumulate(a, b, c if adds else None, kinds, "f32", model)
    assert found.shape == (warps, 2, 3)
    for i in range(0, warps, 16):
        part = slice(i, i + 1)
        alone = accumulate(a[part], b[part], c[part] if adds else None, kinds, "f32", model)
        assert np.array_equal(found[part], alone)


def test_columns_of_its_own_for_each_row() -> None:
    """As with a sparse A, where each row meets other rows of B."""
    rng = np.random.default_rng(6)
    a, b, c = whole(rng, 2, 3, 16), whole(rng, 2, 16, 4), whole(rng, 2, 3, 4)
    apart = np.repeat(b[..., None], 3, axis=3)
    one = accumulate(a, b, c, ("f16", "f16"), "f32")
    assert np.array_equal(accumulate(a, apart, c, ("f16", "f16"), "f32"), one)
    apart[:, :, :, 1] = 0.0
    other = accumulate(a, apart, c, ("f16", "f16"), "f32")
    assert np.array_equal(other[:, 1], c[:, 1]) and np.array_equal(other[:, ::2], one[:, ::2])


def test_so_many_products_are_summed_at_once() -> None:
    """A block cuts off what is below its largest: 2**-25 stays alone, and is lost beside 1."""
    a = np.array([[[1.0, 0.0, 2.0**-13, 2.0**-13]]])
    b = np.array([[[1.0], [0.0], [2.0**-13], [2.0**-13]]])
    zero = np.zeros((1, 1, 1))

    def summed(step: int | None) -> float:
        model = MODELS["hopper"]
        return float(accumulate(a, b, zero, ("f16", "f16"), "f32", model, step)[0, 0, 0])

    assert summed(4) == summed(2) == summed(None) == 1.0
    turned = accumulate(a[:, :, ::-1], b[:, ::-1], zero, ("f16", "f16"), "f32", MODELS["hopper"], 2)
    assert turned[0, 0, 0] == 1.0
    small = accumulate(a[:, :, 2:], b[:, 2:], None, ("f16", "f16"), "f32", MODELS["hopper"])
    assert small[0, 0, 0] == 2.0**-25


def test_fp8_on_hopper_s_mma_is_f16_twice() -> None:
    """Two products of f16, the low pairs of each four and the high ones, and an addition of f32."""
    a = np.zeros((1, 1, 16))
    b = np.ones((1, 16, 1))
    a[0, 0, [0, 1, 2, 3]] = 2.0**8, 2.0**-9, 2.0**-9, 2.0**-9
    b[0, [0, 1, 2, 3], 0] = 2.0**8, 2.0**-9, 2.0**-9, 2.0**-9
    zero = np.zeros((1, 1, 1))
    got = accumulate(a, b, zero, ("e4m3", "e4m3"), "f32")
    # beside 2**16 the last of 25 bits is 2**-9: 2**-18 is cut; the high pair adds 2**-17 to it
    assert got[0, 0, 0] == 2.0**16
    a[0, 0, 0] = 1.0
    b[0, 0, 0] = 1.0
    got = accumulate(a, b, zero, ("e4m3", "e4m3"), "f32")
    assert got[0, 0, 0] == 1.0 + 3 * 2.0**-18


@pytest.mark.parametrize(("result", "wanted"), [("f32", 1.0), ("f16", 2048.0)])
def test_m8n8k4_is_a_chain(result: str, wanted: float) -> None:
    """f32: 2**24 + 1 + 1 - 2**24 one by one loses both ones, and C is added at the end.  f16:
    k = 0, 1 first; a pair of f32 holds 2048 + 0.5 and the next takes 0.5 away again."""
    if result == "f32":
        a, b = np.array([[[4096.0, 1.0, 1.0, -4096.0]]]), np.array([[[4096.0], [1.0], [1.0],
                                                                    [4096.0]]])  # fmt: skip
        c = np.array([[[1.0]]])
    else:
        a, b = np.array([[[2048.0, 0.5, 0.5, -1.0]]]), np.ones((1, 4, 1))
        c = np.array([[[0.0]]])
    got = arithmetic.accumulate_m8n8k4(a, b, c, result)
    assert got.shape == (1, 1, 1) and got[0, 0, 0] == wanted


def test_m8n8k4_of_rows_and_columns() -> None:
    rng = np.random.default_rng(8)
    a, b, c = whole(rng, 2, 8, 4), whole(rng, 2, 4, 8), whole(rng, 2, 8, 8)
    for result in ("f32", "f16"):
        exact = np.float16(a @ b + c).astype(float) if result == "f16" else a @ b + c
        assert np.array_equal(arithmetic.accumulate_m8n8k4(a, b, c, result), exact)


def test_places_in_which_bits_differ() -> None:
    rng = np.random.default_rng(8)
    a, b = rng.integers(0, 2, (2, 3, 128)), rng.integers(0, 2, (2, 128, 5))
    c = rng.integers(-9, 9, (2, 3, 5)).astype(np.int32)
    wanted = c + np.array([[[(a[w, i] != b[w, :, j]).sum() for j in range(5)] for i in range(3)]
                           for w in range(2)])  # fmt: skip
    found = arithmetic.count_different(a, b, c)
    assert np.array_equal(found, wanted) and found.dtype == np.int32


def test_the_ends_of_32_bits() -> None:
    one = np.ones((1, 1, 1), np.int8)
    ends = np.array([[[(1 << 31) - 1]], [[-(1 << 31)]]], np.int32)
    for satfinite, up, down in ((False, -(1 << 31), (1 << 31) - 1),
                                (True, (1 << 31) - 1, -(1 << 31))):  # fmt: skip
        assert accumulate_s32(one, one, ends[:1], satfinite)[0, 0, 0] == up
        assert accumulate_s32(one, -one, ends[1:], satfinite)[0, 0, 0] == down
        kept = accumulate_s32(0 * one, one, ends, satfinite)
        assert np.array_equal(kept, ends)
    assert accumulate_s32(one, one, ends[:1])[0, 0, 0] == -(1 << 31), "it wraps unless it is asked"


@pytest.mark.parametrize("kind", arithmetic.WGMMA)
def test_the_numbers_of_wgmma(kind: str) -> None:
    """arXiv:2511.10909: fp8 keeps 13 bits after the point, in sums and results; the rest 25."""
    short = kind in ("e4m3", "e5m2")
    assert arithmetic.WGMMA[kind] == Model(13 if short else 25, 32, False, 13 if short else 23)
    assert MODELS["turing"] == MODELS["ampere"] == Model(24, 16)
    assert MODELS["blackwell"] == Model(25, 32) and MODELS["hopper"] == Model(25, 32, True)
    assert arithmetic.DEVICE == "hopper"
    assert arithmetic.BYTES == {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1}
