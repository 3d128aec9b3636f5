"""One basic block as a Python function: its instructions in order, and its end."""

from __future__ import annotations

from phasebit.emulator.codegen.addressing import Addressing
from phasebit.emulator.codegen.block_returns import BlockReturns
from phasebit.emulator.codegen.block_text import BlockText
from phasebit.emulator.codegen.global_names import GlobalNames
from phasebit.emulator.codegen.instruction_calls import InstructionCalls
from phasebit.emulator.codegen.load_store import LoadStore
from phasebit.emulator.codegen.memory_watches import MemoryWatches
from phasebit.emulator.codegen.operand_text import OperandText
from phasebit.emulator.codegen.register_moves import RegisterMoves
from phasebit.emulator.codegen.register_watches import RegisterWatches
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.codegen.values import Values
from phasebit.emulator.ptx.control_flow import Block, Graph
from phasebit.emulator.ptx.operands import misfit
from phasebit.emulator.ptx.syntax import Instruction

MISFITS = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What goes wrong in Python where operands do not fit their instruction."""


class BlockFunction:
    """The parts that write one block, each its own kind of line into one text."""

    def __init__(
        self, program: TranslatedProgram, graph: Graph, block: Block, names: GlobalNames
    ) -> None:
        self.graph = graph
        self.block = block
        self.number = program.first_block[graph.function.name] + block.index
        self.text = BlockText()
        values = Values(self.text, names, program.forms[graph.function.name])
        operands = OperandText(program, graph.function, self.text, names, values)
        self.addressing = Addressing(program, graph, operands)
        self.watches = MemoryWatches(self.addressing)
        self.register_watches = RegisterWatches(program, graph, self.text, values, names)
        self.moves = RegisterMoves(operands)
        self.accesses = LoadStore(self.addressing, self.watches)
        self.calls = InstructionCalls(program, operands)
        self.returns = BlockReturns(program, graph, block, operands, self.calls)

    def write(self) -> list[str]:
        """The function's lines.

        Raises :class:`PtxError` for operands that do not fit their instruction.
        """
        block = self.block
        plain = [*block.body, *filter(None, [block.collective])]
        at = next(iter([*plain, *filter(None, [block.skip, block.end])]), None)
        try:
            self.watches.plan(plain)
            self.addressing.plan(plain)
            for at in plain:
                self._write(at)
            at = block.end or at
            self.returns.write()
        except MISFITS as error:
            raise misfit(at, f"these operands do not fit the instruction ({error!r})") from error
        return self.text.function(self.number, block.label)

    def _write(self, instruction: Instruction) -> None:
        chosen = self.graph.selected[instruction]
        self.text.note = f"  # {instruction.line}: {instruction.text}"
        self.register_watches.before(instruction, chosen)
        written = chosen.entry.traits.written
        if written == "move":
            self.moves.write(instruction, chosen)
        elif written == "load":
            self.accesses.load(instruction, chosen)
        elif written == "store":
            self.accesses.store(instruction, chosen)
        else:
            self.calls.write(instruction, chosen)
            if chosen.entry.kind != "value":
                self.watches.order()
        self.text.note = ""


__all__ = ["BlockFunction"]
