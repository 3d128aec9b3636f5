"""From basic blocks to Python functions.

Each block becomes one function of the group that executes it.  The body is in
single-assignment form: a local variable for every result, read from the
register file ``R`` when it comes from an earlier block and written back when a
later block wants it.  For example

    setp.lt.s32 %p1, %r1, 32;
    @%p1 bra $L__BB0_2;

becomes

    def block_0(g):
        R = g.registers
        r1 = R[1]
        r1_i4 = r1.view(i4)
        p1 = setp_lt(r1_i4, k32_i4)    # 14: setp.lt.s32 %p1, %r1, 32
        return branch(g, p1, 2, 1)     # 15: @%p1 bra $L__BB0_2

All values are arrays over the group's threads, or scalars where the threads
agree.  Registers are untyped: a value has one NumPy form for each type it is
looked at through, made once.  Loads and stores that share a base register share
one index array: ``[%r5]``, ``[%r5+4]`` … differ only in where the view begins.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasebit.emulator import operands
from phasebit.emulator.cfg import Block, Graph, build
from phasebit.emulator.layout import Layout
from phasebit.emulator.memory import POISON, VIEWS
from phasebit.emulator.ops import control, memory
from phasebit.emulator.syntax import (
    Function,
    Instruction,
    Module,
    Register,
)
from phasebit.emulator.types import SIZE, WIDE, dtype
from phasebit.emulator.wgmma_checks import classes
from phasebit.emulator.write_block import BlockWriter
from phasebit.emulator.write_values import Form


@dataclass(eq=False)
class Program:
    """A kernel and all it calls, translated.

    Blocks are numbered through all functions, so a program counter is one integer.
    """

    module: Module
    kernel: Function
    layout: Layout
    checked: bool
    exact: bool = True
    clustered: bool = False
    """Whether blocks run in clusters: then shared addresses begin with the block's rank."""
    graphs: dict[str, Graph] = field(default_factory=dict)
    first_block: dict[str, int] = field(default_factory=dict)
    code: list[Callable[[Any], int]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    """The function of each block."""
    live: list[tuple[int, ...]] = field(default_factory=list)
    forms: dict[str, list[Form]] = field(default_factory=dict)
    """The NumPy type in which each register of a function is kept."""
    source: str = ""
    """The generated Python text."""
    accesses: list[Instruction] = field(default_factory=list)
    """Memory instructions by the number under which the checker knows them."""
    covered: dict[int, list[tuple[Instruction, int, int]]] = field(default_factory=dict)
    """Access whose check of addresses covers others -> each of them, the bytes from the first
    address checked to its own, and its width in bytes."""
    bound: dict[str, dict[object, str]] = field(default_factory=dict)
    """What the generated text calls objects: the name asked for -> object -> its own name."""
    _accesses_of: dict[Instruction, int] = field(default_factory=dict)
    _running: dict[int, Instruction | None] = field(default_factory=dict)
    joins: list[int] = field(default_factory=list)
    """For each block the one where the ways of its branch meet again, or -1."""
    sizes: list[int] = field(default_factory=list)
    """Instructions in each block."""
    early: dict[tuple[Instruction, str], tuple[Instruction, str] | None] = field(
        default_factory=dict
    )
    """Load and wait -> what uses its registers before: see ``register_waits``."""

    def fresh_registers(self, function: Function) -> list[Any]:
        """A function's registers on entry: those read before they are written hold zero.

        Where the checker looks, those that ``wgmma`` takes hold poison.
        """
        registers: list[Any] = [None] * len(function.registers)
        forms, poisoned = self.forms[function.name], self.graphs[function.name].classes
        for index in self.live[self.entry(function.name)]:
            form = forms[index]
            registers[index] = form.type(0)
            if index in poisoned and form.itemsize == 4:
                registers[index] = np.uint32(POISON).view(form)
        return registers

    def entry(self, name: str) -> int:
        return self.first_block[name]

    def executing(self) -> Instruction | None:
        """The instruction whose generated Python text is running: its comment is in that text."""
        frame = sys._getframe(1)
        name = f"<{self.kernel.name}>"
        while frame.f_code.co_filename != name:
            if frame.f_back is None:
                return None
            frame = frame.f_back
        if frame.f_lineno not in self._running:
            self._running[frame.f_lineno] = self._instruction_of(frame.f_lineno)
        return self._running[frame.f_lineno]

    def _instruction_of(self, number: int) -> Instruction | None:
        """The last instruction that a comment names, up to this line of the generated text."""
        for line in reversed(self._lines[:number]):
            if line.startswith("def "):
                return None
            if found := re.search(r"  # (\d+): (.*)$", line):
                named = self._commented.get((int(found[1]), found[2]))
                if named is not None:
                    return named
        return None

    @functools.cached_property
    def _lines(self) -> list[str]:
        return self.source.splitlines()

    @functools.cached_property
    def _commented(self) -> dict[tuple[int, str], Instruction]:
        """Instructions by what their comments say."""
        found: dict[tuple[int, str], Instruction] = {}
        for block in self.blocks:
            for instruction in filter(None, [*block.body, block.collective, block.end]):
                found.setdefault((instruction.line, instruction.text), instruction)
        return found

    def executing_access(self) -> int:
        """The checker's number for the memory instruction that is being executed."""
        instruction = self.executing()
        if instruction is None:
            return -1
        if instruction not in self._accesses_of:
            self._accesses_of[instruction] = self.access_id(instruction)
        return self._accesses_of[instruction]

    def access_id(self, instruction: Instruction) -> int:
        self.accesses.append(instruction)
        return len(self.accesses) - 1


def translate(
    module: Module, kernel: Function, layout: Layout, checked: bool, exact: bool = True,
    clustered: bool = False,
) -> Program:  # fmt: skip
    """Translate a kernel and every function it can reach.

    Raises :class:`PtxError` for an instruction or an operand that is not supported.
    """
    program = Program(module, kernel, layout, checked, exact, clustered)
    for function in layout.functions:
        graph = build(function)
        if checked:
            graph.classes = classes(graph)
        program.graphs[function.name] = graph
        program.first_block[function.name] = len(program.blocks)
        program.blocks += graph.blocks
        program.functions += [function] * len(graph.blocks)
        first = program.first_block[function.name]
        program.joins += [
            -1 if block.post_dominator is None else first + block.post_dominator
            for block in graph.blocks
        ]
        program.live += [tuple(sorted(block.live_in)) for block in graph.blocks]
        program.forms[function.name] = _storage_forms(graph)
    names: dict[str, Any] = {
        "store": memory.store,
        "select": control.select,
        **{name: getattr(control, name) for name in control.__all__},
        **{name: np.dtype(name) for name in VIEWS},
    }  # fmt: skip
    text: list[str] = []
    for function in layout.functions:
        graph = program.graphs[function.name]
        for block in graph.blocks:
            writer = BlockWriter(program, graph, block, names)
            try:
                text += writer.write()
            except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
                raise operands.misfit(
                    writer.at, f"these operands do not fit the instruction ({error!r})"
                ) from error
            text.append("")
    program.source = "\n".join(text)
    exec(compile(program.source, f"<{kernel.name}>", "exec"), names)
    program.code = [names[f"block_{i}"] for i in range(len(program.blocks))]
    program.sizes = [
        len(b.body) + (b.end is not None) + (b.collective is not None) for b in program.blocks
    ]
    return program


def _storage_forms(graph: Graph) -> list[Form]:
    """Keep each register in the form that most instructions look at it through."""
    votes: list[Counter[str]] = [Counter() for _ in graph.function.registers]
    for instruction, chosen in graph.selected.items():
        if chosen.entry.mnemonic in ("mov", "ld", "st", "selp"):
            continue
        names = (*chosen.entry.results, *chosen.entry.arguments)
        for name, operand in zip(names, instruction.operands, strict=False):
            if isinstance(operand, Register) and name in ("x", "y", "w"):
                votes[operand.index][chosen.type_of(name)] += 1
    forms = []
    for register, vote in zip(graph.function.registers, votes, strict=True):
        size = SIZE[register.type]
        if register.type == "b128":
            forms.append(WIDE)
            continue
        declared = dtype(register.type)
        floats = sum(n for kind, n in vote.items() if kind == f"f{8 * size}")
        if register.type[0] in "bf" and floats * 2 > sum(vote.values()):
            declared = np.dtype(f"f{size}")
        elif declared.kind == "i":
            declared = np.dtype(f"u{size}")
        forms.append(declared)
    return forms


__all__ = ["Program", "translate"]
