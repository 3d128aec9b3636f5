"""``mov`` (PTX ISA 9.7.9.1): another name for a value, or the parts of one."""

from __future__ import annotations

import numpy as np

from phasebit.emulator.codegen.operand_text import OperandText
from phasebit.emulator.ops.move import half_of
from phasebit.emulator.ptx.syntax import Instruction, Operand, Register, Sink, Vector
from phasebit.emulator.ptx.table import Selected
from phasebit.emulator.ptx.types import SIZE, WIDE, Form, dtype


class RegisterMoves:
    """Writes the ``mov`` of one block."""

    def __init__(self, operands: OperandText) -> None:
        self.operands = operands
        self.text = operands.text
        self.names = operands.names
        self.values = operands.values

    def write(self, instruction: Instruction, chosen: Selected) -> None:
        """It costs nothing between registers: the result gets another name for the value."""
        result, source = instruction.operands
        form = dtype(chosen.types[0])
        if isinstance(result, Vector):
            self._unpack(result, source, form, instruction)
            return
        if isinstance(source, Register) and isinstance(result, Register) and (
            SIZE[source.type] == SIZE[result.type] and instruction.guard is None
        ):  # fmt: skip
            name, have = self.values.held(source)
            self.text.note = ""
            self.values.assign(result, name, have, instruction)
            return
        text = self.operands.seen_as(chosen.types[0], source, instruction)
        if not text.isidentifier():
            name = self.text.fresh()
            self.text.emit(f"{name} = {text}")
            text = name
        self.values.assign(result, text, form, instruction)

    def _unpack(
        self, result: Vector, source: Operand, form: Form, instruction: Instruction
    ) -> None:
        """``mov.b64 {%r1, %r2}, %rd``."""
        part = np.dtype(f"u{form.itemsize // len(result.items)}")
        text = self.operands.seen_as(f"b{8 * form.itemsize}", source, instruction)
        whole = np.dtype(f"u{form.itemsize}") if form != WIDE else form
        for place, item in enumerate(result.items):
            if form == WIDE:
                taken = f"{self.names.bind('half_of', half_of)}({text}, {place})"
            elif isinstance(item, Sink):
                continue
            else:
                shift = self.names.constant(8 * part.itemsize * place, whole) if place else ""
                shifted = f"({text} >> {shift})" if place else text
                taken = f"{shifted}.astype({part.str[1:]})"
            name = self.text.fresh()
            self.text.emit(f"{name} = {taken}")
            self.values.assign(item, name, part, instruction)


__all__ = ["RegisterMoves"]
