"""f16 and bf16, single and in pairs, against fractions: PTX ISA 9.7.4, 9.7.5, 9.7.7."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.numbers import halves
from tests.emulator.values import chosen, execute, rounded

SOME = [0.0, 1.0, 3.0, 0.5, 65504.0, 2.0**-14, 2.0**-15, 2.0**-24, 1 + 2.0**-10, 1000.0, math.inf]
BRAIN = [0.0, 1.0, 3.0, 0.5, 2.0**127, 2.0**-126, 2.0**-127, 2.0**-133, 1 + 2.0**-7, 1000.0,
         math.inf]  # fmt: skip
NAN = 0x7FFF
ONE = {"f16": 0x3C00, "bf16": 0x3F80}


def numbers(kind: str) -> list[float]:
    some = SOME if kind == "f16" else BRAIN
    return [s * x for x in some for s in (1.0, -1.0)] + [math.nan]


def codes(values: list[float], kind: str) -> np.ndarray:
    """Their bits, by way of halves that are exact."""
    return np.asarray(halves.encode(np.array(values), kind))


def held(values: list[float], kind: str) -> np.ndarray:
    found = codes(values, kind)
    return found.view(np.float16) if kind == "f16" else found


def bits(x: np.ndarray) -> list[int]:
    return x.view(f"u{x.itemsize}").tolist()  # type: ignore[no-any-return]


def answer(op: str, kind: str, *x: float) -> float:
    a, b, c = (*x, 0.0)[:3]
    if not all(map(math.isfinite, x)):
        with np.errstate(all="ignore"):
            a, b, c = np.float64(a), np.float64(b), np.float64(c)
            return float({"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + c}[op])
    exact = {"add": Fraction(a) + Fraction(b), "sub": Fraction(a) - Fraction(b),
             "mul": Fraction(a) * Fraction(b),
             "fma": Fraction(a) * Fraction(b) + Fraction(c)}[op]  # fmt: skip
    if exact:
        return rounded(exact, kind, "rn")
    return float({"add": a + b, "sub": a - b, "mul": a * b, "fma": a * b + c}[op])


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_arithmetic_is_rounded_once(op: str, kind: str) -> None:
    some = numbers(kind)
    rows = [*itertools.product(some, repeat=2)]
    if op == "fma":
        rows = [(*row, some[(5 * i + i // 23) % 23]) for i, row in enumerate(rows)]
    columns = [held(list(column), kind) for column in zip(*rows, strict=True)]
    wanted = [answer(op, kind, *row) for row in rows]
    right = codes(wanted, kind).tolist()
    assert bits(execute(f"{op}.rn.{kind}", *columns)) == right
    if kind == "f16":
        clamped = [min(x, 1.0) if x > 0 else 0.0 for x in wanted]
        assert bits(execute(f"{op}.rn.sat.{kind}", *columns)) == codes(clamped, kind).tolist()
    if op == "fma":
        relu = [NAN if math.isnan(x) else code if x > 0 else 0
                for x, code in zip(wanted, right, strict=True)]  # fmt: skip
        assert bits(execute(f"{op}.rn.relu.{kind}", *columns)) == relu
    pairs = [np.ascontiguousarray(column).view(np.uint16) for column in columns]
    packed = [p.astype(np.uint32) << 16 | np.roll(p, 7).astype(np.uint32) for p in pairs]
    found = execute(f"{op}.rn.{kind}x2", *packed)
    assert (found >> 16).tolist() == right
    assert (found & 0xFFFF).tolist() == np.roll(np.array(right), 7).tolist()


def test_what_is_outside_of_a_tensor_counts_as_nothing() -> None:
    """.oob: where a or b is the NaN 0x7ff7, whatever its sign, the result is 0."""
    a = np.array([0x7FF7, 0x3C00, 0xFFF7, 0x7FFF, 0x3C00], np.uint16).view(np.float16)
    b = np.array([0x3C00, 0x7FF7, 0x3C00, 0x3C00, 0x3C00], np.uint16).view(np.float16)
    c = np.full(5, 2, np.float16)
    assert bits(execute("fma.rn.oob.f16", a, b, c)) == [0, 0, 0, NAN, 0x4200]
    assert bits(execute("fma.rn.f16", a, b, c)) == [NAN, NAN, NAN, NAN, 0x4200]
    x = np.array([0x7FF73C00], np.uint32)
    y = np.array([0x3C003C00], np.uint32)
    assert execute("fma.rn.oob.f16x2", x, y, y).tolist() == [0x00004000]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_signs(kind: str) -> None:
    some = numbers(kind)
    given = held(some, kind)
    plain = codes(some, kind).tolist()
    nan = [math.isnan(x) for x in some]
    negated = [NAN if n else code ^ 0x8000 for code, n in zip(plain, nan, strict=True)]
    assert bits(execute(f"neg.{kind}", given)) == negated
    without = [NAN if n else code & 0x7FFF for code, n in zip(plain, nan, strict=True)]
    assert bits(execute(f"abs.{kind}", given)) == without
    if kind == "f16":
        small = [abs(x) < 2.0**-14 for x in some]
        flushed = [code & 0x8000 if s else code for code, s in zip(negated, small, strict=True)]
        assert bits(execute("neg.ftz.f16", given)) == flushed
        flushed = [0 if s else code for code, s in zip(without, small, strict=True)]
        assert bits(execute("abs.ftz.f16", given)) == flushed
    pair = np.array([0x80003C00, 0x7E008001], np.uint32)
    assert execute(f"neg.{kind}x2", pair).tolist() == [
        0x0000BC00, 0x7FFF0001 if kind == "f16" else 0xFE000001,
    ]  # fmt: skip


def extreme(op: str, a: float, b: float, nan: bool) -> float:
    if math.isnan(a) or math.isnan(b):
        found = b if math.isnan(a) else a
        return math.nan if nan else found
    sign = 1 if op == "min" else -1
    return min((a, b), key=lambda x: (sign * x, sign * math.copysign(1, x)))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("word", ["", ".NaN", ".xorsign.abs"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_the_smaller_and_the_larger(op: str, word: str, kind: str) -> None:
    rows = [*itertools.product(numbers(kind), repeat=2)]
    a, b = (held(list(column), kind) for column in zip(*rows, strict=True))
    wanted = []
    for x, y in rows:
        negative = math.copysign(1, x) != math.copysign(1, y)
        if word == ".xorsign.abs":
            x, y = abs(x), abs(y)
        found = extreme(op, x, y, word == ".NaN")
        wanted.append(-found if word == ".xorsign.abs" and negative else found)
    assert bits(execute(f"{op}{word}.{kind}", a, b)) == codes(wanted, kind).tolist()


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray, list[Any]]:
    rows = [*itertools.product([0.0, -1.0, 2.0, math.nan], repeat=4)]
    a, b, c, d = (codes(list(column), kind).astype(np.uint32) for column in zip(*rows, strict=True))
    return a << 16 | b, c << 16 | d, rows


COMPARE = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
           "ge": lambda x, y: x >= y}  # fmt: skip


def holds(cmp: str, x: float, y: float) -> bool:
    either = math.isnan(x) or math.isnan(y)
    if cmp in ("num", "nan"):
        return either == (cmp == "nan")
    return cmp.endswith("u") if either else bool(COMPARE[cmp[:2]](x, y))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("cmp", ["eq", "ne", "lt", "ge", "ltu", "neu", "num", "nan"])
def test_9_7_7_a_predicate_for_each_half(cmp: str, kind: str) -> None:
    """The first predicate is that of the lower half."""
    left, right, rows = pairs(kind)
    high = [holds(cmp, a, c) for a, b, c, d in rows]
    low = [holds(cmp, b, d) for a, b, c, d in rows]
    found = execute(f"setp.{cmp}.{kind}x2", left, right, results=2)
    assert [each.tolist() for each in found] == [low, high]
    p = np.arange(len(rows)) % 3 == 0
    for op, join in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        found = execute(f"setp.{cmp}.{op}.{kind}x2", left, right, p, results=2)
        assert [each.tolist() for each in found] == [join(x, p).tolist() for x in (low, high)]
    for to, one in ((f"{kind}x2", ONE[kind]), ("u32", 0xFFFF), ("s32", 0xFFFF)):
        found = execute(f"set.{cmp}.{to}.{kind}x2", left, right)
        wanted = [one * x | one * y << 16 for x, y in zip(low, high, strict=True)]
        assert found.view(np.uint32).tolist() == wanted, to
        assert found.dtype == (np.int32 if to == "s32" else np.uint32)


def test_subnormal_halves_are_flushed_where_asked() -> None:
    a, b = np.array([0x00018001], np.uint32), np.array([0, 0], np.uint32)[:1]
    plain = execute("setp.eq.f16x2", a, b, results=2)
    flushed = execute("setp.eq.ftz.f16x2", a, b, results=2)
    assert [x.tolist() for x in plain] == [[False], [False]]
    assert [x.tolist() for x in flushed] == [[True], [True]]
    one = np.array([1, 2], np.uint16).view(np.float16)
    assert execute("setp.lt.ftz.f16", one[:1], one[1:]).tolist() == [False]
    assert execute("setp.lt.f16", one[:1], one[1:]).tolist() == [True]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("op", ["add", "sub", "fma"])
def test_9_7_5_a_short_operand_in_an_f32_sum(op: str, mode: str, kind: str) -> None:
    """As if it were f32: what ``test_float_answers`` has."""
    some = numbers(kind)
    singles = [0.0, 1.0, -3.5, 2.0**-149, 3e38, 1 + 2.0**-23, math.nan]
    rows = [(a, some[(i * 7 + 3) % len(some)], c) for i, (a, c) in enumerate(
        itertools.product(some, singles))]  # fmt: skip
    a, b = (held([row[i] for row in rows], kind) for i in (0, 1))
    c = np.array([row[2] for row in rows], np.float32)
    wide = [np.array([row[i] for row in rows], np.float32) for i in (0, 1)]
    given, as_f32 = ((a, b, c), (*wide, c)) if op == "fma" else ((a, c), (wide[0], c))
    for sat in ("", ".sat"):
        found = execute(f"{op}.{mode}{sat}.f32.{kind}", *given)
        assert bits(found) == bits(execute(f"{op}.{mode}{sat}.f32", *as_f32))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_approximations(kind: str) -> None:
    some = [0.5, -0.75, 1.0, 2.5, -3.0, 0.0]
    given = held(some, kind)
    for name, function in (("tanh.approx", np.tanh), ("ex2.approx", np.exp2)):
        wanted = codes([float(x) for x in function(np.array(some))], kind)
        opcode = (
            f"{name}.ftz.{kind}" if (name, kind) == ("ex2.approx", "bf16") else f"{name}.{kind}"
        )
        found = execute(opcode, given).view(np.uint16)
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1
    assert chosen("tanh.approx.f16x2", 1).entry.family == "half"
