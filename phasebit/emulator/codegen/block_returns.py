"""How a block's function ends: registers are written back, and it returns where to go on.

``return 7`` is the next block for all threads; a function that divides, parks or ends the group
returns what there is to say of it: see :mod:`phasebit.emulator.ops.control`.
"""

from __future__ import annotations

from phasebit.emulator.codegen.instruction_calls import InstructionCalls
from phasebit.emulator.codegen.operand_text import OperandText
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.control_flow import CONTROL, Block, Graph, branch_table
from phasebit.emulator.ptx.syntax import Instruction, Operand, Symbol, Tuple
from phasebit.emulator.ptx.types import BOOL


class BlockReturns:
    """Writes the end of one block."""

    def __init__(
        self, program: TranslatedProgram, graph: Graph, block: Block, operands: OperandText,
        calls: InstructionCalls,
    ) -> None:  # fmt: skip
        self.program = program
        self.graph = graph
        self.function = graph.function
        self.block = block
        self.first = program.first_block[graph.function.name]
        self.following = self.first + block.index + 1
        self.operands = operands
        self.calls = calls
        self.text = operands.text
        self.names = operands.names
        self.values = operands.values

    def write(self) -> None:
        """The lines after the block's last plain instruction."""
        block, end = self.block, self.block.end
        if block.skip is not None:
            self._branch(block.skip, self.following, self.following + 1, "")
        elif end is None:
            self._write_back()
            last = block.index + 1 == len(self.graph.blocks)
            self.text.emit("return ret(g)" if last else f"return {self.following}")
        elif end.mnemonic == "bra":
            target = self.first + block.successors[0]
            if end.guard is not None:
                self._branch(end, target, self.following, _note(end))
            else:
                self._write_back()
                self.text.note = _note(end)
                self.text.emit(f"return {target}")
        elif end.mnemonic in CONTROL:
            text = self._control(end)
            self._write_back()
            self.calls.tell(end)
            self.text.note = _note(end)
            self.text.emit(text)
        else:
            self._wait(end)

    def _branch(self, by: Instruction, holds: int, fails: int, note: str) -> None:
        """On to one block where an instruction's guard holds, to another where it does not."""
        assert by.guard is not None
        condition = self.values.register(by.guard, BOOL)
        self._write_back()
        if by.guard_negated:
            holds, fails = fails, holds
        self.text.note = note
        self.text.emit(f"return branch(g, {condition}, {holds}, {fails})")

    def _write_back(self) -> None:
        """Keep the registers that blocks after this one want."""
        wanted: set[int] = set()
        for successor in self.block.successors:
            wanted |= self.graph.blocks[successor].live_in
        # the checker asks what these held, also where they are dead
        self.values.write_back(wanted | self.graph.multiplied.keys())

    def _wait(self, end: Instruction) -> None:
        """An instruction that may have to wait."""
        chosen = self.graph.selected[end]
        call = self.calls.blocking(end, chosen)
        self._write_back()  # what the instruction itself writes, it writes after this point
        self.text.emit(f"g.resume = {self.following}")
        self.calls.tell(end)
        if chosen.entry.whole:
            self.text.emit("if not together(g, None): return -1")
        self.text.note = _note(end)
        self.text.emit(f"return {call}")

    # -- control --------------------------------------------------------------

    def _control(self, end: Instruction) -> str:
        """``brx``, ``call``, ``ret``, ``exit`` and ``trap``."""
        if end.mnemonic == "brx":
            names = branch_table(self.function, end)
            targets = tuple(self.first + self.graph.labels[name] for name in names)
            index = self.operands.seen_as("u32", end.operands[0], end)
            return f"return branch_index(g, {index}, {targets})"
        if end.mnemonic == "trap":
            return f"return trap(g, {self.names.bind('place', end.where)})"
        if end.mnemonic == "exit" or (end.mnemonic == "ret" and self.function.is_entry):
            return "return leave(g)"
        if end.mnemonic == "ret":
            return "return ret(g)"
        return self._call(end)

    def _call(self, end: Instruction) -> str:
        """``call (results), function, (arguments)``: copy parameters between frames."""
        operands = list(end.operands)
        results: tuple[Operand, ...] = ()
        arguments: tuple[Operand, ...] = ()
        if operands and isinstance(operands[0], Tuple):
            results = operands.pop(0).items  # type: ignore[union-attr]
        target = operands.pop(0)
        if operands and isinstance(operands[0], Tuple):
            arguments = operands.pop(0).items  # type: ignore[union-attr]
        layout = self.program.layout
        places = [layout.frame_place(a, self.function, end) for a in arguments]
        backs = [layout.frame_place(r, self.function, end) for r in results]
        rest = f"{places}, {backs}, {self.following}"
        if not isinstance(target, Symbol):
            return f"return call_indirect(g, {self.operands.seen_as('u64', target, end)}, {rest})"
        if target.name in layout.externals:
            name = self.names.bind(target.name, layout.externals[target.name])
            return f"return call_external(g, {name}, {rest})"
        if target.name not in {function.name for function in layout.functions}:
            raise PtxError(f"there is no function {target.name!r} to call", end.line)
        return f"return call(g, {target.name!r}, {rest})"


def _note(end: Instruction) -> str:
    return f"  # {end.line}: {end.text}"


__all__ = ["BlockReturns"]
