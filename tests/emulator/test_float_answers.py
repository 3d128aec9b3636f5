"""Floating point in f32 and f64 against fractions, at the edges: PTX ISA 9.7.3 and 9.7.6.

What is not finite follows IEEE 754 by Python's own numbers; all else is computed exactly and
rounded once here.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.ops import floating
from tests.emulator.values import chosen, execute, rounded

FORMS = {"f32": (np.float32, 24, -149, 127), "f64": (np.float64, 53, -1074, 1023)}
"""Type, bits of the significand, exponents of the smallest number and of the largest."""
MODES = ("rn", "rz", "rm", "rp")
NAN = {"f32": 0x7FFFFFFF, "f64": 0xFFF8000000000000}


def numbers(kind: str) -> list[float]:
    _, bits, least, most = FORMS[kind]
    one_up, normal = 1 + 2.0 ** (1 - bits), math.ldexp(1.0, least + bits - 1)
    tiny, largest = math.ldexp(1.0, least), math.ldexp(2 - 2.0 ** (1 - bits), most)
    some = [0.0, 1.0, one_up, 3.0, 0.1, normal, normal - tiny, tiny, largest, 2.0**20, 2.0**-30,
            math.inf]  # fmt: skip
    form = FORMS[kind][0]
    return [float(form(sign * x)) for x in some for sign in (1, -1)] + [math.nan]


def flushed(x: float) -> float:
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


def plain(op: str, *x: float) -> float:
    """By Python's numbers: right in sign and in what is not finite."""
    with np.errstate(all="ignore"):
        a, b, c = (*map(np.float64, x), *[np.float64(0)] * 3)[:3]
        return float({"add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
                      "div": lambda: a / b, "rcp": lambda: 1 / a, "sqrt": lambda: np.sqrt(a),
                      "fma": lambda: a * b + c}[op]())  # fmt: skip


