"""cvt against whole numbers and fractions, at the edges of every type: PTX ISA 9.7.9.21."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from phasebit.emulator.numbers import halves
from tests.emulator.values import execute, rounded

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
FLOATS = ("f16", "bf16", "f32", "f64")
MODES = ("rn", "rz", "rm", "rp")


def ends(kind: str) -> tuple[int, int]:
    bits = int(kind[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)


def whole(kind: str) -> np.ndarray:
    low, high = ends(kind)
    some = [0, 1, 2, 7, 100, 127, 128, 255, 256, 2049, 65503, 65504, 65519, 65520, 65536,
            16777217, (1 << 31) - 65, (1 << 53) + 1, high, high - 1, high // 2 + 1]  # fmt: skip
    numbers = {n for each in some for n in (each, -each) if low <= n <= high} | {low, low + 1}
    return np.array(sorted(numbers), f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def floats(kind: str) -> np.ndarray:
    """Codes or numbers, as a register holds them."""
    some = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 3.5, 126.5, 127.5, 128.0, 200.0, 255.5, 256.0,
            300.0, 32767.5, 32768.0, 60000.0, 65504.0, 65520.0, 2.0**31, 2.0**31 - 128, 2.0**32,
            2.0**63, 2.0**64, 2.0**-13, 2.0**-15, 2.0**-24, 2.0**-25, 3 * 2.0**-26, 2.0**-126,
            2.0**-130, 1 + 2.0**-9, 1 + 2.0**-11, 1 + 2.0**-12, 1 + 3 * 2.0**-11, 1 + 2.0**-24,
            1 + 2.0**-8, 1 + 3 * 2.0**-9, 3.4e38, 1e300, 1e-310, math.inf, math.nan]  # fmt: skip
    with np.errstate(all="ignore"):
        wide = np.array([s * x for x in some for s in (1, -1)])
        if kind == "bf16":
            return halves.encode(wide, "bf16")
        return wide.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])


def numbers(held: np.ndarray, kind: str) -> list[float]:
    if kind == "bf16":
        return halves.decode(held, "bf16").tolist()  # type: ignore[no-any-return]
    return held.astype(np.float64).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("of", INTEGERS)
def test_between_integers(to: str, of: str) -> None:
    """By the sign of the source, cut to the width; or clamped with .sat."""
    given = whole(of)
    low, high = ends(to)
    found = execute(f"cvt.{to}.{of}", given)
    wanted = [(n - low) % (high - low + 1) + low for n in given.tolist()]
    assert found.tolist() == wanted
    found = execute(f"cvt.sat.{to}.{of}", given)
    assert found.tolist() == [max(low, min(n, high)) for n in given.tolist()]
    assert found.dtype.itemsize == int(to[1:]) // 8


ROUND = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("of", FLOATS)
@pytest.mark.parametrize("to", INTEGERS)
def test_from_floats_to_integers(to: str, of: str, mode: str) -> None:
    """Clamped. NaN gives 0, but from f64, and to 64 bits, the number with the top bit alone."""
    given = floats(of)
    low, high = ends(to)
    bits = int(to[1:])
    nan = 0
    if bits == 64 or of == "f64":
        nan = low if to[0] == "s" else 1 << bits - 1
    wanted = []
    for x in numbers(given, of):
        if not math.isfinite(x):
            wanted.append(nan if math.isnan(x) else high if x > 0 else low)
        else:
            wanted.append(max(low, min(ROUND[mode](x), high)))
    assert execute(f"cvt.{mode}.{to}.{of}", given).tolist() == wanted
    if of == "f32":
        found = execute(f"cvt.{mode}.ftz.{to}.f32", given)
        tiny = np.abs(given) < 2.0**-126
        assert not found[tiny].any() and found[~tiny].tolist() == [
            n for n, small in zip(wanted, tiny, strict=True) if not small
        ]


def held(values: list[float], kind: str) -> np.ndarray:
    """Numbers of a type as a register holds them."""
    with np.errstate(all="ignore"):
        wide = np.array(values)
        if kind == "bf16":
            return halves.encode(wide, "bf16")
        return wide.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind])


def bits(x: np.ndarray) -> list[int]:
    return x.view(f"u{x.itemsize}").tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("of", INTEGERS)
@pytest.mark.parametrize("to", FLOATS)
def test_from_integers_to_floats(to: str, of: str, mode: str) -> None:
    given = whole(of)
    wanted = [rounded(Fraction(n), to, mode) if n else 0.0 for n in given.tolist()]
    found = execute(f"cvt.{mode}.{to}.{of}", given)
    assert bits(found) == bits(held(wanted, to))
    one = execute(f"cvt.{mode}.{to}.{of}", given[3])
    assert not isinstance(one, np.ndarray) and one == found[3]
    if to == "f32":
        found = execute(f"cvt.{mode}.sat.f32.{of}", given)
        assert found.tolist() == [float(n > 0) for n in given.tolist()]


def narrowed(x: float, to: str, mode: str) -> float:
    return rounded(Fraction(x), to, mode) if math.isfinite(x) and x else x


def flushed(x: float) -> float:
    return math.copysign(0.0, x) if abs(x) < 2.0**-126 else x


PAIRS = [(to, of) for to, of in itertools.product(FLOATS, FLOATS) if to != of]
NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("to", "of"), PAIRS)
def test_between_floats(to: str, of: str, mode: str) -> None:
    given = floats(of)
    seen = numbers(given, of)
    wider = FLOATS.index(to) > FLOATS.index(of) and (to, of) != ("bf16", "f16")
    opcode = f"cvt.{to}.{of}" if wider else f"cvt.{mode}.{to}.{of}"
    wanted = held([narrowed(x, to, "rn" if wider else mode) for x in seen], to)
    found = execute(opcode, given)
    nan = np.isnan(seen)
    assert bits(found[~nan]) == bits(wanted[~nan])
    if of != "f64" and to != "f64" and (to, of) != ("f32", "bf16"):
        assert set(bits(found[nan])) == {NAN[to]}
    if to in ("f16", "bf16"):
        if of == "f32":
            top = 65504.0 if to == "f16" else float(2**128 - 2**120)
            relu = execute(f"cvt.{mode}.relu.{to}.f32", given)
            clamped = [x if x > 0 else 0.0 for x in numbers(wanted, to)]
            assert bits(relu[~nan]) == bits(held(clamped, to)[~nan])
            assert set(bits(relu[nan])) == {0x7FFF}
            finite = execute(f"cvt.{mode}.satfinite.{to}.f32", given)
            most = [max(-top, min(x, top)) for x in numbers(wanted, to)]
            assert bits(finite[~nan]) == bits(held(most, to)[~nan])
            assert set(bits(finite[nan])) == {0x7FFF}
        if (to, of) in (("f16", "f32"), ("f16", "f64")):
            sat = execute(f"cvt.{mode}.sat.{to}.{of}", given)
            clamped = [min(x, 1.0) if x > 0 else 0.0 for x in numbers(wanted, to)]
            assert bits(sat) == bits(held(clamped, to))


def test_flushing_conversions() -> None:
    """.ftz: subnormal f32 numbers count as zeros, before and after."""
    given = floats("f64")
    found = execute("cvt.rn.ftz.f32.f64", given)
    nan = np.isnan(given)
    wanted = held([flushed(narrowed(x, "f32", "rn")) for x in given.tolist()], "f32")
    assert bits(found[~nan]) == bits(wanted[~nan])
    single = floats("f32")
    nan = np.isnan(single)
    zeros = [flushed(x) for x in numbers(single, "f32")]
    assert bits(execute("cvt.ftz.f64.f32", single)[~nan]) == bits(held(zeros, "f64")[~nan])
    found = execute("cvt.rn.ftz.f16.f32", np.array([2.0**-130], np.float32))
    assert bits(found) == [0]
    assert execute("cvt.rp.ftz.f16.f32", np.array([2.0**-130], np.float32)).tolist() == [2.0**-24]
    assert execute("cvt.rp.f64.f32", np.array([2.0**-130], np.float32)).tolist() == [2.0**-130]


@pytest.mark.parametrize("mode", ROUND)
@pytest.mark.parametrize("kind", FLOATS)
def test_to_an_integral_number(kind: str, mode: str) -> None:
    given = floats(kind)
    seen = numbers(given, kind)
    nan = np.isnan(seen)
    wanted = [math.copysign(float(ROUND[mode](x)), x) if abs(x) < 2**60 else x for x in seen]
    found = execute(f"cvt.{mode}.{kind}.{kind}", given)
    assert bits(found[~nan]) == bits(held(wanted, kind)[~nan])
    if kind in ("f32", "f64"):
        found = execute(f"cvt.{mode}.sat.{kind}.{kind}", given)
        assert found.tolist() == [min(x, 1.0) if x > 0 else 0.0 for x in wanted]
    if kind == "f32":
        found = execute("cvt.sat.f32.f32", given)
        assert found.tolist() == [min(x, 1.0) if x > 0 else 0.0 for x in seen]
        assert execute("cvt.f32.f32", given) is not None


def test_a_nan_of_f64_keeps_sign_and_upper_payload() -> None:
    """[as an H200 does] and is made quiet."""
    codes = np.array([0xFFF8000000000000, 0x7FF4000000000001, 0x7FF8ABCDEF012345], np.uint64)
    given = codes.view(np.float64)
    assert bits(execute("cvt.rn.f32.f64", given)) == [
        0xFFC00000, 0x7FE00000, 0x7F800000 | 0x8ABCDEF012345 >> 29,
    ]  # fmt: skip
    assert bits(execute("cvt.rn.f16.f64", given)) == [
        0xFE00, 0x7F00, 0x7C00 | 0x8ABCDEF012345 >> 42,
    ]  # fmt: skip
    assert bits(execute("cvt.rn.bf16.f64", given)) == [
        0xFFC0, 0x7FE0, 0x7F80 | 0x8ABCDEF012345 >> 45,
    ]  # fmt: skip
    assert bits(execute("cvt.rni.f64.f64", given)) == [
        0xFFF8000000000000, 0x7FFC000000000001, 0x7FF8ABCDEF012345,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_two_numbers_in_one_register(kind: str) -> None:
    """The first operand goes to the upper half."""
    a, b = np.array([1.5, -2.0, np.inf], np.float32), np.array([0.25, 3.0, -np.inf], np.float32)
    for word in ("", ".relu", ".satfinite"):
        found = execute(f"cvt.rn{word}.{kind}x2.f32", a, b)
        single = [execute(f"cvt.rn{word}.{kind}.f32", x).view(np.uint16).astype(np.uint32)
                  for x in (a, b)]  # fmt: skip
        assert found.dtype == np.uint32
        assert found.tolist() == (single[0] << 16 | single[1]).tolist()


TF32 = [
    # halves away from zero; to nearest even; towards zero
    (0x3F801000, 0x3F802000, 0x3F800000, 0x3F800000),
    (0x3F803000, 0x3F804000, 0x3F804000, 0x3F802000),
    (0x3F800FFF, 0x3F800000, 0x3F800000, 0x3F800000),
    (0x3F801001, 0x3F802000, 0x3F802000, 0x3F800000),
    (0xBF801000, 0xBF802000, 0xBF800000, 0xBF800000),
    (0x3FFFF000, 0x40000000, 0x40000000, 0x3FFFE000),
    (0x00001000, 0x00002000, 0x00000000, 0x00000000),
    (0x7F7FFFFF, 0x7F800000, 0x7F800000, 0x7F7FE000),
    (0x7F800000, 0x7F800000, 0x7F800000, 0x7F800000),
    (0xFF800000, 0xFF800000, 0xFF800000, 0xFF800000),
]
"""The bits of an f32 number, and of tf32 by .rna, .rn and .rz."""


@pytest.mark.parametrize(("place", "mode"), [(1, "rna"), (2, "rn"), (3, "rz")])
def test_to_tf32(place: int, mode: str) -> None:
    given = np.array([row[0] for row in TF32], np.uint32).view(np.float32)
    wanted = [row[place] for row in TF32]
    assert bits(execute(f"cvt.{mode}.tf32.f32", given)) == wanted
    relu = execute(f"cvt.{mode}.relu.tf32.f32", given)
    assert bits(relu) == [0 if code >> 31 else code for code in wanted]
    nan = np.array([0x7FC12345], np.uint32).view(np.float32)
    assert bits(execute(f"cvt.{mode}.tf32.f32", nan)) == [
        0x7FC12345 & 0xFFFFE000 if mode == "rna" else 0x7FFFE000
    ]
    if mode == "rna":
        finite = bits(execute("cvt.rna.satfinite.tf32.f32", given))
        assert finite[-3:] == [0x7F7FE000, 0x7F7FE000, 0xFF7FE000] and finite[:7] == wanted[:7]


PACKED = [("u16", 16), ("s16", 16), ("u8", 8), ("s8", 8), ("u4", 4), ("s4", 4), ("u2", 2),
          ("s2", 2)]  # fmt: skip


@pytest.mark.parametrize(("kind", "width"), PACKED)
def test_two_integers_clamped_and_packed_below_a_third(kind: str, width: int) -> None:
    some = [0, 1, -1, 2, -2, 3, 7, 8, -8, -9, 127, 128, -128, -129, 255, 256, 70000, -70000]
    rows = [*itertools.product(some, some)]
    a, b = (np.array(column, np.int32) for column in zip(*rows, strict=True))
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if kind[0] == "s" else (
        0, (1 << width) - 1)  # fmt: skip
    mask = (1 << width) - 1

    def packed(x: int, y: int) -> int:
        first, second = (max(low, min(n, high)) & mask for n in (x, y))
        return first << width | second

    c = np.arange(len(rows), dtype=np.uint32) * np.uint32(0x01234567)
    wanted = [packed(x, y) for x, y in rows]
    if width == 16:
        assert execute(f"cvt.pack.sat.{kind}.s32", a, b).tolist() == wanted
        return
    found = execute(f"cvt.pack.sat.{kind}.s32.b32", a, b, c)
    assert found.tolist() == [
        (n | int(z) << 2 * width) & 0xFFFFFFFF for n, z in zip(wanted, c, strict=True)
    ]


SHORT = {"e4m3": (8, {0x38: 1.0, 0x7E: 448.0, 0x01: 2.0**-9, 0xB8: -1.0}),
         "e5m2": (8, {0x3C: 1.0, 0x7B: 57344.0, 0x01: 2.0**-16, 0xBC: -1.0}),
         "e2m3": (8, {0x08: 1.0, 0x1F: 7.5, 0x01: 0.125, 0x28: -1.0}),
         "e3m2": (8, {0x0C: 1.0, 0x1F: 28.0, 0x01: 0.0625, 0x2C: -1.0}),
         "e2m1": (4, {0x2: 1.0, 0x7: 6.0, 0x1: 0.5, 0xA: -1.0})}  # fmt: skip
"""Bits of a number in a pair; some codes and what they stand for."""


@pytest.mark.parametrize("kind", SHORT)
def test_pairs_of_short_numbers(kind: str) -> None:
    """The first operand goes to the upper part, and comes back in the upper half."""
    width, codes = SHORT[kind]
    rows = [*itertools.product(codes, codes)]
    a, b = (np.array([codes[code] for code in column], np.float32)
            for column in zip(*rows, strict=True))  # fmt: skip
    pairs = [high << width | low for high, low in rows]
    found = execute(f"cvt.rn.satfinite.{kind}x2.f32", a, b)
    assert found.tolist() == pairs and found.dtype.itemsize == width // 4
    relu = execute(f"cvt.rn.satfinite.relu.{kind}x2.f32", a, b)
    positive = [[code if codes[code] > 0 else 0 for code in row] for row in rows]
    assert relu.tolist() == [high << width | low for high, low in positive]
    back = execute(f"cvt.rn.f16x2.{kind}x2", found)
    upper, lower = (back >> 16).astype(np.uint16), back.astype(np.uint16)
    assert upper.view(np.float16).tolist() == a.tolist()
    assert lower.view(np.float16).tolist() == b.tolist()
    back = execute(f"cvt.rn.relu.f16x2.{kind}x2", found)
    assert (back >> 16).astype(np.uint16).view(np.float16).tolist() == [max(x, 0) for x in a]
    large = execute(f"cvt.rn.satfinite.{kind}x2.f32", np.array([1e9, -1e9], np.float32),
                    np.array([0, 0], np.float32))  # fmt: skip
    most = max(codes, key=lambda code: codes[code])
    sign = {"e2m3": 0x20, "e3m2": 0x20, "e2m1": 8}.get(kind, 0x80)
    assert large.tolist() == [most << width, (most | sign) << width]
    one = execute(f"cvt.rn.satfinite.{kind}x2.f32", a[2], b[2])
    assert not isinstance(one, np.ndarray) and one == found[2]
    if width == 8 and kind.startswith(("e4", "e5")):
        for half in ("f16", "bf16"):
            both = execute(f"cvt.rn.{half}x2.f32", a, b)
            if half == "f16" or kind != "e4m3":
                assert execute(f"cvt.rn.satfinite.{kind}x2.{half}x2", both).tolist() == pairs


def test_short_numbers_that_are_none() -> None:
    found = execute("cvt.rn.f16x2.e4m3x2", np.array([0x7F38, 0x38FF], np.uint16))
    assert found.tolist() == [0x7FFF3C00, 0x3C007FFF]
    found = execute("cvt.rn.relu.f16x2.e5m2x2", np.array([0xFC7C, 0x7FBC], np.uint16))
    assert found.tolist() == [0x00007C00, 0x7FFF0000]


def test_pairs_of_scales() -> None:
    """Powers of two; .rz the one at or below, .rp the one at or above."""
    a = np.array([1.0, 1.5, 2.0**-127, 2.0**-140, np.inf, np.nan], np.float32)
    b = np.array([4.0, 5.0, 1.0, 1.0, 1.0, 1.0], np.float32)
    assert execute("cvt.rz.ue8m0x2.f32", a, b).tolist() == [
        127 << 8 | 129, 127 << 8 | 129, 127, 127, 255 << 8 | 127, 255 << 8 | 127,
    ]  # fmt: skip
    found = execute("cvt.rp.satfinite.ue8m0x2.f32", a, b)
    assert found.tolist() == [127 << 8 | 129, 128 << 8 | 130, 127, 127, 254 << 8 | 127,
                              255 << 8 | 127]  # fmt: skip
    pair = np.array([0x40A03FC0, 0x3F80FF80], np.uint32)  # 5 and 1.5; 1 and -inf
    assert execute("cvt.rz.ue8m0x2.bf16x2", pair).tolist() == [129 << 8 | 127, 127 << 8 | 255]
    assert execute("cvt.rp.ue8m0x2.bf16x2", pair).tolist() == [130 << 8 | 128, 127 << 8 | 255]
    assert execute("cvt.rp.satfinite.ue8m0x2.bf16x2", pair).tolist()[1] == 127 << 8 | 254
    back = execute("cvt.rn.bf16x2.ue8m0x2", np.array([127 << 8 | 129, 255 << 8 | 1], np.uint16))
    assert back.tolist() == [0x3F804080, 0x7FFF0080]


def scalar(opcode: str, *given: Any) -> None:
    found = execute(opcode, *given)
    one = execute(opcode, *(x[1] for x in given))
    assert not isinstance(one, np.ndarray) and one == found[1]


@pytest.mark.parametrize("opcode", ["cvt.rz.ue8m0x2.f32", "cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32",
                                    "cvt.rn.satfinite.e2m1x2.f32"])  # fmt: skip
def test_of_scalars_comes_a_scalar(opcode: str) -> None:
    scalar(opcode, np.array([1, 2, 3], np.float32), np.array([4, 0.5, 6], np.float32))
    scalar("cvt.rz.f32.s64", np.array([1, (1 << 60) + 1], np.int64))
    scalar("cvt.rn.bf16.u64", np.array([1, (1 << 60) + 1], np.uint64))
    scalar("cvt.rzi.s16.f16", np.array([1, 2.5], np.float16))
