"""Python text for an operand, seen as the type that the table's signature asks for."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.codegen.block_text import BlockText
from phasebit.emulator.codegen.global_names import GlobalNames
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.codegen.values import Values
from phasebit.emulator.errors import PtxError
from phasebit.emulator.machine.special_registers import FORMS
from phasebit.emulator.ops import move
from phasebit.emulator.ptx.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Not,
    Operand,
    Register,
    Special,
    Symbol,
    Vector,
)
from phasebit.emulator.ptx.types import BOOL, SIZE, WIDE, Form, dtype


class OperandText:
    """Operands of one function's instructions."""

    def __init__(
        self, program: TranslatedProgram, function: Function, text: BlockText, names: GlobalNames,
        values: Values,
    ) -> None:  # fmt: skip
        self.layout = program.layout
        self.clustered = program.clustered
        self.function = function
        self.text = text
        self.names = names
        self.values = values

    def seen_as(self, kind: str, operand: Operand, instruction: Instruction) -> str:
        """An operand as ``kind``, a word of the table's signatures."""
        if kind.startswith("*"):
            items = operand.items if isinstance(operand, Vector) else (operand,)
            inner = ", ".join(self.seen_as(kind[1:], item, instruction) for item in items)
            return f"({inner},)"
        if kind == "any":
            return self._anything(operand, instruction)
        if kind == "a":
            return self._address(operand, instruction)
        if kind == "u64|*b32":
            kind = "*b32" if isinstance(operand, Vector) else "u64"
            return self.seen_as(kind, operand, instruction)
        if kind == "t":
            return self._tensor(operand, instruction)
        if kind == "u32|pred":
            kind = "pred" if isinstance(operand, Register) and operand.type == "pred" else "u32"
        return self._value(operand, dtype(kind), instruction)

    def _value(self, operand: Operand, form: Form, instruction: Instruction) -> str:
        if isinstance(operand, Register):
            return self.values.register(operand, form)
        if isinstance(operand, Immediate):
            return self.names.constant(operand.value, form, operand.bits)
        if isinstance(operand, Not):
            return f"~{self.values.register(operand.operand, BOOL)}"
        if isinstance(operand, Special):
            return self._special(operand, form, instruction)
        if isinstance(operand, Symbol):
            where = self.layout.address(operand, self.function, instruction)
            return self._based(operand, self.names.constant(where, form), form)
        if isinstance(operand, Vector):
            return self._pack(operand, form, instruction)
        raise PtxError(f"operand {operand} does not fit here: {instruction.text}", instruction.line)

    def _anything(self, operand: Operand, instruction: Instruction) -> str:
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
        return f"({kind!r}, {self.seen_as(kind, operand, instruction)})"

    def _special(self, operand: Special, form: Form, instruction: Instruction) -> str:
        if operand.name not in FORMS:
            raise PtxError(
                f"the special register %{operand.name} is not supported", instruction.line
            )
        name = self.text.fresh("s")
        self.text.aside(f"{name} = g.special({operand.name!r})")
        return self.values.convert(name, FORMS[operand.name], form)

    def _pack(self, operand: Vector, form: Form, instruction: Instruction) -> str:
        """``mov.b64 %rd, {%r1, %r2}``: the first item is the lowest part."""
        part = 8 * (form.itemsize // len(operand.items))
        items = [self.seen_as(f"b{part}", item, instruction) for item in operand.items]
        name = self.text.fresh()
        if form == WIDE:
            self.text.emit(f"{name} = {self.names.bind('wide', move.wide)}({', '.join(items)})")
            return name
        whole = np.dtype(f"u{form.itemsize}")
        parts = [f"{item}.astype({whole.str[1:]})" for item in items]
        for place in range(1, len(parts)):
            parts[place] = f"({parts[place]} << {self.names.constant(part * place, whole)})"
        self.text.emit(f"{name} = {' | '.join(parts)}")
        return self.values.convert(name, whole, form)

    # -- addresses ------------------------------------------------------------

    def own_window(self, form: Form) -> str:
        """Where the shared memory of each thread's own block begins, in a cluster."""
        name = form.str[1:]
        return self.text.prologue(f"W_{name}", f"g.own_window().astype({name})")

    def frame_base(self, form: Form) -> str:
        """By how much recursion has moved the frames of this function."""
        name = form.str[1:]
        return self.text.prologue(f"B_{name}", f"{name}.type(g.base)")

    def _based(self, symbol: Symbol, text: str, form: Form) -> str:
        """The address of a symbol, which may depend on who asks.

        In a function that recursion moves it is relative to the group's base; in a cluster the
        address of a shared variable begins with the block's rank.
        """
        if self.clustered and symbol.name in self.layout.shared:
            return f"({text} + {self.own_window(form)})"
        if self.layout.moves(symbol, self.function):
            return f"({text} + {self.frame_base(form)})"
        return text

    def _address(self, operand: Operand, instruction: Instruction) -> str:
        """The value of an address operand, offset added."""
        if not isinstance(operand, Address):
            return self.seen_as("u64", operand, instruction)
        if isinstance(operand.base, Symbol):
            symbol = Symbol(operand.base.name, operand.offset)
            where = self.layout.address(symbol, self.function, instruction)
            form = np.dtype("u8" if where >= 1 << 32 else "u4")
            return self._based(symbol, self.names.constant(where, form), form)
        if isinstance(operand.base, Immediate):
            return self.names.constant(int(operand.base.value) + operand.offset, np.dtype("u8"))
        assert isinstance(operand.base, Register)
        form = np.dtype(f"u{SIZE[operand.base.type]}")
        base = self.values.register(operand.base, form)
        if operand.offset:
            return f"({base} + {self.names.constant(operand.offset, form)})"
        return base

    def _tensor(self, operand: Operand, instruction: Instruction) -> str:
        """``[map, {c0, c1}]``: the map's address and the coordinates."""
        if not isinstance(operand, Address) or len(operand.rest) != 1:
            raise PtxError(
                f"a tensor is a map and coordinates in braces: {instruction.text}",
                instruction.line,
            )
        base = self._address(Address(operand.base, operand.offset), instruction)
        return f"({base}, {self.seen_as('*s32', operand.rest[0], instruction)})"


__all__ = ["OperandText"]
