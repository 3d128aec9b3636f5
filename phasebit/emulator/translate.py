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
import keyword
import re
import struct
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasebit.emulator.cfg import Block, Graph, block_registers, branch_table, build, has_result
from phasebit.emulator.errors import PtxError
from phasebit.emulator.layout import Layout
from phasebit.emulator.memory import VIEWS
from phasebit.emulator.ops import control, memory
from phasebit.emulator.ops.floating import FAST
from phasebit.emulator.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Tuple,
    Vector,
)
from phasebit.emulator.table import Selected
from phasebit.emulator.types import SIZE, dtype

Form = np.dtype[Any]
BOOL = np.dtype(bool)


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
    _atomics: dict[Instruction, int] = field(default_factory=dict)
    _running: dict[int, Instruction | None] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    """Instructions in each block."""

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
        for line in reversed(self.source.splitlines()[:number]):
            if line.startswith("def "):
                return None
            if found := re.search(r"  # (\d+): (.*)$", line):
                for block in self.blocks:
                    for instruction in [*block.body, block.collective, block.end]:
                        if instruction is not None and (
                            (instruction.line, instruction.text) == (int(found[1]), found[2])
                        ):
                            return instruction
        return None

    def atomic_access(self, pc: int, where: str) -> int:
        """The checker's number for the memory instruction that is being executed."""
        instruction = self.executing()
        if instruction is None:
            return -1
        if instruction not in self._atomics:
            self._atomics[instruction] = self.access_id(instruction)
        return self._atomics[instruction]

    def access_id(self, instruction: Instruction) -> int:
        self.accesses.append(instruction)
        return len(self.accesses) - 1


def translate(
    module: Module, kernel: Function, layout: Layout, checked: bool, exact: bool = True
) -> Program:
    """Translate a kernel and every function it can reach.

    Raises :class:`PtxError` for an instruction or an operand that is not supported.
    """
    program = Program(module, kernel, layout, checked, exact)
    for function in layout.functions:
        graph = build(function)
        program.graphs[function.name] = graph
        program.first_block[function.name] = len(program.blocks)
        program.blocks += graph.blocks
        program.functions += [function] * len(graph.blocks)
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
            text += BlockWriter(program, graph, block, names).write()
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
            forms.append(np.dtype("u8"))
            continue
        declared = dtype(register.type)
        floats = sum(n for kind, n in vote.items() if kind == f"f{8 * size}")
        if register.type[0] in "bf" and floats * 2 > sum(vote.values()):
            declared = np.dtype(f"f{size}")
        elif declared.kind == "i":
            declared = np.dtype(f"u{size}")
        forms.append(declared)
    return forms


@dataclass
class _Span:
    """Accesses of a block that share base, space and width: offsets ``low`` to ``high``."""

    low: int = 1 << 62
    high: int = -(1 << 62)
    align: int = 1


