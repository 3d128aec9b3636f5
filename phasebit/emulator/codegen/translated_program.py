"""What a translation gives: blocks as Python functions, and what else the machine must know.

``instructions`` leads from the generated text back to PTX: a function leaves the number of an
instruction in ``g.at`` before it calls what may ask which instruction is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np

from phasebit.emulator.machine.device_memory import POISON, VIEWS
from phasebit.emulator.ops import control
from phasebit.emulator.ops.loads_and_stores import store
from phasebit.emulator.ptx.control_flow import Block, Graph
from phasebit.emulator.ptx.noticed_steps import Stepwise, is_step, is_wait
from phasebit.emulator.ptx.placement import Layout
from phasebit.emulator.ptx.syntax import Function, Instruction, Module
from phasebit.emulator.ptx.table import PLAIN, Entry, Selected, Traits
from phasebit.emulator.ptx.types import Form

COMMON: dict[str, Any] = {
    "store": store,
    "select": control.select,
    **{name: getattr(control, name) for name in control.__all__},
    **{name: np.dtype(name) for name in VIEWS},
}
"""What the text of every program finds among its globals."""


@dataclass(eq=False)
class TranslatedProgram:
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
    stepwise: Stepwise = None
    """Whether each step is a block of its own."""
    graphs: dict[str, Graph] = field(default_factory=dict)
    first_block: dict[str, int] = field(default_factory=dict)
    code: list[Callable[[Any], int]] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    """The function of each block."""
    live: list[tuple[int, ...]] = field(default_factory=list)
    """The registers that each block may read."""
    forms: dict[str, list[Form]] = field(default_factory=dict)
    """The NumPy type in which each register of a function is kept."""
    source: str = ""
    """The generated Python text."""
    names: dict[str, Any] = field(default_factory=dict)
    """What the text calls objects: its globals, beyond those that all programs have."""
    compiled: CodeType | None = None
    """The text, compiled."""
    instructions: list[Instruction] = field(default_factory=list)
    """Instructions by the numbers that the generated text has for them: in ``g.at``, and as an
    argument of what it asks of addresses and registers."""
    covered: dict[int, list[tuple[Instruction, int, int]]] = field(default_factory=dict)
    """Access whose check of addresses covers others -> each of them, the bytes from the first
    address checked to its own, and its width in bytes."""
    joins: list[int] = field(default_factory=list)
    """For each block the one where the ways of its branch meet again, or -1."""
    sizes: list[int] = field(default_factory=list)
    """Instructions in each block."""
    _selected: dict[Instruction, Selected] = field(default_factory=dict)

    def add(self, graph: Graph, forms: list[Form]) -> None:
        """Enter a function's blocks after those that are there, its registers kept as given."""
        name, first = graph.function.name, len(self.blocks)
        self.graphs[name] = graph
        self._selected |= graph.selected
        self.first_block[name] = first
        self.forms[name] = forms
        for block in graph.blocks:
            self.blocks.append(block)
            self.functions.append(graph.function)
            after = block.post_dominator
            self.joins.append(-1 if after is None else first + after)
            self.live.append(tuple(sorted(block.live_in)))
            self.sizes.append(len(block.instructions))

    def write(self, source: str, names: dict[str, Any]) -> None:
        """Enter the text of all blocks' functions, and what it calls objects."""
        self.source = source
        self.names = {name: thing for name, thing in names.items() if name not in COMMON}
        self.compiled = compile(source, f"<{self.kernel.name}>", "exec")
        self._define()

    def _define(self) -> None:
        assert self.compiled is not None
        names = COMMON | self.names
        exec(self.compiled, names)
        self.code = [names[f"block_{i}"] for i in range(len(self.blocks))]

    def __getstate__(self) -> dict[str, Any]:
        """All but functions, which are defined again."""
        return {**self.__dict__, "code": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._define()

    def fresh_registers(self, function: Function) -> list[Any]:
        """A function's registers on entry: those read before they are written hold zero.

        Where the checker looks, those that ``wgmma`` takes hold poison.
        """
        registers: list[Any] = [None] * len(function.registers)
        forms, poisoned = self.forms[function.name], self.graphs[function.name].multiplied
        for index in self.live[self.entry(function.name)]:
            form = forms[index]
            registers[index] = form.type(0)
            if index in poisoned and form.itemsize == 4:
                registers[index] = np.uint32(POISON).view(form)
        return registers

    def traits(self, instruction: Instruction) -> Traits:
        """What the table says of an instruction; control instructions are not in it."""
        chosen = self._selected.get(instruction)
        return chosen.entry.traits if chosen else PLAIN

    def entry_of(self, instruction: Instruction) -> Entry | None:
        """The table's entry for an instruction; control instructions have none."""
        chosen = self._selected.get(instruction)
        return chosen.entry if chosen else None

    def selected(self, instruction: Instruction) -> Selected | None:
        """What an instruction chose of the table; control instructions are not in it."""
        return self._selected.get(instruction)

    def every(self) -> Iterable[Selected]:
        """What the program's instructions chose of the table."""
        return self._selected.values()

    def steps(self) -> frozenset[int]:
        """The lines of its steps, but for those that ``stepwise`` adds."""
        return frozenset(
            item.line for item, one in self._selected.items() if is_wait(item) or is_step(item, one)
        )

    def entry(self, name: str) -> int:
        """The first block of a function."""
        return self.first_block[name]

    def number(self, instruction: Instruction) -> int:
        """Enter an instruction in ``instructions``: its number."""
        self.instructions.append(instruction)
        return len(self.instructions) - 1


__all__ = ["TranslatedProgram"]
