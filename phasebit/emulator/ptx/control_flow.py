"""The control-flow graph of a function: basic blocks, live registers, post-dominators.

A basic block runs from its first instruction to its last without a choice.
Here a block also ends where a thread may have to wait (a barrier) and begins
where threads must come together (a shuffle), because in between the machine
may regroup threads.  A guarded instruction that touches memory becomes a block
of its own with a branch around it; a guarded computation stays a *select*.

*Live* registers of a block are those that it, or a block after it, reads
before writing: all that must be carried when a group of threads splits.
The *immediate post-dominator* of a branch is where its two ways meet again.

Textbook: Aho, Lam, Sethi, Ullman, *Compilers*, sections 8.4 and 9.2.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx import operands
from phasebit.emulator.ptx.noticed_steps import Stepwise, stands_alone
from phasebit.emulator.ptx.syntax import (
    Address,
    Function,
    Instruction,
    Label,
    Not,
    Operand,
    Pair,
    Register,
    Symbol,
    Tuple,
    Vector,
)
from phasebit.emulator.ptx.table import PLAIN, Selected, Traits, select

CONTROL = frozenset({"bra", "brx", "call", "ret", "exit", "trap"})
"""Instructions that end a block and that the translator itself knows."""


def loops(instruction: Instruction) -> bool:
    """Whether a control instruction only says where in the function to go on."""
    return instruction.mnemonic in ("bra", "brx")


@dataclass(eq=False)
class Block:
    """A basic block.  ``end`` is the control or waiting instruction that closes it, if any."""

    index: int
    label: str | None = None
    body: list[Instruction] = field(default_factory=list)
    end: Instruction | None = None
    skip: Instruction | None = None
    """The guarded instruction that the branch at the end of this block may skip."""
    collective: Instruction | None = None
    """The block consists of this one instruction, for which threads come together."""
    successors: list[int] = field(default_factory=list)
    live_in: frozenset[int] = frozenset()
    post_dominator: int | None = None

    @property
    def instructions(self) -> list[Instruction]:
        """Those that the block executes, in order."""
        return [*self.body, *filter(None, [self.collective, self.end])]

    @property
    def leaves(self) -> bool:
        """Whether the end of the block is that of the function, or nothing."""
        return self.end is None or self.end.mnemonic in ("ret", "exit")


@dataclass(eq=False)
class Graph:
    """A function's blocks in the order of the text; block 0 is the entry."""

    function: Function
    blocks: list[Block]
    selected: dict[Instruction, Selected]
    labels: dict[str, int]
    multiplied: dict[int, int] = field(default_factory=dict)
    """Registers of asynchronous multiplications, where somebody watches them, each with a number
    that it has in common with those to which ``mov`` carries its value."""

    def traits(self, instruction: Instruction) -> Traits:
        """What the table says of an instruction; control instructions are not in it."""
        chosen = self.selected.get(instruction)
        return chosen.entry.traits if chosen else PLAIN


def registers_in(operand: Operand) -> list[Register]:
    """All registers that an operand mentions."""
    if isinstance(operand, Register):
        return [operand]
    if isinstance(operand, Not):
        return [operand.operand]
    if isinstance(operand, Vector | Tuple):
        return [r for item in operand.items for r in registers_in(item)]
    if isinstance(operand, Pair):
        return registers_in(operand.first) + registers_in(operand.second)
    if isinstance(operand, Address):
        found = registers_in(operand.base)
        for item in operand.rest:
            found += registers_in(item)
        return found
    return []


def has_result(instruction: Instruction, selected: Selected | None) -> bool:
    """Whether the first operand is written."""
    if selected is None or not instruction.operands:
        return False
    if not selected.entry.results:
        return False
    # mbarrier.arrive, atom … may be written without their result
    return not isinstance(instruction.operands[0], Address)


def reads_and_writes(
    instruction: Instruction, selected: Selected | None
) -> tuple[list[Register], list[Register]]:
    """The registers that an instruction reads, and those that it writes."""
    reads: list[Register] = []
    writes: list[Register] = []
    operands = list(instruction.operands)
    if has_result(instruction, selected):
        writes = registers_in(operands.pop(0))
        assert selected is not None
        if selected.entry.updates:
            reads += writes
    for operand in operands:
        reads += registers_in(operand)
    if instruction.guard is not None:
        reads.append(instruction.guard)
        if instruction.mnemonic not in CONTROL:
            reads += writes  # a false guard keeps the old value
    return reads, writes


def build(function: Function, stepwise: Stepwise = None) -> Graph:
    """Cut a function into blocks and analyse them; unknown instructions raise here.

    ``stepwise``: each step begins a block, and ends it.
    """
    selected: dict[Instruction, Selected] = {}
    for item in function.body:
        if isinstance(item, Instruction) and item.mnemonic not in CONTROL:
            selected[item] = select(item)
            operands.check(item, selected[item])
    blocks, labels = _cut(function, selected, stepwise)
    graph = Graph(function, blocks, selected, labels)
    _connect(graph)
    _find_live(graph)
    _find_post_dominators(graph)
    return graph


