"""Registers that an asynchronous load is still filling: who uses them before the wait?

Asked of the program's text: from the load along every way, up to the instruction that waits.
A ``mov`` only hands a register on, as compilers like to do; its target is then in flight too.

Hardware lets the first use of a register wait for its load, and CUTLASS counts on that: its
epilogues for sm_100 (4.1 to 4.5) load tile after tile, use each at once, and wait after the last
load only, before they give the columns back.  So an early use is none where another load comes
before any wait, and every way to the end comes by a wait.
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
    rest = items[items.index(load) + 1 :]
    work = [(start, rest, {r.index for r in written})]
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
                    if _goes_on_loading(graph, block, one, load, wait):
                        return None
                    return one, register.name
        else:
            for successor in block.successors:
                known = seen.setdefault(successor, set())
                if not flying <= known:
                    known |= flying
                    following = graph.blocks[successor]
                    work.append((following, _items(following), set(known)))
    return None


def _goes_on_loading(
    graph: Graph, block: Block, user: Instruction, load: Instruction, wait: str
) -> bool:
    """Whether every way on from a use comes to another load, and after that to a wait."""
    items = _items(block)
    work: list[tuple[Block, list[Instruction], bool]] = [
        (block, items[items.index(user) + 1 :], False)
    ]
    seen: set[tuple[int, bool]] = set()
    while work:
        block, instructions, loaded = work.pop()
        for one in instructions:
            if wait in one.modifiers:
                if not loaded:
                    return False
                break
            loaded |= one.mnemonic == load.mnemonic and one.modifiers[0] == load.modifiers[0]
        else:
            if not block.successors:
                return False
            for successor in block.successors:
                if (successor, loaded) not in seen:
                    seen.add((successor, loaded))
                    following = graph.blocks[successor]
                    work.append((following, _items(following), loaded))
    return True


def _items(block: Block) -> list[Instruction]:
    return [*block.body, *filter(None, [block.collective, block.end])]


__all__ = ["touched_before"]
