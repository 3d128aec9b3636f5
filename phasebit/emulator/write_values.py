"""Writing a block, part one: variables, constants, operands and results.

See :mod:`phasebit.emulator.translate` for what the generated text looks like.
"""

from __future__ import annotations

import keyword
import struct
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.cfg import Block, Graph
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ops import move
from phasebit.emulator.syntax import (
    Address,
    Immediate,
    Instruction,
    Not,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from phasebit.emulator.types import SIZE, WIDE, dtype

if TYPE_CHECKING:
    from phasebit.emulator.translate import Program

Form = np.dtype[Any]
BOOL = np.dtype(bool)


@dataclass
class Span:
    """Accesses of a block that share base, space and width: offsets ``low`` to ``high``."""

    low: int = 1 << 62
    high: int = -(1 << 62)
    align: int = 1


class ValueWriter:
    """The variables of one block's function: what holds each register, in which form."""

    def __init__(self, program: Program, graph: Graph, block: Block, names: dict[str, Any]) -> None:
        self.program = program
        self.graph = graph
        self.function = graph.function
        self.block = block
        self.names = names
        self.first = program.first_block[self.function.name]
        self.forms = program.forms[self.function.name]
        self.head: list[str] = []
        self.lines: list[str] = []
        self.note = ""
        items = [*block.body, *filter(None, [block.collective, block.skip, block.end])]
        self.at = items[0] if items else None
        """The instruction being written."""
        self.values: dict[int, tuple[str, Form]] = {}
        """Register -> the variable that holds it now, and its form."""
        self.views: dict[tuple[str, str], str] = {}
        self.versions: Counter[int] = Counter()
        self.defined: set[int] = set()
        self.spans: dict[tuple[Any, ...], Span] = {}
        self.anchors: dict[tuple[Any, ...], tuple[int, int]] = {}
        """For each base the offset and the bytes of the widest access."""
        self.indices: dict[tuple[Any, ...], str] = {}
        self.checks: dict[str, int] = {}
        """Index array -> the access under which its addresses were checked."""
        self.heads_seen: set[str] = set()
        self.used: set[str] = {"g", "R"}
        self.temporaries = 0
        self.segment = 0
        self.segment_kind = ""
        self.watched: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        self.meetings: dict[tuple[Any, ...], str] = {}
        """For stores that are watched together: the variable that says whether threads meet."""

    # -- text -----------------------------------------------------------------

    def emit(self, text: str) -> None:
        self.lines.append(f"    {text}{self.note}")
        self.note = ""

    def fresh(self, prefix: str = "t") -> str:
        self.temporaries += 1
        return f"{prefix}_{self.temporaries}"

    def bind(self, wanted: str, thing: Any) -> str:
        """A global name of the generated code for an object; equal tuples share one.

        A number at its end keeps it apart from others; no register's name ends in ``_``.
        """
        name = plain = "".join(c if c.isalnum() else "_" for c in wanted)
        known = self.program.bound.setdefault(plain, {})
        key = thing if isinstance(thing, tuple) else id(thing)
        if key not in known:
            if self.names.setdefault(name, thing) is not thing:
                name = f"{plain}_{len(known) + 2}_"
                self.names[name] = thing
            known[key] = name
        return known[key]

    def prologue(self, name: str, text: str) -> str:
        if name not in self.heads_seen:
            self.heads_seen.add(name)
            self.head.append(f"    {name} = {text}")
        return name

    # -- values ---------------------------------------------------------------

    def register(self, register: Register, form: Form) -> str:
        """The variable that holds a register, in the form asked for."""
        if register.index not in self.values:
            stored = self.forms[register.index]
            name = self.prologue(f"v{register.index}", f"R[{register.index}]")
            self.values[register.index] = (name, stored)
        name, have = self.values[register.index]
        return self.convert(name, have, form)

    def convert(self, name: str, have: Form, form: Form) -> str:
        if have == form:
            return name
        key = (name, form.str)
        if key in self.views:
            return self.views[key]
        new = f"{name}_{form.str[1:]}"
        if have == BOOL or form == BOOL:
            text = f"({name} != 0)" if form == BOOL else f"{name}.astype({form.str[1:]})"
        elif have.itemsize == form.itemsize:
            text = f"{name}.view({form.str[1:]})"
        elif have.itemsize > form.itemsize:
            narrow = f"u{form.itemsize}"
            wide = f"u{have.itemsize}"
            source = self.convert(name, have, np.dtype(wide))
            text = f"{source}.astype({narrow})"
            if form.str[1:] != narrow:
                text += f".view({form.str[1:]})"
        else:  # a narrow register read by a wide instruction: zero-extended
            source = self.convert(name, have, np.dtype(f"u{have.itemsize}"))
            text = f"{source}.astype(u{form.itemsize})"
            if form.kind != "u":
                text += f".view({form.str[1:]})"
        saved, self.note = self.note, ""
        self.emit(f"{new} = {text}")
        self.note = saved
        self.views[key] = new
        return new

    def constant(self, value: int | float, form: Form, bits: int | None = None) -> str:
        """A NumPy scalar bound to a name of the generated code."""
        if bits is not None and form.kind == "f" and form.itemsize == 8 and bits < 1 << 32:
            bits = None
        if bits is not None:
            if form.itemsize == 4 and bits >= 1 << 32:  # 0d literal for a 32-bit operand
                bits = struct.unpack("<I", struct.pack("<f", value))[0]
            raw = (bits & ((1 << 8 * form.itemsize) - 1)).to_bytes(form.itemsize, "little")
            scalar = np.frombuffer(raw, form)[0]
            name = f"k{bits:x}_{form.str[1:]}"
        elif form == BOOL:
            scalar, name = np.bool_(bool(value)), "true" if value else "false"
        elif form.kind == "f":
            scalar = form.type(value)
            name = f"k{scalar.view(f'u{form.itemsize}'):x}_{form.str[1:]}"
        else:
            number = int(value) & ((1 << 8 * form.itemsize) - 1)
            scalar = np.frombuffer(number.to_bytes(form.itemsize, "little"), form)[0]
            name = f"k{number}_{form.str[1:]}"
        self.names.setdefault(name, scalar)
        return name

    def operand(self, operand: Operand, kind: str, instruction: Instruction) -> str:
        """Python text for an operand seen as ``kind``."""
        if kind.startswith("*"):
            items = operand.items if isinstance(operand, Vector) else (operand,)
            inner = ", ".join(self.operand(item, kind[1:], instruction) for item in items)
            return f"({inner},)"
        if kind == "any":
            return self.anything(operand, instruction)
        if kind == "a":
            return self.address(operand, instruction)
        if kind == "u64|*b32":
            kind = "*b32" if isinstance(operand, Vector) else "u64"
            return self.operand(operand, kind, instruction)
        if kind == "t":
            return self.tensor(operand, instruction)
        if kind == "u32|pred":
            kind = "pred" if isinstance(operand, Register) and operand.type == "pred" else "u32"
        form = dtype(kind)
        if isinstance(operand, Register):
            return self.register(operand, form)
        if isinstance(operand, Immediate):
            return self.constant(operand.value, form, operand.bits)
        if isinstance(operand, Not):
            return f"~{self.register(operand.operand, BOOL)}"
        if isinstance(operand, Special):
            return self.special(operand, form, instruction)
        if isinstance(operand, Symbol):
            where = self.program.layout.address(operand, self.function, instruction)
            return self.based(operand, self.constant(where, form), form)
        if isinstance(operand, Vector):
            return self.pack(operand, form, instruction)
        raise PtxError(f"operand {operand} does not fit here: {instruction.text}", instruction.line)

    def anything(self, operand: Operand, instruction: Instruction) -> str:
        """An operand of which there are several kinds: a pair of a word and a value.

        ``("a", address)``, ``("*b32", values)``, ``("pred", …)`` or by size, ``("b64", …)``.
        """
        if isinstance(operand, Address):
            kind = "a"
        elif isinstance(operand, Vector):
            kind = "*b32"
        elif isinstance(operand, Not):
            kind = "pred"
        elif isinstance(operand, Register):
            kind = "pred" if operand.type == "pred" else f"b{8 * SIZE[operand.type]}"
        else:
            kind = "b32"
        return f"({kind!r}, {self.operand(operand, kind, instruction)})"

    def based(self, symbol: Symbol, text: str, form: Form) -> str:
        """The address of a symbol, which may depend on who asks.

        In a function that recursion moves it is relative to the group's base; in a cluster the
        address of a shared variable begins with the block's rank.
        """
        if self.program.clustered and symbol.name in self.program.layout.shared:
            return f"({text} + {self.own_window(form)})"
        if not self.program.layout.moves(symbol, self.function):
            return text
        base = self.prologue(f"B_{form.str[1:]}", f"{form.str[1:]}.type(g.base)")
        return f"({text} + {base})"

    def own_window(self, form: Form) -> str:
        """Where the shared memory of each thread's own block begins, in a cluster."""
        name = form.str[1:]
        return self.prologue(f"W_{name}", f"g.own_window().astype({name})")

    def special(self, operand: Special, form: Form, instruction: Instruction) -> str:
        from phasebit.emulator.special import FORMS

        if operand.name not in FORMS:
            raise PtxError(
                f"the special register %{operand.name} is not supported", instruction.line
            )
        name = self.fresh("s")
        saved, self.note = self.note, ""
        self.emit(f"{name} = g.special({operand.name!r})")
        self.note = saved
        return self.convert(name, FORMS[operand.name], form)

    def address(self, operand: Operand, instruction: Instruction) -> str:
        """The value of an address operand, offset added."""
        if not isinstance(operand, Address):
            return self.operand(operand, "u64", instruction)
        if isinstance(operand.base, Symbol):
            symbol = Symbol(operand.base.name, operand.offset)
            where = self.program.layout.address(symbol, self.function, instruction)
            form = np.dtype("u8" if where >= 1 << 32 else "u4")
            return self.based(symbol, self.constant(where, form), form)
        if isinstance(operand.base, Immediate):
            return self.constant(int(operand.base.value) + operand.offset, np.dtype("u8"))
        assert isinstance(operand.base, Register)
        form = np.dtype(f"u{SIZE[operand.base.type]}")
        base = self.register(operand.base, form)
        if operand.offset:
            return f"({base} + {self.constant(operand.offset, form)})"
        return base

    def tensor(self, operand: Operand, instruction: Instruction) -> str:
        """``[map, {c0, c1}]``: the map's address and the coordinates."""
        if not isinstance(operand, Address) or len(operand.rest) != 1:
            raise PtxError(
                f"a tensor is a map and coordinates in braces: {instruction.text}",
                instruction.line,
            )
        base = self.address(Address(operand.base, operand.offset), instruction)
        return f"({base}, {self.operand(operand.rest[0], '*s32', instruction)})"

    # -- results --------------------------------------------------------------

    def assign(self, register: Register, name: str, form: Form, instruction: Instruction) -> None:
        """Make ``name`` the value of a register from here on."""
        target = SIZE[register.type]
        if register.type == "pred":
            name, form = self.convert(name, form, BOOL), BOOL
        elif form == BOOL:
            name, form = self.convert(name, form, np.dtype(f"u{target}")), np.dtype(f"u{target}")
        elif form.itemsize < target:  # extended by the type of the instruction
            wide = np.dtype(f"{'i' if form.kind == 'i' else 'u'}{target}")
            if form.kind == "f":
                name = self.convert(name, form, np.dtype(f"u{form.itemsize}"))
            new = self.fresh()
            self.emit(f"{new} = {name}.astype({wide.str[1:]})")
            name, form = new, wide
        elif form.itemsize > target:
            name, form = self.convert(name, form, np.dtype(f"u{target}")), np.dtype(f"u{target}")
        if instruction.guard is not None:
            stored = self.forms[register.index]
            old = self.register(register, stored)
            mine = self.convert(name, form, stored)
            guard = self.register(instruction.guard, BOOL)
            new = self.fresh()
            first, second = (old, mine) if instruction.guard_negated else (mine, old)
            self.emit(f"{new} = select({guard}, {first}, {second})")
            name, form = new, stored
        self.values[register.index] = (name, form)
        self.versions[register.index] += 1
        self.defined.add(register.index)

    def assign_any(self, operand: Operand, name: str, form: Form, instruction: Instruction) -> None:
        if isinstance(operand, Register):
            self.assign(operand, name, form, instruction)
        elif not isinstance(operand, Sink):
            raise PtxError(f"{operand} cannot be written: {instruction.text}", instruction.line)

    def pack(self, operand: Vector, form: Form, instruction: Instruction) -> str:
        """``mov.b64 %rd, {%r1, %r2}``: the first item is the lowest part."""
        part = np.dtype(f"u{form.itemsize // len(operand.items)}")
        if form == WIDE:
            halves = [self.operand(item, f"b{8 * part.itemsize}", instruction)
                      for item in operand.items]  # fmt: skip
            name = self.fresh()
            self.emit(f"{name} = {self.bind('wide', move.wide)}({', '.join(halves)})")
            return name
        whole = np.dtype(f"u{form.itemsize}")
        texts = []
        for place, item in enumerate(operand.items):
            text = self.operand(item, f"b{8 * part.itemsize}", instruction)
            text = f"{text}.astype({whole.str[1:]})"
            shift = self.constant(8 * part.itemsize * place, whole)
            texts.append(f"({text} << {shift})" if place else text)
        name = self.fresh()
        self.emit(f"{name} = {' | '.join(texts)}")
        return self.convert(name, whole, form)

    def unpack(self, result: Vector, source: Operand, form: Form, instruction: Instruction) -> None:
        """``mov.b64 {%r1, %r2}, %rd``."""
        part = np.dtype(f"u{form.itemsize // len(result.items)}")
        text = self.operand(source, f"b{8 * form.itemsize}", instruction)
        if form == WIDE:
            for place, item in enumerate(result.items):
                name = self.fresh()
                self.emit(f"{name} = {self.bind('half_of', move.half_of)}({text}, {place})")
                self.assign_any(item, name, part, instruction)
            return
        whole = np.dtype(f"u{form.itemsize}")
        for place, item in enumerate(result.items):
            if isinstance(item, Sink):
                continue
            name = self.fresh()
            shifted = (
                f"({text} >> {self.constant(8 * part.itemsize * place, whole)})" if place else text
            )
            self.emit(f"{name} = {shifted}.astype({part.str[1:]})")
            self.assign_any(item, name, part, instruction)

    def result_name(self, operand: Operand) -> str:
        if isinstance(operand, Register):
            clean = "".join(c if c.isalnum() else "_" for c in operand.name).strip("_")
            if not clean.isidentifier():  # %1 is a register, but 1 no Python name
                clean = "r" + clean
            name = clean
            while name in self.used or name in self.names or keyword.iskeyword(name):
                name = self.fresh(clean)
            self.used.add(name)
            return name
        return self.fresh()
