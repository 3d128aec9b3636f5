"""What decides where a loop goes: the registers that matter, and the loads.

Of the blocks of a program that some threads ran, *deciding* is what their branches depend on, and
the addresses that they use: whoever stands where it stood with the same deciding registers, and
finds the same in memory where its deciding loads look, takes the same way and uses the same
addresses again.  A counter that nobody asks is none of it.

Compilers know such registers as *strongly live*: liveness, where a use counts only if its result
is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

from phasebit.emulator.machine.program import Program
from phasebit.emulator.machine.special_registers import CLOCKS
from phasebit.emulator.ptx.control_flow import (
    Block,
    has_result,
    loops,
    reads_and_writes,
    registers_in,
)
from phasebit.emulator.ptx.syntax import Address, Instruction
from phasebit.emulator.ptx.table import Entry

_FAMILIES = ("warp", "atomic")
"""Those of which other threads notice nothing but what they change in memory."""


@dataclass(frozen=True)
class Deciding:
    """Of some blocks of a program."""

    registers: dict[int, tuple[int, ...]]
    """Block -> the deciding registers at its beginning."""
    loads: frozenset[Instruction]
    """Loads and atomics whose results decide."""
    clocked: bool
    """Whether a clock does."""
    noticed: bool
    """Whether the blocks do something that others may notice, beyond what they store."""


def deciding(
    program: Program, blocks: frozenset[int], values: frozenset[Instruction]
) -> Deciding:
    """What decides in these blocks; so do the values of these stores and atomics."""
    found = _Search(program, values)
    after: dict[int, set[int]] = {at: set() for at in blocks}
    changed = True
    while changed:
        changed = False
        for at in sorted(blocks, reverse=True):
            block = program.blocks[at]
            first = at - block.index
            out: set[int] = set()
            for successor in block.successors:
                out |= after.get(first + successor, set())
            before = found.before(block, out)
            if before != after[at]:
                after[at] = before
                changed = True
    registers = {at: tuple(sorted(live)) for at, live in after.items()}
    noticed = not all(_quiet(program, program.blocks[at]) for at in blocks)
    return Deciding(registers, frozenset(found.loads), found.clocked, noticed)


class _Search:
    def __init__(self, program: Program, values: frozenset[Instruction]) -> None:
        self.program = program
        self.values = values
        self.loads: set[Instruction] = set()
        self.clocked = False

    def before(self, block: Block, out: set[int]) -> set[int]:
        """The deciding registers before a block, given those after it."""
        live = set(out)
        if block.skip is not None and block.skip.guard is not None:
            live.add(block.skip.guard.index)
        for instruction in reversed(block.instructions):
            chosen = self.program.selected(instruction)
            reads, writes = reads_and_writes(instruction, chosen)
            written = {register.index for register in writes}
            if chosen is None:
                live |= {register.index for register in reads}
                continue
            wanted = not written.isdisjoint(live)
            if chosen.entry.kind == "value":
                if wanted:
                    live = live - written | {register.index for register in reads}
                    self.clocked |= any(f"%{clock}" in instruction.text for clock in CLOCKS)
                continue
            # Under a guard it is a block of its own, which those alone enter whom it lets.
            live = live - written | self._used(instruction, chosen.entry, wanted)
        return live

    def _used(self, instruction: Instruction, entry: Entry, wanted: bool) -> set[int]:
        """The deciding operands of what is more than a value."""
        result = _writes(self.program, instruction)
        if entry.traits.unnoticed and not result:  # such as nanosleep: for how long decides nothing
            return set()
        sources = instruction.operands[1:] if result else instruction.operands
        if entry.accesses or entry.family == "atomic":
            if wanted:
                self.loads.add(instruction)
            if not (instruction in self.values or (wanted and entry.family == "atomic")):
                sources = tuple(each for each in sources if isinstance(each, Address))
        return {register.index for each in sources for register in registers_in(each)}


def _writes(program: Program, instruction: Instruction) -> bool:
    return has_result(instruction, program.selected(instruction))


def _quiet(program: Program, block: Block) -> bool:
    """Whether others notice nothing of a block, beyond what it stores."""
    for instruction in filter(None, [*block.instructions, block.skip]):
        entry = program.entry_of(instruction)
        if entry is None:
            if not loops(instruction):
                return False
        elif entry.traits.sees_grouping or not (
            entry.kind == "value"
            or entry.accesses
            or entry.traits.unnoticed
            or entry.family in _FAMILIES
        ):
            return False
    return True


__all__ = ["Deciding", "deciding"]
