"""The call of the function that does what an instruction says, and what becomes of its results."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from phasebit.emulator.codegen.operand_text import OperandText
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ops.floating import FAST
from phasebit.emulator.ptx.control_flow import has_result
from phasebit.emulator.ptx.syntax import Instruction, Operand, Pair, Register, Vector
from phasebit.emulator.ptx.table import Selected, filled
from phasebit.emulator.ptx.types import dtype


class InstructionCalls:
    """Writes the calls of one block."""

    def __init__(self, program: TranslatedProgram, operands: OperandText) -> None:
        self.program = program
        self.operands = operands
        self.text = operands.text
        self.names = operands.names
        self.values = operands.values

    def write(self, instruction: Instruction, chosen: Selected) -> None:
        """An instruction that always finishes: its results have names afterwards."""
        entry = chosen.entry
        arguments, result = self._arguments(instruction, chosen)
        function = self.names.bind(_name_of(chosen), self._function(chosen))
        if entry.kind != "value":
            self.tell(instruction)
        if entry.kind == "collective":
            self._gather(chosen, arguments)
        if entry.kind != "value":
            arguments.insert(0, "g")
        if entry.updates and result is not None:
            old = self.operands.seen_as(entry.results[0][1:], result, instruction)
            arguments.insert(1, old)
        call = f"({', '.join(arguments)})"
        if result is None:
            self.text.emit(function + call)
        elif entry.results[0].removeprefix("+").startswith("*"):
            self._several(instruction, chosen, result, function + call)
        else:
            self._results(instruction, chosen, result, function, call)

    def blocking(self, instruction: Instruction, chosen: Selected) -> str:
        """The call for one that may have to wait, which ends its block.

        It writes its results itself, and gives the block to go on at, or -1 while it waits.
        """
        arguments, result = self._arguments(instruction, chosen)
        function = self.names.bind(_name_of(chosen), chosen.function)
        targets: tuple[Operand, ...] = ()
        if isinstance(result, Pair):
            targets = (result.first, result.second)
        elif result is not None:
            targets = (result,)
        places = [
            (t.index, self.values.stored[t.index]) if isinstance(t, Register) else None
            for t in targets
        ]
        place = "None"
        if places:
            place = self.names.bind("dest", places[0] if len(places) == 1 else tuple(places))
        return f"{function}({', '.join(['g', place, *arguments])})"

    def tell(self, instruction: Instruction) -> None:
        """Leave the instruction's number with the group: see ``Machine.executing``."""
        self.text.aside(f"g.at = {self.program.number(instruction)}")

    # -- functions and arguments ----------------------------------------------

    def _function(self, chosen: Selected) -> Callable[..., Any]:
        """What does the instruction: where bits need not be exact, NumPy's own operation."""
        options, function = chosen.options, chosen.function
        nearest = not set(options) - {"rounding"} and options.get("rounding", "rn") == "rn"
        if not self.program.exact and nearest and chosen.types[:1] == ("f32",):
            return FAST.get(chosen.entry.function, function)
        return function

    def _arguments(
        self, instruction: Instruction, chosen: Selected
    ) -> tuple[list[str], Operand | None]:
        """The texts of the operands that are read, and the operand that is written."""
        operands = list(instruction.operands)
        result = operands.pop(0) if has_result(instruction, chosen) else None
        texts = [  # fewer than the entry's words, where some may be left out
            self.operands.seen_as(_kind_of(kind, chosen), operand, instruction)
            for operand, kind in zip(operands, chosen.entry.arguments, strict=False)
        ]
        return texts, result

    def _gather(self, chosen: Selected, arguments: list[str]) -> None:
        """Bring the threads together that execute a collective instruction."""
        mask = "None"
        if "membermask" in chosen.entry.parameters:
            positional = [
                p for p in inspect.signature(chosen.entry.function).parameters if p != "g"
            ]
            mask = arguments[positional.index("membermask")]
        elif chosen.entry.traits.warp_group:
            mask = "WARP_GROUP"
        self.text.aside(f"if not together(g, {mask}): return -1")

    # -- results --------------------------------------------------------------

    def _several(
        self, instruction: Instruction, chosen: Selected, result: Operand, call: str
    ) -> None:
        """Results in braces, as many as the instruction has registers there."""
        items = result.items if isinstance(result, Vector) else (result,)
        form = dtype(chosen.type_of(chosen.entry.results[0].lstrip("+*")))
        names = [self.text.fresh() for _ in items]
        self.text.emit(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {call}")
        for item, name in zip(items, names, strict=True):
            self.values.assign(item, name, form, instruction)

    def _results(
        self, instruction: Instruction, chosen: Selected, result: Operand, function: str, call: str
    ) -> None:
        """One result, or two as ``d|p``."""
        entry = chosen.entry
        kinds = tuple(kind.removeprefix("+") for kind in entry.results)
        targets = [result.first, result.second] if isinstance(result, Pair) else [result]
        if len(targets) > len(kinds) and "both" in entry.parameters:  # p|q: also the opposite
            both = filled(self._function(chosen), both=True)
            function = self.names.bind(function + "_both", both)
            kinds = kinds * 2
        if len(targets) > len(kinds):
            raise PtxError(
                f"{instruction.opcode} has one result: {instruction.text}", instruction.line
            )
        names = [self.values.result_name(target) for target in targets]
        forms = [dtype(chosen.type_of(kind)) for kind in kinds]
        unwanted = ["_"] * (len(kinds) - len(names))
        self.text.emit(f"{', '.join(names + unwanted)} = {function}{call}")
        for target, name, form in zip(targets, names, forms, strict=False):
            self.values.assign(target, name, form, instruction)


def _kind_of(word: str, chosen: Selected) -> str:
    """A word of the signature with the instruction's types in place of ``x``, ``y`` and ``w``."""
    if word.startswith("*"):
        return "*" + chosen.type_of(word[1:])
    return word if word.startswith("a") else chosen.type_of(word)


def _name_of(chosen: Selected) -> str:
    """What to call an instruction's function, its options filled in: ``fma_rn_f32``."""
    words = [chosen.entry.function.__name__]
    words += [str(v) for v in chosen.options.values() if v is not True]
    words += [k for k, v in chosen.options.items() if v is True]
    if chosen.types and chosen.function is not chosen.entry.function:
        words += chosen.types
    return "_".join(words)


__all__ = ["InstructionCalls"]
