"""Registers that ``wgmma`` works on while threads go on: its accumulators, and those that hold A.

Known from the program's text: those that the instruction names, and those that a ``mov`` connects
with them.
"""

from __future__ import annotations

from phasebit.emulator.ptx.control_flow import Graph
from phasebit.emulator.ptx.syntax import Instruction, Register, Vector
from phasebit.emulator.ptx.table import Selected
from phasebit.emulator.ptx.types import SIZE


def renames(instruction: Instruction, chosen: Selected) -> bool:
    """Whether it only gives a register another name, or a constant."""
    return chosen.entry.traits.written == "move" and instruction.guard is None and not any(
        isinstance(operand, Vector) for operand in instruction.operands
    )  # fmt: skip


def multiplied_registers(graph: Graph) -> dict[int, int]:
    """Registers that hold accumulators or A, by number; those that ``mov`` connects are one."""
    parent: dict[int, int] = {}

    def root(index: int) -> int:
        while parent.get(index, index) != index:
            index = parent[index]
        return index

    seeds: set[int] = set()
    for instruction, chosen in graph.selected.items():
        if chosen.entry.traits.multiplies:
            for operand in instruction.operands[:2]:
                if isinstance(operand, Vector):
                    seeds |= {r.index for r in operand.items if isinstance(r, Register)}
    if not seeds:
        return {}
    for instruction, chosen in graph.selected.items():
        if renames(instruction, chosen):
            to, source = instruction.operands
            if isinstance(to, Register) and isinstance(source, Register) and (
                SIZE[to.type] == SIZE[source.type]
            ):  # fmt: skip
                parent[root(to.index)] = root(source.index)
    hot = {root(index) for index in seeds}
    every = {r for r in range(len(graph.function.registers)) if root(r) in hot}
    return {index: root(index) for index in every}


__all__ = ["multiplied_registers", "renames"]
