"""Instructions of values, called as the translator calls them: by the table, without a kernel."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any

import numpy as np

import phasebit.emulator.ops  # noqa: F401, it fills the table
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Selected, select
from phasebit.emulator.ptx.types import dtype

HEAD = """.version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .b16 %h<9>; .reg .pred %p<9>; .reg .b8 %b<9>;
"""


@functools.cache
def chosen(opcode: str, count: int, results: int = 1) -> Selected:
    """What an opcode chooses of the table, with so many operands that are read.

    The carry flag, which no text names, is one of them.
    """
    count -= opcode.startswith(("addc", "subc", "madc"))
    cc = ".cc" in opcode
    operands = ["%r1|%p1" if results == 2 and not cc else "%r1", *["%r2"] * count]
    found = read(f"{HEAD}{opcode} {', '.join(operands)};\n}}\n").functions["k"].body[-1]
    assert isinstance(found, Instruction)
    return select(found)


def execute(opcode: str, *values: Any, results: int = 1) -> Any:
    """An instruction of arrays or of scalars, which are seen as its signature says."""
    entry = chosen(opcode, len(values), results)
    seen = []
    for word, value in zip(entry.entry.arguments, values, strict=False):
        form = dtype(entry.type_of(word.removeprefix("a")) if word != "a" else "u64")
        given = value if isinstance(value, np.ndarray | np.generic) else np.array(value)
        seen.append(given if given.dtype == form else given.view(form))
    with np.errstate(all="ignore"):
        return entry.function(*seen)


SHAPES = {"f16": (11, -24, 15), "bf16": (8, -133, 127), "f32": (24, -149, 127),
          "f64": (53, -1074, 1023)}  # fmt: skip
"""Bits of the significand, exponents of the smallest number and of the largest."""


def rounded(x: Fraction, kind: str, mode: str, least: int | None = None) -> float:
    """A fraction that is not zero as a number of the type; infinite where it is too large.

    ``least``: another exponent of the smallest number.
    """
    bits, small, most = SHAPES[kind]
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    while abs(x) < Fraction(2) ** exponent:
        exponent -= 1
    while abs(x) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    unit = Fraction(2) ** max(exponent - bits + 1, small if least is None else least)
    below = math.floor(x / unit)
    rest = x / unit - below
    up = {"rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and below % 2 == 1),
          "rz": x < 0 and rest > 0, "rm": False, "rp": rest > 0}[mode]  # fmt: skip
    found = (below + up) * unit
    top = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** most
    if abs(found) > top:
        away = mode == "rn" or mode == ("rp" if x > 0 else "rm")
        return math.copysign(math.inf if away else float(top), float(x > 0) - 0.5)
    return math.copysign(float(found), -1.0 if x < 0 else 1.0)
