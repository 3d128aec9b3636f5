"""Instructions of values, called as the translator calls them: by the table, without a kernel."""

from __future__ import annotations

import functools
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
