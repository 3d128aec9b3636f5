"""Which local variable holds each register of a block, and in which form.

A register's value is read from the register file ``R`` once, gets a new name with each result,
and one more for each form in which an instruction looks at it.
"""

from __future__ import annotations

import keyword
from collections import Counter

import numpy as np

from phasebit.emulator.codegen.block_text import BlockText
from phasebit.emulator.codegen.global_names import GlobalNames
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.syntax import Instruction, Operand, Register, Sink
from phasebit.emulator.ptx.types import BOOL, SIZE, Form


class Values:
    """See the module's text.  ``stored`` are the forms in which registers are kept in ``R``."""

    def __init__(self, text: BlockText, names: GlobalNames, stored: list[Form]) -> None:
        self.text = text
        self.names = names
        self.stored = stored
        self.versions: Counter[int] = Counter()
        """How often each register has been written so far."""
        self.defined: set[int] = set()
        self._now: dict[int, tuple[str, Form]] = {}
        """Register -> the variable that holds it now, and its form."""
        self._views: dict[tuple[str, str], str] = {}
        self._used: set[str] = {"g", "R"}

    # -- reading --------------------------------------------------------------

    def held(self, register: Register) -> tuple[str, Form]:
        """The variable that holds a register, and the form that it has."""
        if register.index not in self._now:
            name = self.text.prologue(f"v{register.index}", f"R[{register.index}]")
            self._now[register.index] = (name, self.stored[register.index])
        return self._now[register.index]

    def register(self, register: Register, form: Form) -> str:
        """The variable that holds a register in the form asked for."""
        return self.convert(*self.held(register), form)

    def current(self, index: int) -> str:
        """What a register holds now, in whatever form, perhaps nothing."""
        return self._now[index][0] if index in self._now else f"R[{index}]"

    def convert(self, name: str, have: Form, form: Form) -> str:
        """The variable that holds another one's value in the form asked for; made once."""
        if have == form:
            return name
        key = (name, form.str)
        if key in self._views:
            return self._views[key]
        new = f"{name}_{form.str[1:]}"
        if have == BOOL or form == BOOL:
            text = f"({name} != 0)" if form == BOOL else f"{name}.astype({form.str[1:]})"
        elif have.itemsize == form.itemsize:
            text = f"{name}.view({form.str[1:]})"
        elif have.itemsize > form.itemsize:
            narrow = f"u{form.itemsize}"
            source = self.convert(name, have, np.dtype(f"u{have.itemsize}"))
            text = f"{source}.astype({narrow})"
            if form.str[1:] != narrow:
                text += f".view({form.str[1:]})"
        else:  # a narrow register read by a wide instruction: zero-extended
            source = self.convert(name, have, np.dtype(f"u{have.itemsize}"))
            text = f"{source}.astype(u{form.itemsize})"
            if form.kind != "u":
                text += f".view({form.str[1:]})"
        self.text.aside(f"{new} = {text}")
        self._views[key] = new
        return new

    # -- writing --------------------------------------------------------------

    def result_name(self, operand: Operand) -> str:
        """A variable for a result, called like its register."""
        if not isinstance(operand, Register):
            return self.text.fresh()
        clean = "".join(c if c.isalnum() else "_" for c in operand.name).strip("_")
        if not clean.isidentifier():  # %1 is a register, but 1 no Python name
            clean = "r" + clean
        name = clean
        while name in self._used or name in self.names or keyword.iskeyword(name):
            name = self.text.fresh(clean)
        self._used.add(name)
        return name

    def assign(self, operand: Operand, name: str, form: Form, instruction: Instruction) -> None:
        """Make a variable the value of what an instruction writes, from here on."""
        if isinstance(operand, Register):
            self._assign(operand, name, form, instruction)
        elif not isinstance(operand, Sink):
            raise PtxError(f"{operand} cannot be written: {instruction.text}", instruction.line)

    def _assign(self, register: Register, name: str, form: Form, instruction: Instruction) -> None:
        name, form = self._fitting(register, name, form)
        if instruction.guard is not None:
            stored = self.stored[register.index]
            old = self.register(register, stored)
            mine = self.convert(name, form, stored)
            guard = self.register(instruction.guard, BOOL)
            new = self.text.fresh()
            first, second = (old, mine) if instruction.guard_negated else (mine, old)
            self.text.emit(f"{new} = select({guard}, {first}, {second})")
            name, form = new, stored
        self._now[register.index] = (name, form)
        self.versions[register.index] += 1
        self.defined.add(register.index)

    def _fitting(self, register: Register, name: str, form: Form) -> tuple[str, Form]:
        """A value in a form as wide as its register."""
        if register.type == "pred":
            return self.convert(name, form, BOOL), BOOL
        target = SIZE[register.type]
        if form == BOOL or form.itemsize > target:
            whole = np.dtype(f"u{target}")
            return self.convert(name, form, whole), whole
        if form.itemsize < target:  # extended by the type of the instruction
            wide = np.dtype(f"{'i' if form.kind == 'i' else 'u'}{target}")
            if form.kind == "f":
                name = self.convert(name, form, np.dtype(f"u{form.itemsize}"))
            new = self.text.fresh()
            self.text.emit(f"{new} = {name}.astype({wide.str[1:]})")
            return new, wide
        return name, form

    def write_back(self, wanted: set[int]) -> None:
        """Put what this block defined, and a later one wants, into the register file."""
        self.text.note = ""
        for index in sorted(self.defined & wanted):
            name, form = self._now[index]
            self.text.emit(f"R[{index}] = {self.convert(name, form, self.stored[index])}")


__all__ = ["Values"]