def _cut(
    function: Function, selected: dict[Instruction, Selected], stepwise: Stepwise
) -> tuple[list[Block], dict[str, int]]:
    blocks: list[Block] = []
    labels: dict[str, int] = {}

    def start() -> Block:
        block = Block(len(blocks))
        blocks.append(block)
        return block

    block = start()

    def fresh() -> Block:
        """The block to go on in: the current one when it is still empty."""
        if block.body or block.end or block.collective:
            return start()
        return block

    for item in function.body:
        if isinstance(item, Label):
            block = fresh()
            labels[item.name] = block.index
            block.label = block.label or item.name
            continue
        if block.end or block.collective:
            block = start()
        if item.mnemonic in CONTROL:
            if item.guard is not None and item.mnemonic != "bra":
                block.skip = item
                block = start()
            block.end = item
            if item.guard is not None and item.mnemonic != "bra":
                block = start()
            continue
        kind = selected[item].entry.kind
        if item.guard is not None and kind != "value":
            block.skip = item
            block = start()
        grows = selected[item].entry.traits.grows
        alone = grows or stands_alone(item, selected[item], stepwise)
        if alone:
            block = fresh()
        if kind == "collective":
            block = fresh()
            block.collective = item
        elif kind == "blocking":
            if selected[item].entry.whole:
                block = fresh()
            block.end = item
        else:
            block.body.append(item)
        if alone or (item.guard is not None and kind != "value"):
            block = start()
    return blocks, labels


def _connect(graph: Graph) -> None:
    last = len(graph.blocks) - 1
    for block in graph.blocks:
        following = [block.index + 1] if block.index < last else []
        end = block.end
        if end is not None and end.mnemonic in CONTROL:
            operands.check_control(end, graph.labels)
        if block.skip is not None:
            block.successors = [block.index + 1, block.index + 2]
        elif end is None or end.mnemonic not in CONTROL:
            block.successors = following
        elif end.mnemonic == "bra":
            (target,) = end.operands
            assert isinstance(target, Symbol)
            block.successors = [graph.labels[target.name]]
            if end.guard is not None:
                block.successors += following
        elif end.mnemonic == "brx":
            block.successors = [graph.labels[name] for name in branch_table(graph.function, end)]
        elif end.mnemonic in ("ret", "exit", "trap"):
            block.successors = []
        else:  # call
            block.successors = following


def branch_table(function: Function, instruction: Instruction) -> tuple[str, ...]:
    """The labels of ``brx.idx index, table``."""
    table = instruction.operands[1] if len(instruction.operands) == 2 else None
    if not isinstance(table, Symbol) or table.name not in function.branch_tables:
        raise PtxError("brx.idx needs the name of a .branchtargets list", instruction.line)
    targets = function.branch_tables[table.name]
    known = {item.name for item in function.body if isinstance(item, Label)}
    if not targets or not known.issuperset(targets):
        raise PtxError(f"{table.name} names a label that is not there", instruction.line)
    return targets


def block_registers(graph: Graph, block: Block) -> tuple[set[int], set[int]]:
    """Registers read before written, and written, in a block."""
    uses: set[int] = set()
    defines: set[int] = set()

    for instruction in block.instructions:  # the guard of what may be skipped is read there
        reads, writes = reads_and_writes(instruction, graph.selected.get(instruction))
        uses.update(r.index for r in reads if r.index not in defines)
        defines.update(w.index for w in writes)
    return uses, defines


def _find_live(graph: Graph) -> None:
    """Backward data flow: live_in = uses + (live_out - defines), until nothing changes."""
    facts = [block_registers(graph, block) for block in graph.blocks]
    live: list[set[int]] = [set(uses) for uses, _ in facts]
    changed = True
    while changed:
        changed = False
        for block in reversed(graph.blocks):
            uses, defines = facts[block.index]
            out: set[int] = set()
            for successor in block.successors:
                out |= live[successor]
            new = uses | (out - defines)
            if new != live[block.index]:
                live[block.index] = new
                changed = True
    for block in graph.blocks:
        block.live_in = frozenset(live[block.index])


def _find_post_dominators(graph: Graph) -> None:
    """Immediate post-dominators by iterated intersection over the reversed graph."""
    count = len(graph.blocks)
    end = count  # a virtual block that every way out leads to
    successors = [block.successors or [end] for block in graph.blocks]
    order: list[int] = []
    seen = {end}
    predecessors: dict[int, list[int]] = {}
    for index, targets in enumerate(successors):
        for target in targets:
            predecessors.setdefault(target, []).append(index)
    stack: list[tuple[int, int]] = [(end, 0)]
    while stack:  # depth-first over the reversed graph, noting when a block is finished
        node, step = stack.pop()
        before = predecessors.get(node, [])
        if step < len(before):
            stack.append((node, step + 1))
            if before[step] not in seen:
                seen.add(before[step])
                stack.append((before[step], 0))
        else:
            order.append(node)
    number = {node: i for i, node in enumerate(order)}
    idom: dict[int, int] = {end: end}

    def meet(a: int, b: int) -> int:
        while a != b:
            while number[a] < number[b]:
                a = idom[a]
            while number[b] < number[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node == end:
                continue
            # one of them has come before: so the order is
            new, *others = (s for s in successors[node] if s in idom)
            for other in others:
                new = meet(new, other)
            if idom.get(node) != new:
                idom[node] = new
                changed = True
    for block in graph.blocks:
        after = idom.get(block.index, end)
        block.post_dominator = None if after == end else after
