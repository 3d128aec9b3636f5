"""What the machine runs: a kernel and all it calls, translated (``codegen`` makes it).

Blocks are numbered through all functions, so a program counter is one integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from phasebit.emulator.ptx.control_flow import Block, Graph
from phasebit.emulator.ptx.noticed_steps import Stepwise
from phasebit.emulator.ptx.placement import Layout
from phasebit.emulator.ptx.syntax import Function, Instruction, Module
from phasebit.emulator.ptx.table import Entry, Selected, Traits


class Program(Protocol):
    """See the module's text."""

    module: Module
    kernel: Function
    layout: Layout
    stepwise: Stepwise
    """Whether each step is a block of its own."""
    graphs: dict[str, Graph]
    first_block: dict[str, int]
    code: list[Callable[[Any], int]]
    blocks: list[Block]
    functions: list[Function]
    """The function of each block."""
    live: list[tuple[int, ...]]
    """The registers that each block may read."""
    joins: list[int]
    """For each block the one where the ways of its branch meet again, or -1."""
    sizes: list[int]
    """Instructions in each block."""
    instructions: list[Instruction]
    """Instructions by the numbers that the generated text has for them."""
    covered: dict[int, list[tuple[Instruction, int, int]]]
    """Access whose check of addresses covers others -> each of them, the bytes from the first
    address checked to its own, and its width in bytes."""

    def traits(self, instruction: Instruction) -> Traits:
        """What the table says of an instruction."""

    def entry_of(self, instruction: Instruction) -> Entry | None:
        """The table's entry for an instruction; control instructions have none."""

    def selected(self, instruction: Instruction) -> Selected | None:
        """What an instruction chose of the table; control instructions are not in it."""

    def every(self) -> Iterable[Selected]:
        """What the program's instructions chose of the table."""

    def steps(self) -> frozenset[int]:
        """The lines of its steps, but for those that ``stepwise`` adds."""

    def entry(self, name: str) -> int:
        """The first block of a function."""

    def fresh_registers(self, function: Function) -> list[Any]:
        """A function's registers on entry."""


__all__ = ["Program"]
