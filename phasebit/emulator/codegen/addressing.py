"""Where loads and stores find their data: index arrays into views of memory.

Accesses of a block that share a base register share one index array, made and checked once for
all of them: ``[%r5]``, ``[%r5+4]`` … differ only in where the view begins.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phasebit.emulator.codegen.operand_text import OperandText
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.ptx.control_flow import Graph, reads_and_writes
from phasebit.emulator.ptx.syntax import Address, Immediate, Instruction, Register, Symbol
from phasebit.emulator.ptx.table import Selected
from phasebit.emulator.ptx.types import SIZE, Form


class Base(NamedTuple):
    """What accesses share that have one index array."""

    what: str
    """``register``, ``symbol``, ``frame`` (a symbol that recursion moves), ``own`` (a shared
    symbol of the thread's own block, in a cluster)."""
    place: int
    """The register's number, or the symbol's address."""
    version: int
    """How often the register had been written."""
    space: str
    width: int
    """Bytes of one element."""


Key = tuple[int | str, ...]
"""A base, and for an access that its check of alignment does not cover its own offset and size."""


@dataclass
class Span:
    """Accesses that share an index array: offsets ``low`` to ``high``."""

    low: int = 1 << 62
    high: int = -(1 << 62)
    align: int = 1


class Index(NamedTuple):
    """An index array, and how far from it an access begins, in elements."""

    name: str
    start: int


def size_of(chosen: Selected) -> int:
    """The bytes of one thread's access, of all its elements."""
    size: int = SIZE[chosen.types[0]] * chosen.options.get("vector", 1)
    return size


class Addressing:
    """The index arrays of one block."""

    def __init__(self, program: TranslatedProgram, graph: Graph, operands: OperandText) -> None:
        self.program = program
        self.graph = graph
        self.function = graph.function
        self.operands = operands
        self.text = operands.text
        self.names = operands.names
        self.values = operands.values
        self._spans: dict[Key, Span] = {}
        self._widest: dict[Key, tuple[int, int]] = {}
        """For each base the offset and the bytes of the widest access."""
        self._indices: dict[Key, str] = {}
        self._checks: dict[str, int] = {}
        """Index array -> the access under which its addresses were checked."""

    # -- the plan -------------------------------------------------------------

    def plan(self, instructions: list[Instruction]) -> None:
        """Find, for each base, the range of offsets that these instructions use."""
        versions: Counter[int] = Counter()
        accesses: list[tuple[Base, int, int]] = []
        for instruction in instructions:
            chosen = self.graph.selected[instruction]
            if chosen.entry.accesses:
                base, offset = self.base(instruction, chosen, versions)
                accesses.append((base, offset, size_of(chosen)))
            versions.update(r.index for r in reads_and_writes(instruction, chosen)[1])
        for base, offset, size in accesses:
            if size > self._widest.get(base, (0, 0))[1]:
                self._widest[base] = (offset, size)
        for base, offset, size in accesses:
            span = self._spans.setdefault(self._key(base, offset, size), Span())
            span.low = min(span.low, offset)
            span.high = max(span.high, offset + size)
            span.align = max(span.align, size)
        for key, span in self._spans.items():
            if key in self._widest:  # begin where the widest access says that it is aligned
                span.low -= (span.low - self._widest[key][0]) % span.align

    def _key(self, base: Base, offset: int, size: int) -> Key:
        """Whose span an access belongs to: one check of alignment must hold for all in it."""
        return base if (offset - self._widest[base][0]) % size == 0 else (*base, offset, size)

    def base(
        self, instruction: Instruction, chosen: Selected, versions: Counter[int]
    ) -> tuple[Base, int]:
        """What an access shares with others, registers written so often, and its offset."""
        address = instruction.operands[1 if chosen.entry.traits.written == "load" else 0]
        assert isinstance(address, Address), "loads_and_stores.check_access asks that"
        space, width = chosen.options.get("space", "generic"), SIZE[chosen.types[0]]
        base, layout = address.base, self.program.layout
        if isinstance(base, Symbol):
            space, where = layout.place(base, self.function, instruction)
            what = "frame" if layout.moves(base, self.function) else "symbol"
            if space == "shared" and self.program.clustered:
                what = "own"
            return Base(what, where, 0, space, width), address.offset
        if isinstance(base, Immediate):
            return Base("symbol", int(base.value), 0, space, width), address.offset
        assert isinstance(base, Register)
        if space == "param" and not self.function.is_entry:
            space = "local"  # a function's parameters lie in its stack frame
        version = versions[base.index]
        return Base("register", base.index, version, space, width), address.offset

    # -- the text -------------------------------------------------------------

    def index(self, instruction: Instruction, chosen: Selected) -> Index:
        """The index array of an access, made where it is wanted first."""
        base, offset = self.base(instruction, chosen, self.values.versions)
        size = size_of(chosen)
        key = self._key(base, offset, size)
        span = self._spans[key]
        shift = base.width.bit_length() - 1
        if key not in self._indices:
            self._indices[key] = self._make(instruction, base, span, shift)
        name = self._indices[key]
        covered = self.program.covered.setdefault(self._checks[name], [])
        covered.append((instruction, offset - span.low, size))
        return Index(name, (offset - span.low) >> shift)

    def _make(self, instruction: Instruction, base: Base, span: Span, shift: int) -> str:
        """Write an index array for a whole span."""
        form: Form
        if base.what == "register":
            register = self.function.registers[base.place]
            form = np.dtype(f"u{SIZE[register.type]}")
            text = self.values.register(register, form)
        else:
            form = np.dtype("u4" if base.space == "shared" else "u8")
            text = self.names.constant(base.place, form)
            if base.what == "own":
                text = f"({text} + {self.operands.own_window(form)})"
            if base.what == "frame":
                text = f"({text} + {self.operands.frame_base(form)})"
        name = self.text.fresh("i")
        low = self.names.constant(span.low, form)
        number = self.program.number(instruction)
        if self.program.clustered:  # the address may name a block that is not there
            self.text.aside(f"g.at = {number}")
        self.text.aside(
            f"{name} = g.{base.space}_index({text}, {low}, {span.high - span.low}, "
            f"{shift}, {span.align}, {number})"
        )
        self._checks[name] = number
        return name

    def view(self, form: Form, start: int) -> str:
        """Memory seen as ``form``, from element ``start`` on."""
        name = self.text.prologue(f"M_{form.str[1:]}", f"g.memory.{form.str[1:]}")
        return f"{name}[{start}:]" if start else name


__all__ = ["Addressing", "Base", "Index", "size_of"]
