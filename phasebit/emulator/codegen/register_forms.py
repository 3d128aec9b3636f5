"""In which NumPy type each register is kept: that through which most instructions look at it."""

from __future__ import annotations

from collections import Counter

import numpy as np

from phasebit.emulator.ptx.control_flow import Graph
from phasebit.emulator.ptx.syntax import Register
from phasebit.emulator.ptx.types import SIZE, WIDE, Form, dtype


def register_forms(graph: Graph) -> list[Form]:
    """The form of each register of a function."""
    votes: list[Counter[str]] = [Counter() for _ in graph.function.registers]
    for instruction, chosen in graph.selected.items():
        if chosen.entry.traits.untyped:
            continue
        names = (*chosen.entry.results, *chosen.entry.arguments)
        for name, operand in zip(names, instruction.operands, strict=False):
            if isinstance(operand, Register) and name in ("x", "y", "w"):
                votes[operand.index][chosen.type_of(name)] += 1
    return [
        _form(register, vote)
        for register, vote in zip(graph.function.registers, votes, strict=True)
    ]


def _form(register: Register, vote: Counter[str]) -> Form:
    size = SIZE[register.type]
    if register.type == "b128":
        return WIDE
    declared = dtype(register.type)
    floats = sum(n for kind, n in vote.items() if kind == f"f{8 * size}")
    if register.type[0] in "bf" and floats * 2 > sum(vote.values()):
        return np.dtype(f"f{size}")
    return np.dtype(f"u{size}") if declared.kind == "i" else declared


__all__ = ["register_forms"]
