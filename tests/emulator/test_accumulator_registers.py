"""Registers that `wgmma` works on, and those that `mov` connects with them, from the text alone."""

from __future__ import annotations

import re

import numpy as np

import phasebit.emulator.ops  # noqa: F401  what instructions there are
from phasebit.emulator.codegen.accumulator_registers import multiplied_registers, renames
from phasebit.emulator.machine.device_memory import POISON
from phasebit.emulator.ptx.control_flow import build
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.launching.launch import Module

HEAD = """.version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{
.reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<9>; .reg .pred %p<3>;
"""
SHARED = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, %rd1, %rd1, %p1, "
SHARED += "1, 1, 0, 0;"
HELD = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, "
HELD += "%r8}, %rd1, %p1, 1, 1, 0;"


def classes(body: str) -> set[frozenset[str]]:
    """Names of registers by class."""
    graph = build(read(f"{HEAD}{body}\nret;\n}}\n").functions["k"])
    found: dict[int, set[str]] = {}
    for index, root in multiplied_registers(graph).items():
        found.setdefault(root, set()).add(graph.function.registers[index].name)
    return {frozenset(names) for names in found.values()}


def sets(*names: str) -> set[frozenset[str]]:
    return {frozenset(each.split()) for each in names}


def test_those_that_the_instruction_names() -> None:
    assert classes("add.u32 %r1, %r2, %r3;") == set()
    assert classes(SHARED) == sets("%r1", "%r2", "%r3", "%r4")
    assert classes(HELD) == sets(*(f"%r{i}" for i in range(1, 9)))


def test_those_that_a_mov_connects() -> None:
    moves = "mov.b32 %r9, %r1; mov.f32 %f1, %r9; mov.b32 %r10, %r2; mov.b32 %r2, %r11; "
    moves += "mov.b32 %r12, %r13; add.u32 %r14, %r1, 1; mov.b32 %r15, 5;"
    assert classes(moves + SHARED) == sets("%r1 %r9 %f1", "%r2 %r10 %r11", "%r3", "%r4")


def test_those_that_it_does_not_connect() -> None:
    moves = "@%p1 mov.b32 %r9, %r1; mov.b64 %rd2, {%r1, %r2}; mov.b64 {%r10, %r11}, %rd2; "
    moves += "mov.b64 %rd3, %r3;"
    assert classes(moves + SHARED) == sets("%r1", "%r2", "%r3", "%r4")


def test_what_only_gives_another_name() -> None:
    body = "mov.b32 %r1, %r2; mov.b32 %r1, 5; @%p1 mov.b32 %r1, %r2; mov.b64 %rd1, {%r1, %r2}; "
    body += "add.u32 %r1, %r2, 0;"
    graph = build(read(f"{HEAD}{body}\nret;\n}}\n").functions["k"])
    found = [renames(each, graph.selected[each]) for each in graph.function.body[:-1]
             if isinstance(each, Instruction)]  # fmt: skip
    assert found == [True, True, False, False, False]


def watched(body: str) -> list[str]:
    source = Module(f"{HEAD}{body}\nret;\n}}\n")["k"].program(check=True).source
    calls = re.findall(r"(begins_product|looks_at|changes)(?:_\d+_)?\(g, (.*)\)\n", source)
    return [f"{name} {arguments}" for name, arguments in calls]


def test_who_watches_is_told_of_every_use() -> None:
    """The classes that a product takes; the values that are read, those that are computed."""
    assert watched("add.u32 %r1, %r2, %r3;") == []
    before = "mov.b32 %r1, %r9; add.u32 %r2, %r10, 1; add.u32 %r11, %r3, %r3; "
    after = " add.u32 %r12, %r10, 1; add.u32 %r4, %r4, %r11; mov.b32 %r13, %r1;"
    found = watched(before + SHARED + after)
    assert found == [  # %r1 is register 0, %r9 1, %r2 2, %r3 5, %r4 6
        "changes {2: R[2]}, (2,), 0", "looks_at (R[5],), 1", "begins_product (1, 2, 5, 6), 2",
        "looks_at (R[6],), 4", "changes {6: R[6]}, (6,), 4",
    ]  # fmt: skip


def test_a_product_looks_at_an_a_that_it_is_given() -> None:
    found = watched(HELD)
    assert len(found) == 2 and found[0].startswith("begins_product (")
    assert len(found[0].partition("(")[2].partition(")")[0].split(",")) == 8
    assert re.fullmatch(r"looks_at \(R\[\d+\], R\[\d+\], R\[\d+\], R\[\d+\],\), 0", found[1]), found


def test_those_that_nobody_has_written_hold_no_number_where_the_checker_looks() -> None:
    text = f"{HEAD}{HELD} st.global.u32 [%rd2], %r9;\nret;\n}}\n"
    kernel = Module(text)["k"]
    for check in (True, False):
        program = kernel.translated(check, False, False, None)
        values = program.fresh_registers(kernel.function)
        found = {
            register.name: int(value) for value, register in zip(
                values, kernel.function.registers, strict=True
            ) if isinstance(value, np.generic)
        }  # fmt: skip
        unwritten = POISON if check else 0
        assert found == {f"%r{i}": unwritten for i in range(1, 9)} | {
            "%r9": 0, "%rd1": 0, "%rd2": 0, "%p1": 0,
        }  # fmt: skip