def exactly(op: str, *x: float) -> Fraction | None:
    a, b, c = (*map(Fraction, x), Fraction(0), Fraction(0))[:3]
    if op == "rcp":
        return 1 / a if a else None
    if op == "div":
        return a / b if b else None
    return {"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + c}[op]


def answer(op: str, kind: str, mode: str, *x: float, ftz: bool = False) -> float:
    if ftz:
        x = tuple(map(flushed, x))
    if op == "fma" and not all(map(math.isfinite, x)):  # the product of finite ones is finite
        if all(map(math.isfinite, x[:2])):
            return x[2]
        return plain("add", plain("mul", x[0], x[1]), x[2])
    if not all(map(math.isfinite, x)):
        return plain(op, *x)
    exact = exactly(op, *x)
    if exact is None:
        return plain(op, *x)
    if exact == 0:
        if op == "fma" and x[0] and x[1]:  # the product is not zero, it cancels
            return -0.0 if mode == "rm" else 0.0
        if op == "fma":
            return answer("add", kind, mode, plain("mul", x[0], x[1]), x[2])
        zero = plain(op, *x)
        if op in ("add", "sub"):
            y = x[1] if op == "add" else -x[1]
            same = math.copysign(1, x[0]) == math.copysign(1, y)
            return zero if same else (-0.0 if mode == "rm" else 0.0)
        return math.copysign(0.0, zero)
    if ftz and abs(rounded(exact, kind, mode, -2000)) < 2.0**-126:
        return math.copysign(0.0, 1.0 if exact > 0 else -1.0)
    return rounded(exact, kind, mode)


def saturated(x: float) -> float:
    return min(x, 1.0) if x > 0 else 0.0


def same(found: np.ndarray, wanted: list[float], kind: str, rows: Any) -> None:
    form = FORMS[kind][0]
    with np.errstate(over="ignore"):
        right = np.array(wanted, form)
    assert found.dtype == form
    unsigned = np.dtype(f"u{right.itemsize}")
    nan = np.isnan(right)
    if kind == "f32":
        assert (found[nan].view(unsigned) == NAN[kind]).all()
    assert (np.isnan(found) == nan).all()
    wrong = np.flatnonzero((found.view(unsigned) != right.view(unsigned)) & ~nan)
    assert not len(wrong), (rows[wrong[0]], found[wrong[0]], right[wrong[0]])


FORMS_OF = [
    (op, kind, mode, more)
    for op in ("add", "sub", "mul", "fma", "div", "rcp") for kind in FORMS for mode in MODES
    for more in ("", ".ftz", ".sat") if kind == "f32" or not more
    if not (more == ".sat" and op in ("div", "rcp"))
]  # fmt: skip


@pytest.mark.parametrize(("op", "kind", "mode", "more"), FORMS_OF)
def test_arithmetic_in_every_direction(op: str, kind: str, mode: str, more: str) -> None:
    count = {"fma": 3, "rcp": 1}.get(op, 2)
    rows = [*itertools.product(numbers(kind), repeat=min(count, 2))]
    if count == 3:
        third = numbers(kind)
        rows = [(*row, third[(7 * i + i // 25) % 25]) for i, row in enumerate(rows)]
    rows = rows[::3] if count > 1 else rows
    columns = [np.array(column, FORMS[kind][0]) for column in zip(*rows, strict=True)]
    opcode = f"{op}.{mode}{more}.{kind}"
    found = execute(opcode, *columns)
    wanted = [answer(op, kind, mode, *row, ftz=more == ".ftz") for row in rows]
    if more == ".sat":
        wanted = [saturated(x) for x in wanted]
    same(found, wanted, kind, rows)
    for i in range(0, len(rows), 31):
        one = execute(opcode, *(column[i] for column in columns))
        assert not isinstance(one, np.ndarray)
        assert np.array_equal(one, found[i], equal_nan=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", FORMS)
def test_9_7_3_17_square_roots(kind: str, mode: str) -> None:
    given = [*numbers(kind), 2.0, 4.0, 2.25, 1e-5]
    given = [float(FORMS[kind][0](x)) for x in given]
    found = execute(f"sqrt.{mode}.{kind}", np.array(given, FORMS[kind][0]))
    for x, got in zip(given, found.tolist(), strict=True):
        if not (math.isfinite(x) and x > 0):
            assert got == plain("sqrt", x) or (math.isnan(got) and not x >= 0)
            continue
        scale = 1200
        root = math.isqrt(int(Fraction(x) * 4**scale))
        exact = Fraction(root, 2**scale)
        if exact * exact != Fraction(x):
            exact += Fraction(1, 2 ** (scale + 1))
        assert got == rounded(exact, kind, mode), x


def bits(x: Any) -> list[int]:
    return np.atleast_1d(x).view(f"u{np.atleast_1d(x).itemsize}").tolist()


def test_a_nan_of_f64_keeps_its_payload() -> None:
    """[as an H200 does] The last operand that is one, made quiet; else the default."""
    a, b = (np.array([x], np.uint64).view(np.float64) for x in (0x7FF0000000000123,
                                                                0xFFF8000000000456))  # fmt: skip
    one, inf = np.array([1.0]), np.array([np.inf])
    quiet = 0x7FF8000000000123
    for op in ("add", "sub", "mul"):
        for mode in ("rn", "rz"):
            assert bits(execute(f"{op}.{mode}.f64", a, one)) == [quiet]
            assert bits(execute(f"{op}.{mode}.f64", one, a)) == [quiet]
    assert bits(execute("add.f64", a, b)) == [0xFFF8000000000456]
    assert bits(execute("mul.f64", b, a)) == [quiet]
    assert bits(execute("add.f64", inf, -inf)) == [NAN["f64"]]
    assert bits(execute("fma.rn.f64", a, one, b)) == [0xFFF8000000000456]
    assert bits(execute("fma.rn.f64", one, a, b)) == [quiet]
    assert bits(execute("neg.f64", a)) == [quiet] and bits(execute("abs.f64", b)) == [
        0xFFF8000000000456
    ]


@pytest.mark.parametrize("kind", FORMS)
def test_signs(kind: str) -> None:
    given = numbers(kind)
    form = FORMS[kind][0]
    a = np.array(given, form)
    same(execute(f"neg.{kind}", a), [-x for x in given], kind, given)
    same(execute(f"abs.{kind}", a), [abs(x) for x in given], kind, given)
    rows = [*itertools.product(given[:-1], given[:-1])]
    x, y = (np.array(column, form) for column in zip(*rows, strict=True))
    found = execute(f"copysign.{kind}", x, y)
    same(found, [math.copysign(q, p) for p, q in rows], kind, rows)
    if kind == "f32":
        same(execute("neg.ftz.f32", a), [-flushed(x) for x in given], kind, given)
        same(execute("abs.ftz.f32", a), [abs(flushed(x)) for x in given], kind, given)


def least(a: float, b: float, sign: int) -> float:
    """The smaller, or the larger where ``sign`` is -1; -0 is less than +0."""

    def key(x: float) -> tuple[float, float]:
        return sign * x, sign * math.copysign(1, x)

    return min((a, b), key=key)


@pytest.mark.parametrize("word", ["", ".NaN", ".ftz", ".xorsign.abs", ".NaN.xorsign.abs"])
@pytest.mark.parametrize(("op", "sign"), [("min", 1), ("max", -1)])
def test_9_7_3_14_the_smaller_and_the_larger(op: str, sign: int, word: str) -> None:
    for kind in FORMS if not word else ("f32",):
        rows = [*itertools.product(numbers(kind), repeat=2)]
        wanted = []
        for a, b in rows:
            if ".ftz" in word:
                a, b = flushed(a), flushed(b)
            negative = math.copysign(1, a) != math.copysign(1, b)
            if "xorsign" in word:
                a, b = abs(a), abs(b)
            if math.isnan(a) or math.isnan(b):
                other = b if math.isnan(a) else a
                found = math.nan if "NaN" in word else other
            else:
                found = least(a, b, sign)
            if "xorsign" in word and not math.isnan(found):
                found = math.copysign(found, -1 if negative else 1)
            wanted.append(found)
        x, y = (np.array(column, FORMS[kind][0]) for column in zip(*rows, strict=True))
        same(execute(f"{op}{word}.{kind}", x, y), wanted, kind, rows)


@pytest.mark.parametrize("word", ["", ".NaN", ".abs", ".NaN.abs", ".ftz"])
def test_9_7_3_14_of_three(word: str) -> None:
    some = [0.0, -0.0, 2.0**-140, -1.0, 2.0, math.nan]
    rows = [*itertools.product(some, repeat=3)]
    columns = [np.array(column, np.float32) for column in zip(*rows, strict=True)]
    for op, sign in (("min", 1), ("max", -1)):
        wanted = []
        for row in rows:
            three = [abs(x) if "abs" in word else flushed(x) if "ftz" in word else x for x in row]
            there = [x for x in three if not math.isnan(x)]
            if not there or ("NaN" in word and len(there) < 3):
                wanted.append(math.nan)
                continue
            found = there[0]
            for x in there[1:]:
                found = least(found, x, sign)
            wanted.append(found)
        same(execute(f"{op}{word}.f32", *columns), wanted, "f32", rows)


WHAT = {
    "finite": math.isfinite, "infinite": math.isinf, "number": lambda x: not math.isnan(x),
    "notanumber": math.isnan,
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMS)
def test_9_7_3_4_what_a_number_is(kind: str) -> None:
    given = numbers(kind)
    a = np.array(given, FORMS[kind][0])
    _, size, small, _ = FORMS[kind]
    normal = math.ldexp(1.0, small + size - 1)
    for what, holds in WHAT.items():
        assert execute(f"testp.{what}.{kind}", a).tolist() == [holds(x) for x in given]
    found = execute(f"testp.normal.{kind}", a).tolist()
    assert found == [math.isfinite(x) and (x == 0 or abs(x) >= normal) for x in given]
    found = execute(f"testp.subnormal.{kind}", a).tolist()
    assert found == [0 < abs(x) < normal for x in given]


NEAR = [0.1, -0.1, 1.0, 2.5, -3.0, 0.75, 1e-3]
FUNCTIONS = {
    "sin.approx": (math.sin, NEAR), "cos.approx": (math.cos, NEAR), "ex2.approx": (lambda x: 2**x,
    NEAR), "tanh.approx": (math.tanh, NEAR), "lg2.approx": (math.log2, [0.1, 1.0, 2.5, 1e30]),
    "rsqrt.approx": (lambda x: x**-0.5, [0.1, 1.0, 2.5, 1e30]),
    "sqrt.approx": (math.sqrt, [0.1, 1.0, 2.5, 1e30]), "rcp.approx": (lambda x: 1 / x, NEAR),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_approximations_are_within_half_a_unit_of_f32(name: str) -> None:
    function, given = FUNCTIONS[name]
    a = np.array(given, np.float32)
    wanted = np.array([function(float(x)) for x in a], np.float32)
    found = execute(f"{name}.f32", a)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=2.0**-23)
    nan = execute(f"{name}.f32", np.array([np.nan], np.float32))
    assert bits(nan) == [NAN["f32"]]


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "tanh.approx"])
def test_approximations_that_flush(name: str) -> None:
    """A subnormal operand counts as the zero of its sign, and so does a result."""
    a = np.array([2.0**-130, -(2.0**-130)], np.float32)
    zeros = np.copysign(np.float32(0), a)
    if name == "sin.approx":
        assert bits(execute(f"{name}.f32", a)) == bits(a), "without .ftz they count"
    assert bits(execute(f"{name}.ftz.f32", a)) == bits(execute(f"{name}.f32", zeros))
    if name == "ex2.approx":
        small = np.array([-127.5], np.float32)
        assert bits(execute("ex2.approx.ftz.f32", small)) == [0]
        assert 0 < execute("ex2.approx.f32", small)[0] < 2.0**-127


def test_division_by_large_numbers() -> None:
    """div.approx makes 1/b first, which is subnormal and flushed where |b| > 2**126."""
    a = np.array([3.0, 3.0, -3.0, 3.0, 3.0, np.inf], np.float32)
    b = np.array([2.0**126, 2.0**127, 2.0**127, -(2.0**127), np.inf, 2.0**127], np.float32)
    found = execute("div.approx.f32", a, b)
    assert found[0] == np.float32(3 * 2.0**-126)
    assert bits(found[1:5]) == bits(np.array([0.0, -0.0, -0.0, 0.0], np.float32))
    assert np.isnan(found[5])
    full = execute("div.full.f32", a, b)
    assert full[:3].tolist() == [3 * 2.0**-126, 3 * 2.0**-127, -3 * 2.0**-127] and full[5] == np.inf


def test_roots_and_reciprocals_of_f64_that_keep_20_bits() -> None:
    given = np.array([3.0, -4.0, 2.0**-1050, -(2.0**-1050), 0.0, np.inf, np.nan, 1 + 2.0**-40])
    found = execute("rcp.approx.ftz.f64", given)
    assert all(x & 0xFFFFFFFF == 0 for x in bits(found))
    np.testing.assert_allclose(found[[0, 1, 7]], [1 / 3, -0.25, 1.0], rtol=2.0**-20)
    assert found[2:6].tolist() == [np.inf, -np.inf, np.inf, 0.0]
    assert bits(found[6]) == [0x7FFFFFFF00000000] and found[7] == 1.0
    found = execute("rsqrt.approx.ftz.f64", np.array([4.0, 3.0, 0.0, -1.0, np.inf, 2.0**-1050]))
    assert all(x & 0xFFFFFFFF == 0 for x in bits(found))
    np.testing.assert_allclose(found[:2], [0.5, 3**-0.5], rtol=2.0**-20)
    assert found[2] == np.inf and bits(found[3]) == [0x7FFFFFFF00000000] and found[4] == 0.0
    assert found[5] == np.inf


@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_what_is_fast_rounds_to_nearest(op: str) -> None:
    count = 3 if op == "fma" else 2
    exact = chosen(f"{op}.rn.f32", count).entry.function
    fast = floating.FAST[exact]
    some = [np.array([1.5, -2.0], np.float32), np.array([4.0, 0.5], np.float32),
            np.array([1.0, 8.0], np.float32)][:count]  # fmt: skip
    assert fast(*some).tolist() == exact(*some).tolist()


# -- comparison (9.7.6) ----------------------------------------------------------------------

ORDERED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def holds(a: float, b: float, cmp: str) -> bool:
    either = math.isnan(a) or math.isnan(b)
    if cmp in ("num", "nan"):
        return either == (cmp == "nan")
    if either:
        return cmp.endswith("u") and cmp[:2] in ORDERED and len(cmp) == 3
    return bool(eval(f"a {ORDERED[cmp[:2]]} b"))


@pytest.mark.parametrize("cmp", [*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"])
def test_9_7_6_comparisons_of_floats(cmp: str) -> None:
    for kind, more in (("f32", ""), ("f64", ""), ("f32", ".ftz")):
        rows = [*itertools.product(numbers(kind), repeat=2)]
        a, b = (np.array(column, FORMS[kind][0]) for column in zip(*rows, strict=True))
        seen = [tuple(map(flushed, row)) if more else row for row in rows]
        wanted = [holds(x, y, cmp) for x, y in seen]
        assert execute(f"setp.{cmp}{more}.{kind}", a, b).tolist() == wanted
        found = execute(f"set.{cmp}{more}.f32.{kind}", a, b)
        assert found.dtype == np.float32 and found.tolist() == [float(x) for x in wanted]
        found = execute(f"set.{cmp}{more}.u32.{kind}", a, b)
        assert found.tolist() == [0xFFFFFFFF * x for x in wanted]


@pytest.mark.parametrize(("cmp", "of"), [(c, "s32") for c in ORDERED] + [
    (c, "u32") for c in ("eq", "ne", "lo", "ls", "hi", "hs", "lt", "ge")
])  # fmt: skip
def test_9_7_6_comparisons_of_integers(cmp: str, of: str) -> None:
    sign = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">=", **ORDERED}[cmp]
    some = [0, 1, 5, (1 << 31) - 1, 1 << 31, (1 << 32) - 1]
    rows = [*itertools.product(some, repeat=2)]
    a, b = (np.array(column, np.uint32) for column in zip(*rows, strict=True))
    if of == "s32":
        a, b = a.view(np.int32), b.view(np.int32)
    wanted = [eval(f"x {sign} y") for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert execute(f"setp.{cmp}.{of}", a, b).tolist() == wanted
    for kind, one in (("u16", 0xFFFF), ("s16", -1), ("s32", -1), ("u32", 0xFFFFFFFF),
                      ("f16", 1.0), ("bf16", 0x3F80), ("f32", 1.0)):  # fmt: skip
        found = execute(f"set.{cmp}.{kind}.{of}", a, b)
        assert found.tolist() == [one * x for x in wanted], kind


@pytest.mark.parametrize(("op", "join"), [("and", np.logical_and), ("or", np.logical_or),
                                          ("xor", np.logical_xor)])  # fmt: skip
def test_9_7_6_a_comparison_with_a_predicate(op: str, join: Any) -> None:
    a, b = np.array([1, 1, 2, 2], np.int32), np.array([1, 2, 1, 2], np.int32)
    for c in (np.array([0, 0, 1, 1], bool), np.array([1, 0, 1, 0], bool)):
        p = a < b
        assert execute(f"setp.lt.{op}.s32", a, b, c).tolist() == join(p, c).tolist()
        both = chosen(f"setp.lt.{op}.s32", 3).function(a, b, c, both=True)
        assert [x.tolist() for x in both] == [join(p, c).tolist(), join(~p, c).tolist()]
        found = execute(f"set.lt.{op}.u32.s32", a, b, c)
        assert found.tolist() == (0xFFFFFFFF * join(p, c)).tolist()
    plain_, other = chosen("setp.lt.s32", 2).function(a, b, both=True)
    assert plain_.tolist() == p.tolist() and other.tolist() == (~p).tolist()


def test_9_7_6_one_of_two() -> None:
    a, b = np.array([1, 2, 3, 4], np.uint32), np.array([5, 6, 7, 8], np.uint32)
    assert execute("selp.b32", a, b, np.array([1, 0, 0, 1], bool)).tolist() == [1, 6, 7, 4]
    c = np.array([0, -1, 1, -5], np.int32)
    assert execute("slct.b32.s32", a, b, c).tolist() == [1, 6, 3, 8]
    c = np.array([-0.0, -(2.0**-140), np.nan, 2.0], np.float32)
    assert execute("slct.b32.f32", a, b, c).tolist() == [1, 6, 7, 4]
    assert execute("slct.ftz.b32.f32", a, b, c).tolist() == [1, 2, 7, 4]
