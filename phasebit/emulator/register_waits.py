"""Registers that an asynchronous load is still filling: who uses them before the wait?

Asked of the program's text: from the load along every way, up to the instruction that waits.
A ``mov`` only hands a register on, as compilers like to do; its target is then in flight too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasebit.emulator.cfg import reads_and_writes
from phasebit.emulator.syntax import Instruction

if TYPE_CHECKING:
    from phasebit.emulator.cfg import Block, Graph
    from phasebit.emulator.translate import Program

Early = tuple[Instruction, str]
"""An instruction, and the register that it uses."""


def touched_before(program: Program, load: Instruction, wait: str) -> Early | None:
    """The first use of a load's registers before the wait; None where there is none."""
    key = (load, wait)
    if key not in program.early:
        graph = next(g for g in program.graphs.values() if load in g.selected)
        program.early[key] = _search(graph, load, wait)
    return program.early[key]


def _search(graph: Graph, load: Instruction, wait: str) -> Early | None:
    _, written = reads_and_writes(load, graph.selected[load])
    start = next(b for b in graph.blocks if load in _items(b))
    items = _items(start)
    work = [(start, items[items.index(load) + 1 :], {r.index for r in written})]
    seen: dict[int, set[int]] = {}
    while work:
        block, instructions, flying = work.pop()
        flying = set(flying)
        for one in instructions:
            if wait in one.modifiers:
                break
            reads, writes = reads_and_writes(one, graph.selected.get(one))
            if one.mnemonic == "mov" and one.guard is None:
                if flying & {r.index for r in reads}:
                    flying |= {r.index for r in writes}
                    continue
                reads = []
            for register in (*reads, *writes):
                if register.index in flying:
                    return one, register.name
        else:
            for successor in block.successors:
                known = seen.setdefault(successor, set())
                if not flying <= known:
                    known |= flying
                    following = graph.blocks[successor]
                    work.append((following, _items(following), set(known)))
    return None


def _items(block: Block) -> list[Instruction]:
    return [*block.body, *filter(None, [block.collective, block.end])]


__all__ = ["touched_before"]
