"""The checks of *Attention again* accept what is right and refuse what people write."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from phasebit.chapters.attention_again import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_attention_again.ipynb"))


def answers() -> list[dict[str, object]]:
    found = []
    for solution in solutions(CHAPTER):
        names: dict[str, object] = {}
        exec(solution, names)
        found.append(names)
    return found


THRESHOLD, POWER, FOLLOW = answers()


def test_no_answer_yet() -> None:
    assert check.highest_threshold.verdict(lambda *a: ...).endswith("not answered yet")
    for each in check.polynomial, check.lazy:
        assert each.verdict(...).endswith("not answered yet")
        assert each.verdict("// yours").endswith("not answered yet")
        assert "give the text of the function" in each.verdict(3)


def test_the_solution_of_arithmetic_is_right() -> None:
    said = check.highest_threshold.verdict(THRESHOLD["highest_threshold"])
    assert said.startswith("highest_threshold: OK")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda greatest, keys: 8,
        lambda greatest, keys: math.floor(math.log2(greatest)),
        lambda greatest, keys: math.floor(math.log2(greatest / keys)),
        lambda greatest, keys: min(math.ceil(math.log2(greatest)), 127 - keys.bit_length()),
        lambda greatest, keys: 127 - math.floor(math.log2(keys)),
        lambda greatest, keys: min(math.floor(math.log2(greatest)), 128),
    ],
)
def test_highest_threshold_refuses(wrong: Callable[[float, int], int]) -> None:
    assert "not right yet" in check.highest_threshold.verdict(wrong)


SHIFT, FOURTH = "12582912.f", "    p = fmaf(p, f, 0.99992806f);\n"
POWERS = {
    "the special unit": ((FOURTH, "    return exp2f(x);\n"),),
    "no lower end": (("    x = fmaxf(x, -126);\n", ""),),
    "a lower end too low": (("x = fmaxf(x, -126)", "x = fmaxf(x, -150)"),),
    "a lower end too high": (("x = fmaxf(x, -126)", "x = fmaxf(x, -100)"),),
    "a shift for positive numbers only": ((SHIFT, "8388608.f"),),
    "a shift twice as large": ((SHIFT, "25165824.f"),),
    "down, not to the nearest": (
        ("whole = x + shift;", "whole = (x - 0.5f) + shift;"),),
    "the rest with the wrong sign": (("x - (whole - shift)", "(whole - shift) - x"),),
    "degree 2": (("fmaf(0.05517167f, f, 0.24261113f)", "0.24261113f"),),
    "Taylor's coefficients": (
        ("0.05517167f", "0.05550411f"), ("0.24261113f", "0.24022651f"),
        ("0.69326097f", "0.69314718f"), ("0.99992806f", "1.f")),
    "coefficients the other way round": (
        ("0.05517167f", "0.99992806f"), ("0.24261113f", "0.69326097f"),
        ("    p = fmaf(p, f, 0.69326097f);\n" + FOURTH,
         "    p = fmaf(p, f, 0.24261113f);\n    p = fmaf(p, f, 0.05517167f);\n")),
    "one bit too far": (("<< 23", "<< 24"),),
    "the exponent replaced": (
        ("__float_as_uint(p) + (__float_as_uint(whole) << 23)",
         "(__float_as_uint(p) & 0x7fffff) + (__float_as_uint(whole) << 23)"),),
    "the number, not its bits": (
        ("__float_as_uint(whole) << 23", "unsigned(int(whole - shift + 1)) << 23"),),
    "no polynomial": (("    return __uint", "    p = 1;\n    return __uint"),),
    "another head": (("float power(float x)", "float power(double x)"),),
    "a word that C++ has not": (("const float f =", "const flaot f ="),),
}  # fmt: skip


@pytest.mark.nvcc
def test_polynomial_takes_the_solution() -> None:
    assert check.polynomial.verdict(POWER["source"]).startswith("polynomial: OK")


@pytest.mark.nvcc
@pytest.mark.parametrize("name", POWERS)
def test_polynomial_refuses(name: str) -> None:
    text = str(POWER["source"])
    for old, new in POWERS[name]:
        text = replace_once(text, old, new)
    assert check.polynomial.verdict(text).startswith("polynomial: not right yet: ")


STAYS, MOVES = "    if (moved <= threshold) return 1;\n", "    row.reference = most;\n"
FOLLOWS = {
    "always": ((STAYS, ""),),
    "whenever it is larger": (("moved <= threshold", "moved <= 0"),),
    "never": ((STAYS, "    return 1;\n"),),
    "also at the threshold": (("moved <= threshold", "moved < threshold"),),
    "the threshold without the scale": (
        ("(moved <= threshold)", "(most - row.reference <= threshold)"),),
    "down as well": (("(moved <= threshold)", "(fabsf(moved) <= threshold)"),),
    "moves before it decides": ((STAYS + MOVES, MOVES + STAYS),),
    "the reference stays": ((MOVES, ""),),
    "the factor the wrong way round": (("exp2f(-moved)", "exp2f(moved)"),),
    "a power of e": (("exp2f(-moved)", "expf(-moved)"),),
    "no factor": (("return exp2f(-moved)", "return 1"),),
    "0 where it stays": (("return 1;", "return 0;"),),
    "up by the threshold only": ((MOVES, "    row.reference += threshold / scale;\n"),),
    "the factor without the scale": (
        (") * scale", ")"), ("moved <= threshold", "moved * scale <= threshold")),
}  # fmt: skip


@pytest.mark.nvcc
def test_lazy_takes_the_solution() -> None:
    assert check.lazy.verdict(FOLLOW["source"]).startswith("lazy: OK")


@pytest.mark.nvcc
@pytest.mark.parametrize("name", FOLLOWS)
def test_lazy_refuses(name: str) -> None:
    text = str(FOLLOW["source"])
    for old, new in FOLLOWS[name]:
        text = replace_once(text, old, new)
    assert check.lazy.verdict(text).startswith("lazy: not right yet: ")