class BlockWriter:
    """Writes the Python function of one block."""

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
        self.values: dict[int, tuple[str, Form]] = {}
        """Register -> the variable that holds it now, and its form."""
        self.views: dict[tuple[str, str], str] = {}
        self.versions: Counter[int] = Counter()
        self.defined: set[int] = set()
        self.spans: dict[tuple[Any, ...], _Span] = {}
        self.indices: dict[tuple[Any, ...], str] = {}
        self.heads_seen: set[str] = set()
        self.used: set[str] = {"g", "R"}
        self.temporaries = 0
        self.segment = 0
        self.segment_kind = ""
        self.watched: dict[tuple[Any, ...], list[tuple[int, int]]] = {}

    # -- text -----------------------------------------------------------------

    def emit(self, text: str) -> None:
        self.lines.append(f"    {text}{self.note}")
        self.note = ""

    def fresh(self, prefix: str = "t") -> str:
        self.temporaries += 1
        return f"{prefix}_{self.temporaries}"

    def bind(self, wanted: str, thing: Any) -> str:
        """A global name of the generated code for an object."""
        name = "".join(c if c.isalnum() else "_" for c in wanted)
        while self.names.get(name, thing) is not thing:
            name += "_"
        self.names[name] = thing
        return name

    def prologue(self, name: str, text: str) -> str:
        if name not in self.heads_seen:
            self.heads_seen.add(name)
            self.head.append(f"    {name} = {text}")
        return name

    def write(self) -> list[str]:
        block = self.block
        number = self.first + block.index
        instructions = [*block.body, *filter(None, [block.collective])]
        if self.program.checked:
            self._plan_watches(instructions)
        self._plan_spans(instructions)
        for instruction in instructions:
            self.note = f"  # {instruction.line}: {instruction.text}"
            self.instruction(instruction, block.collective is instruction)
            self.note = ""
        self.end()
        label = f"  # {block.label}" if block.label else ""
        return [f"def block_{number}(g):{label}", "    R = g.registers", *self.head, *self.lines]

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
        if kind == "a":
            return self.address(operand, instruction)
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
            return self.constant(
                self.program.layout.address(operand, self.function, instruction), form
            )
        if isinstance(operand, Vector):
            return self.pack(operand, form, instruction)
        raise PtxError(f"operand {operand} does not fit here: {instruction.text}", instruction.line)

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
            return self.constant(where, np.dtype("u8" if where >= 1 << 32 else "u4"))
        if isinstance(operand.base, Immediate):
            return self.constant(int(operand.base.value) + operand.offset, np.dtype("u8"))
        assert isinstance(operand.base, Register)
        form = np.dtype(f"u{SIZE[operand.base.type]}")
        base = self.register(operand.base, form)
        if operand.offset:
            return f"({base} + {self.constant(operand.offset, form)})"
        return base

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

    # -- instructions ---------------------------------------------------------

    def instruction(self, instruction: Instruction, collective: bool) -> None:
        chosen = self.graph.selected[instruction]
        mnemonic = chosen.entry.mnemonic
        if mnemonic == "mov":
            self.move(instruction, chosen)
        elif mnemonic in ("ld", "ldu"):
            self.load(instruction, chosen)
        elif mnemonic == "st":
            self.store(instruction, chosen)
        else:
            self.call_function(instruction, chosen, collective)
            if chosen.entry.kind != "value":
                self.segment += 1

    def arguments(
        self, instruction: Instruction, chosen: Selected
    ) -> tuple[list[str], Operand | None]:
        operands = list(instruction.operands)
        result = operands.pop(0) if has_result(instruction, chosen) else None
        names = list(chosen.entry.arguments)
        if not len(names) - chosen.entry.optional <= len(operands) <= len(names):
            raise PtxError(
                f"{instruction.opcode} takes {len(names)} operands, not {len(operands)}: "
                f"{instruction.text}",
                instruction.line,
            )
        texts = [
            self.operand(operand, name if name[0] in "*a" else chosen.type_of(name), instruction)
            if name[0] != "*"
            else self.operand(operand, "*" + chosen.type_of(name[1:]), instruction)
            for operand, name in zip(operands, names, strict=False)
        ]
        return texts, result

    def call_function(self, instruction: Instruction, chosen: Selected, collective: bool) -> None:
        entry = chosen.entry
        texts, result = self.arguments(instruction, chosen)
        chosen_function = chosen.function
        if not self.program.exact and not set(chosen.options) - {"rounding"} and (
            chosen.options.get("rounding", "rn") == "rn" and chosen.types[:1] == ("f32",)
        ):  # fmt: skip
            chosen_function = FAST.get(entry.function, chosen_function)
        function = self.bind(self.function_name(chosen), chosen_function)
        if collective:
            mask = "None"
            if "membermask" in entry.parameters:
                names = [p for p in _positional(entry.function) if p != "g"]
                mask = texts[names.index("membermask")]
            self.emit(f"if not together(g, {mask}): return -1")
        if entry.kind != "value":
            texts.insert(0, "g")
        call = f"{function}({', '.join(texts)})"
        if result is None:
            self.emit(call)
            return
        kinds = entry.results
        if kinds[0].startswith("*"):
            items = result.items if isinstance(result, Vector) else (result,)
            form = dtype(chosen.type_of(kinds[0][1:]))
            names = [self.fresh() for _ in items]
            self.emit(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {call}")
            for item, name in zip(items, names, strict=True):
                self.assign_any(item, name, form, instruction)
            return
        targets = [result.first, result.second] if isinstance(result, Pair) else [result]
        if len(targets) > len(kinds) and "both" in entry.parameters:  # p|q: also the opposite
            call = call.replace(function, self.bind(
                function + "_both", functools.partial(chosen_function, both=True)
            ), 1)  # fmt: skip
            kinds = kinds * 2
        if len(targets) > len(kinds):
            raise PtxError(
                f"{instruction.opcode} has one result: {instruction.text}", instruction.line
            )
        names = [self.result_name(target) for target in targets]
        forms = [dtype(chosen.type_of(kind)) for kind in kinds]
        if len(kinds) > 1:
            padded = names + ["_"] * (len(kinds) - len(names))
            self.emit(f"{', '.join(padded)} = {call}")
        else:
            self.emit(f"{names[0]} = {call}")
        for target, name, form in zip(targets, names, forms, strict=False):
            self.assign_any(target, name, form, instruction)

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

    def function_name(self, chosen: Selected) -> str:
        words = [chosen.entry.function.__name__]
        if isinstance(chosen.function, object) and chosen.options:
            words += [str(v) for v in chosen.options.values() if v is not True]
            words += [k for k, v in chosen.options.items() if v is True]
        if chosen.types and chosen.function is not chosen.entry.function:
            words += chosen.types
        return "_".join(words)

    def move(self, instruction: Instruction, chosen: Selected) -> None:
        """``mov`` costs nothing: the register gets another name for the value."""
        result, source = instruction.operands
        form = dtype(chosen.types[0]) if chosen.types[0] != "b128" else np.dtype("u8")
        if isinstance(result, Vector):
            self.unpack(result, source, form, instruction)
            return
        if isinstance(source, Register) and isinstance(result, Register) and (
            SIZE[source.type] == SIZE[result.type] and instruction.guard is None
        ):  # fmt: skip
            name, have = self.values.get(source.index) or (
                self.register(source, self.forms[source.index]), self.forms[source.index]
            )  # fmt: skip
            self.note = ""
            self.assign(result, name, have, instruction)
            return
        text = self.operand(source, chosen.types[0], instruction)
        if not text.isidentifier():
            name = self.fresh()
            self.emit(f"{name} = {text}")
            text = name
        self.assign_any(result, text, form, instruction)

    def pack(self, operand: Vector, form: Form, instruction: Instruction) -> str:
        """``mov.b64 %rd, {%r1, %r2}``: the first item is the lowest part."""
        part = np.dtype(f"u{form.itemsize // len(operand.items)}")
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
        whole = np.dtype(f"u{form.itemsize}")
        text = self.operand(source, f"b{8 * form.itemsize}", instruction)
        for place, item in enumerate(result.items):
            if isinstance(item, Sink):
                continue
            name = self.fresh()
            shifted = (
                f"({text} >> {self.constant(8 * part.itemsize * place, whole)})" if place else text
            )
            self.emit(f"{name} = {shifted}.astype({part.str[1:]})")
            self.assign_any(item, name, part, instruction)

    # -- loads and stores -----------------------------------------------------

    def access(self, instruction: Instruction, chosen: Selected) -> tuple[Any, ...]:
        """What an access shares with others: base, version of the base, space, width."""
        load = chosen.entry.mnemonic != "st"
        address = instruction.operands[1 if load else 0]
        if not isinstance(address, Address):
            raise PtxError(
                f"{instruction.opcode} needs an address: {instruction.text}", instruction.line
            )
        space = chosen.options.get("space", "generic")
        base = address.base
        if isinstance(base, Symbol):
            space, where = self.program.layout.place(base, self.function, instruction, space)
            return ("symbol", where, 0, space, SIZE[chosen.types[0]], address.offset)
        if isinstance(base, Immediate):
            where = int(base.value)
            return ("symbol", where, 0, space, SIZE[chosen.types[0]], address.offset)
        assert isinstance(base, Register)
        version = self.versions[base.index]
        return ("register", base.index, version, space, SIZE[chosen.types[0]], address.offset)

    @staticmethod
    def vector_length(instruction: Instruction) -> int:
        for word in instruction.modifiers:
            if word in ("v2", "v4", "v8"):
                return int(word[1:])
        return 1

    def _plan_spans(self, instructions: list[Instruction]) -> None:
        """Find, for each base, the range of offsets that this block uses."""
        self.versions.clear()
        for instruction in instructions:
            chosen = self.graph.selected[instruction]
            if chosen.entry.mnemonic in ("ld", "ldu", "st"):
                *key, offset = self.access(instruction, chosen)
                span = self.spans.setdefault(tuple(key), _Span())
                size = SIZE[chosen.types[0]] * self.vector_length(instruction)
                span.low = min(span.low, offset)
                span.high = max(span.high, offset + size)
                span.align = max(span.align, size)
            for register in _written(instruction, chosen):
                self.versions[register.index] += 1
        self.versions.clear()

    def index(self, instruction: Instruction, chosen: Selected) -> tuple[str, int, tuple[Any, ...]]:
        """The index array of an access, and where its view begins."""
        *parts, offset = self.access(instruction, chosen)
        key = tuple(parts)
        what, base, _, space, width = key
        span = self.spans[key]
        shift = width.bit_length() - 1
        if offset % width != span.low % width:  # a misaligned constant offset: an index of its own
            key = (*key, offset)
            span = self.spans.setdefault(
                key, _Span(offset, offset + width * self.vector_length(instruction), width)
            )
        if key not in self.indices:
            if space == "param":
                raise PtxError(
                    f"a parameter cannot be indexed here: {instruction.text}", instruction.line
                )
            if what == "register":
                register = self.function.registers[base]
                form: Form = np.dtype(f"u{SIZE[register.type]}")
                text = self.register(register, form)
            else:
                form = np.dtype("u4" if space == "shared" else "u8")
                text = self.constant(base, form)
            name = self.fresh("i")
            low = self.constant(span.low, form)
            identity = self.program.access_id(instruction)
            saved, self.note = self.note, ""
            self.emit(
                f"{name} = g.{space}_index({text}, {low}, {span.high - span.low}, "
                f"{shift}, {span.align}, {identity})"
            )
            self.note = saved
            self.indices[key] = name
        return self.indices[key], (offset - span.low) >> shift, key

    def view(self, form: Form, start: int) -> str:
        name = self.prologue(f"M_{form.str[1:]}", f"g.memory.{form.str[1:]}")
        return f"{name}[{start}:]" if start else name

    def load(self, instruction: Instruction, chosen: Selected) -> None:
        result = instruction.operands[0]
        targets = result.items if isinstance(result, Vector) else (result,)
        kind = chosen.types[0]
        form = dtype(kind)
        if kind == "b128":
            raise PtxError("128-bit loads are not supported", instruction.line)
        if self.parameter(instruction, chosen, targets, form):
            return
        self.watch(instruction, chosen, "load")
        index, start, _ = self.index(instruction, chosen)
        if chosen.options.get("sem", "weak") != "weak":
            self.emit("g.poll()")
        for place, target in enumerate(targets):
            if isinstance(target, Sink):
                continue
            name = self.result_name(target)
            self.emit(f"{name} = {self.view(form, start + place)}.take({index})")
            self.assign_any(target, name, form, instruction)

    def parameter(
        self, instruction: Instruction, chosen: Selected, targets: tuple[Operand, ...], form: Form
    ) -> bool:
        """Kernel parameters are the same for all threads: a scalar, no index needed."""
        address = instruction.operands[1]
        assert isinstance(address, Address)
        if chosen.options.get("space") != "param" or not isinstance(address.base, Symbol):
            return False
        offset = self.program.layout.parameters.get(address.base.name)
        if offset is None or not self.function.is_entry:
            return False
        at = (offset + address.offset) // form.itemsize
        view = self.prologue(f"P_{form.str[1:]}", f"g.parameters.{form.str[1:]}")
        for place, target in enumerate(targets):
            name = self.result_name(target)
            self.emit(f"{name} = {view}[{at + place}]")
            self.assign_any(target, name, form, instruction)
        return True

    def store(self, instruction: Instruction, chosen: Selected) -> None:
        source = instruction.operands[1]
        sources = source.items if isinstance(source, Vector) else (source,)
        form = dtype(chosen.types[0])
        if chosen.types[0] == "b128":
            raise PtxError("128-bit stores are not supported", instruction.line)
        self.watch(instruction, chosen, "store")
        index, start, _ = self.index(instruction, chosen)
        for place, item in enumerate(sources):
            text = self.operand(item, chosen.types[0], instruction)
            view = self.view(form, start + place)
            self.emit(f"store({view}, {index}, {text})")
            if self.program.checked and chosen.options.get("space") not in ("local", "param"):
                identity = self.program.access_id(instruction)
                self.emit(f"g.verify_store({view}, {index}, {text}, {identity})")

    # -- checks ---------------------------------------------------------------

    def _plan_watches(self, instructions: list[Instruction]) -> None:
        """Group the accesses that one call of the checker can cover.

        Accesses of one kind with one base, with no store between loads (or load
        between stores) and nothing that orders memory, are looked at together.
        """
        self._segments(instructions, self._note_watch)
        self.segment, self.segment_kind = 0, ""
        self.versions.clear()

    def _segments(
        self, instructions: list[Instruction], visit: Callable[[Instruction, Selected, str], None]
    ) -> None:
        for instruction in instructions:
            chosen = self.graph.selected[instruction]
            if chosen.entry.mnemonic in ("ld", "ldu", "st"):
                if chosen.options.get("space") not in ("param", "local", "const"):
                    kind = "store" if chosen.entry.mnemonic == "st" else "load"
                    self._advance(kind)
                    visit(instruction, chosen, kind)
            elif chosen.entry.kind != "value":
                self.segment += 1
            for register in _written(instruction, chosen):
                self.versions[register.index] += 1

    def _advance(self, kind: str) -> None:
        if kind != self.segment_kind:
            self.segment += 1
            self.segment_kind = kind

    def _watch_key(self, instruction: Instruction, chosen: Selected, kind: str) -> tuple[Any, ...]:
        *key, _ = self.access(instruction, chosen)
        sem = chosen.options.get("sem", "weak")
        unit = instruction if sem != "weak" else None
        return (*key, kind, self.segment, unit)

    def _note_watch(self, instruction: Instruction, chosen: Selected, kind: str) -> None:
        if chosen.options.get("space") in ("param", "local", "const"):
            return
        offset = self.access(instruction, chosen)[-1]
        width = SIZE[chosen.types[0]] * self.vector_length(instruction)
        key = self._watch_key(instruction, chosen, kind)
        self.watched.setdefault(key, []).append((offset, width))

    def watch(self, instruction: Instruction, chosen: Selected, kind: str) -> None:
        """Call the checker once for all accesses of a segment that share a base."""
        if not self.program.checked:
            return
        if chosen.options.get("space") in ("param", "local", "const"):
            return
        self._advance(kind)
        *_, space, width, offset = self.access(instruction, chosen)
        if space not in ("shared", "global", "generic"):
            return
        key = self._watch_key(instruction, chosen, kind)
        accesses = self.watched.pop(key, None)
        if accesses is None:
            return
        index, start, _ = self.index(instruction, chosen)
        first = offset - start * width
        shape = self.bind(
            "A", Accesses.of(accesses, first, width, instruction, chosen,
                             self.program.access_id(instruction))
        )  # fmt: skip
        saved, self.note = self.note, ""
        self.emit(f"g.watch_{kind}({index}, {shape})")
        self.note = saved

    # -- the end of the block -------------------------------------------------

    def live_out(self) -> None:
        wanted: set[int] = set()
        for successor in self.block.successors:
            wanted |= self.graph.blocks[successor].live_in
        self.note = ""
        for index in sorted(self.defined & wanted):
            name, form = self.values[index]
            self.emit(f"R[{index}] = {self.convert(name, form, self.forms[index])}")

    def end(self) -> None:
        block, end = self.block, self.block.end
        following = self.first + block.index + 1
        last = block.index + 1 == len(self.graph.blocks)
        if block.skip is not None:
            guard = block.skip.guard
            assert guard is not None
            condition = self.register(guard, BOOL)
            self.live_out()
            ways = (following, following + 1)
            if block.skip.guard_negated:
                ways = (following + 1, following)
            self.emit(f"return branch(g, {condition}, {ways[0]}, {ways[1]})")
            return
        if end is None:
            self.live_out()
            self.emit("return ret(g)" if last else f"return {following}")
            return
        note = f"  # {end.line}: {end.text}"
        if end.mnemonic not in ("bra", "brx", "call", "ret", "exit", "trap"):
            self.blocking(end, following, note)
            return
        if end.mnemonic == "bra":
            text = f"return {self.first + block.successors[0]}"
            condition = self.register(end.guard, BOOL) if end.guard is not None else ""
            self.live_out()
            if condition:
                target = self.first + block.successors[0]
                ways = (following, target) if end.guard_negated else (target, following)
                text = f"return branch(g, {condition}, {ways[0]}, {ways[1]})"
        else:
            text = self.control(end, following)
            self.live_out()
        self.note = note
        self.emit(text)

    def control(self, end: Instruction, following: int) -> str:
        if end.mnemonic == "brx":
            names = branch_table(self.function, end)
            targets = tuple(self.first + self.graph.labels[name] for name in names)
            index = self.operand(end.operands[0], "u32", end)
            return f"return branch_index(g, {index}, {targets})"
        if end.mnemonic == "trap":
            return f"return trap(g, {end.where!r})"
        if end.mnemonic == "exit" or (end.mnemonic == "ret" and self.function.is_entry):
            return "return leave(g)"
        if end.mnemonic == "ret":
            return "return ret(g)"
        return self.call(end, following)

    def call(self, end: Instruction, following: int) -> str:
        """``call (results), function, (arguments)``: copy parameters between frames."""
        operands = list(end.operands)
        results: tuple[Operand, ...] = ()
        arguments: tuple[Operand, ...] = ()
        if operands and isinstance(operands[0], Tuple):
            results = operands.pop(0).items  # type: ignore[union-attr]
        target = operands.pop(0)
        if operands and isinstance(operands[0], Tuple):
            arguments = operands.pop(0).items  # type: ignore[union-attr]
        layout = self.program.layout
        places = [layout.frame_place(a, self.function, end) for a in arguments]
        backs = [layout.frame_place(r, self.function, end) for r in results]
        if isinstance(target, Symbol):
            if target.name in layout.externals:
                name = self.bind(target.name, layout.externals[target.name])
                return f"return call_external(g, {name}, {places}, {backs}, {following})"
            if target.name not in self.program.first_block and target.name not in {
                f.name for f in layout.functions
            }:
                raise PtxError(f"there is no function {target.name!r} to call", end.line)
            return f"return call(g, {target.name!r}, {places}, {backs}, {following})"
        pointer = self.operand(target, "u64", end)
        return f"return call_indirect(g, {pointer}, {places}, {backs}, {following})"

    def blocking(self, end: Instruction, following: int, note: str) -> None:
        chosen = self.graph.selected[end]
        texts, result = self.arguments(end, chosen)
        function = self.bind(self.function_name(chosen), chosen.function)
        targets: tuple[Operand, ...] = ()
        if isinstance(result, Pair):
            targets = (result.first, result.second)
        elif result is not None:
            targets = (result,)
        dest = [
            (t.index, self.forms[t.index]) if isinstance(t, Register) else None for t in targets
        ]
        name = self.bind("dest", dest[0] if len(dest) == 1 else tuple(dest)) if dest else "None"
        # what the instruction itself writes, it writes after this point
        self.live_out()
        self.emit(f"g.resume = {following}")
        self.note = note
        self.emit(f"return {function}({', '.join(['g', name, *texts])})")


def _positional(function: Callable[..., Any]) -> list[str]:
    import inspect

    return list(inspect.signature(function).parameters)


def _written(instruction: Instruction, chosen: Selected) -> list[Register]:
    from phasebit.emulator.cfg import reads_and_writes

    return reads_and_writes(instruction, chosen)[1]


@dataclass(frozen=True)
class Accesses:
    """Accesses of one segment that share an index array, for the checker.

    ``words`` are offsets from the index, in units of ``width`` bytes.
    """

    words: tuple[int, ...]
    width: int
    requests: tuple[tuple[int, int], ...]
    """For each instruction its first word and its bytes a thread."""
    identity: int
    sem: str
    scope: str
    space: str

    @staticmethod
    def of(
        accesses: list[tuple[int, int]],
        first: int,
        width: int,
        instruction: Instruction,
        chosen: Selected,
        identity: int,
    ) -> Accesses:
        words: list[int] = []
        requests: list[tuple[int, int]] = []
        for offset, size in accesses:
            start = (offset - first) // width
            requests.append((start, size))
            words += range(start, start + size // width)
        return Accesses(
            tuple(dict.fromkeys(words)), width, tuple(requests), identity,
            chosen.options.get("sem", "weak"), chosen.options.get("scope", "cta"),
            chosen.options.get("space", "generic"),
        )  # fmt: skip


__all__ = ["Accesses", "Program", "block_registers", "translate"]
