"""What is read of PTX text: operands are values that nobody changes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from phasebit.emulator.findings import Call
from phasebit.emulator.ptx import syntax
from phasebit.emulator.ptx.syntax import (
    Immediate,
    Location,
    Not,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)

A, B = Register("%r1", "b32", 0), Register("%r2", "b32", 1)
VALUES: list[tuple[Any, Any, Any]] = [
    (Immediate(1), Immediate(1), Immediate(2)), (Symbol("a"), Symbol("a"), Symbol("b")),
    (Special("tid.x"), Special("tid.x"), Special("tid.y")), (Not(A), Not(A), Not(B)),
    (Sink(), Sink(), None), (Vector((A, B)), Vector((A, B)), Vector((B, A))),
    (Pair(A, B), Pair(A, B), Pair(B, A)),
]  # fmt: skip


@pytest.mark.parametrize(("one", "same", "other"), VALUES, ids=lambda each: type(each).__name__)
def test_operands_are_equal_by_what_they_say_and_stay_as_they_are(
    one: Any, same: Any, other: Any
) -> None:
    assert one == same != other and len({one, same}) == 1
    for field in dataclasses.fields(one):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, field.name, None)
    with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
        one.more = 1


def test_registers_and_instructions_are_themselves() -> None:
    assert A == A != Register("%r1", "b32", 0)
    for kind in (
        syntax.Register,
        syntax.Instruction,
        syntax.Label,
        syntax.Variable,
        syntax.Function,
    ):
        assert kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__


OWN = Location("k.cu", 41, column=3)
INSIDE = Location("k.cu", 12, OWN, "wait", 5)
HEADER = Location("ptx.cuh", 7, INSIDE, "ptx::wait")


def test_a_place_within_inlined_functions() -> None:
    assert OWN.ways == [OWN] and OWN.own == OWN and OWN.calls == (Call(41, 3),)
    assert INSIDE.ways == [OWN, INSIDE] and INSIDE.own == INSIDE
    assert INSIDE.calls == (Call(41, 3), Call(12, 5, "wait"))
    assert HEADER.ways == [OWN, INSIDE] and HEADER.own == INSIDE and HEADER.calls == INSIDE.calls
    assert str(OWN) == "k.cu:41" and "k.cu:41" in str(HEADER) and "12" in str(HEADER)
