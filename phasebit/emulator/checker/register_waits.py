"""Registers that ``tcgen05.ld`` is still filling: does anybody use them before the wait?

Asked of the program's text: from the load along every way, up to the instruction that waits.
A ``mov`` only hands a register on, as compilers like to do; its target is then in flight too.

A use is no mistake: it waits for its value (PTX ISA 9.7.16.6.4.5).  Compilers that generate code
take it for a wait, though it says nothing of the cells.  Where another load comes before any
wait, and every way to the end comes by a wait, it is none either.
"""

from __future__ import annotations

from collections.abc import Iterable

from phasebit.emulator.ptx.control_flow import Block, Graph, reads_and_writes
from phasebit.emulator.ptx.syntax import Instruction


def used_before_wait(graphs: Iterable[Graph], load: Instruction) -> bool:
    """Whether the registers of a load are used, or overwritten, before the wait."""
    graph = next(g for g in graphs if load in g.selected)
    _, written = reads_and_writes(load, graph.selected[load])
    start = next(b for b in graph.blocks if load in b.instructions)
    items = start.instructions
    rest = items[items.index(load) + 1 :]
    work = [(start, rest, {r.index for r in written})]
    seen: dict[int, set[int]] = {}
    while work:
        block, instructions, flying = work.pop()
        flying = set(flying)
        for one in instructions:
            traits = graph.traits(one)
            if traits.registers == "awaited":
                break
            reads, writes = reads_and_writes(one, graph.selected.get(one))
            if traits.written == "move" and one.guard is None:
                if flying & {r.index for r in reads}:
                    flying |= {r.index for r in writes}
                    continue
                reads = []
            if any(register.index in flying for register in (*reads, *writes)):
                return not _goes_on_loading(graph, block, one)
        else:
            for successor in block.successors:
                known = seen.setdefault(successor, set())
                if not flying <= known:
                    known |= flying
                    following = graph.blocks[successor]
                    work.append((following, following.instructions, set(known)))
    return False


def _goes_on_loading(graph: Graph, block: Block, user: Instruction) -> bool:
    """Whether every way on from a use comes to another load, and after that to a wait."""
    items = block.instructions
    work: list[tuple[Block, list[Instruction], bool]] = [
        (block, items[items.index(user) + 1 :], False)
    ]
    seen: set[tuple[int, bool]] = set()
    while work:
        block, instructions, loaded = work.pop()
        for one in instructions:
            traits = graph.traits(one)
            if traits.registers == "awaited":
                if not loaded:
                    return False
                break
            loaded |= traits.registers == "filled later"
        else:
            if not block.successors:
                return False
            for successor in block.successors:
                if (successor, loaded) not in seen:
                    seen.add((successor, loaded))
                    following = graph.blocks[successor]
                    work.append((following, following.instructions, loaded))
    return True


__all__ = ["used_before_wait"]
