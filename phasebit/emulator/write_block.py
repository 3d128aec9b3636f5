"""Writing a block, part three: its instructions in order, and what ends it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from phasebit.emulator.cfg import branch_table, has_result, reads_and_writes
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ops.floating import FAST
from phasebit.emulator.syntax import (
    Instruction,
    Operand,
    Pair,
    Register,
    Symbol,
    Tuple,
    Vector,
)
from phasebit.emulator.table import Selected, filled
from phasebit.emulator.types import SIZE, dtype
from phasebit.emulator.wgmma_checks import is_copy, is_multiplication
from phasebit.emulator.write_accesses import AccessWriter
from phasebit.emulator.write_values import BOOL


class BlockWriter(AccessWriter):
    """Writes the Python function of one block."""

    def write(self) -> list[str]:
        block = self.block
        number = self.first + block.index
        instructions = [*block.body, *filter(None, [block.collective])]
        if self.program.checked:
            self._plan_watches(instructions)
        self._plan_spans(instructions)
        for instruction in instructions:
            self.note = f"  # {instruction.line}: {instruction.text}"
            self.instruction(instruction, block.collective is instruction)
            self.note = ""
        self.at = block.end or self.at
        self.end()
        label = f"  # {block.label}" if block.label else ""
        return [f"def block_{number}(g):{label}", "    R = g.registers", *self.head, *self.lines]

    # -- instructions ---------------------------------------------------------

    def instruction(self, instruction: Instruction, collective: bool) -> None:
        self.at = instruction
        if self.graph.classes:
            self.wgmma_checks(instruction)
        chosen = self.graph.selected[instruction]
        mnemonic = chosen.entry.mnemonic
        if mnemonic == "mov":
            self.move(instruction, chosen)
        elif mnemonic in ("ld", "ldu"):
            self.load(instruction, chosen)
        elif mnemonic == "st" and chosen.entry.accesses:
            self.store(instruction, chosen)
        else:
            self.call_function(instruction, chosen, collective)
            if chosen.entry.kind != "value":
                self.segment += 1

    def wgmma_checks(self, instruction: Instruction) -> None:
        """Questions about registers that an asynchronous multiplication may have."""
        if is_copy(instruction):
            return
        hot = self.graph.classes
        reads, writes = reads_and_writes(instruction, self.graph.selected.get(instruction))
        wanted = tuple(dict.fromkeys(r.index for r in reads if r.index in hot))
        computed = tuple(dict.fromkeys(w.index for w in writes if w.index in hot))
        if not wanted and not computed:
            return
        number = self.program.access_id(instruction)
        checks = "g.batch.machine.checker.wgmma"
        saved, self.note = self.note, ""
        if is_multiplication(instruction):
            d = {w.index for w in writes}
            taken = tuple(sorted({hot[index] for index in wanted}))
            self.emit(f"{checks}.begins(g, {taken}, {number})")
            wanted, computed = tuple(i for i in wanted if i not in d), ()
        if wanted:
            texts = ", ".join(self.current(index) for index in wanted)
            self.emit(f"{checks}.looks_at(g, ({texts},), {number})")
        if computed:
            texts = ", ".join(f"{index}: {self.current(index)}" for index in computed)
            numbers = tuple(sorted({hot[index] for index in computed}))
            self.emit(f"{checks}.changes(g, {{{texts}}}, {numbers}, {number})")
        self.note = saved

    def current(self, index: int) -> str:
        """What a register holds now, in whatever form, perhaps nothing."""
        return self.values[index][0] if index in self.values else f"R[{index}]"

    def arguments(
        self, instruction: Instruction, chosen: Selected
    ) -> tuple[list[str], Operand | None]:
        operands = list(instruction.operands)
        result = operands.pop(0) if has_result(instruction, chosen) else None
        names = list(chosen.entry.arguments)
        if not len(names) - chosen.entry.optional <= len(operands) <= len(names):
            raise PtxError(
                f"{instruction.opcode} takes {len(names)} operands, not {len(operands)}: "
                f"{instruction.text}",
                instruction.line,
            )
        texts = [
            self.operand(operand, name if name[0] in "*a" else chosen.type_of(name), instruction)
            if name[0] != "*"
            else self.operand(operand, "*" + chosen.type_of(name[1:]), instruction)
            for operand, name in zip(operands, names, strict=False)
        ]
        return texts, result

    def call_function(self, instruction: Instruction, chosen: Selected, collective: bool) -> None:
        entry = chosen.entry
        texts, result = self.arguments(instruction, chosen)
        chosen_function = chosen.function
        if not self.program.exact and not set(chosen.options) - {"rounding"} and (
            chosen.options.get("rounding", "rn") == "rn" and chosen.types[:1] == ("f32",)
        ):  # fmt: skip
            chosen_function = FAST.get(entry.function, chosen_function)
        function = self.bind(self.function_name(chosen), chosen_function)
        if collective:
            mask = "None"
            if "membermask" in entry.parameters:
                names = [p for p in _positional(entry.function) if p != "g"]
                mask = texts[names.index("membermask")]
            elif entry.mnemonic == "wgmma":
                mask = "WARP_GROUP"
            self.emit(f"if not together(g, {mask}): return -1")
        if entry.kind != "value":
            texts.insert(0, "g")
        if entry.updates and result is not None:
            texts.insert(1, self.operand(result, entry.results[0][1:], instruction))
        call = f"{function}({', '.join(texts)})"
        if result is None:
            self.emit(call)
            return
        kinds = tuple(kind.removeprefix("+") for kind in entry.results)
        if kinds[0].startswith("*"):
            items = result.items if isinstance(result, Vector) else (result,)
            form = dtype(chosen.type_of(kinds[0][1:]))
            names = [self.fresh() for _ in items]
            self.emit(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {call}")
            for item, name in zip(items, names, strict=True):
                self.assign_any(item, name, form, instruction)
            return
        targets = [result.first, result.second] if isinstance(result, Pair) else [result]
        if len(targets) > len(kinds) and "both" in entry.parameters:  # p|q: also the opposite
            call = call.replace(function, self.bind(
                function + "_both", filled(chosen_function, both=True)
            ), 1)  # fmt: skip
            kinds = kinds * 2
        if len(targets) > len(kinds):
            raise PtxError(
                f"{instruction.opcode} has one result: {instruction.text}", instruction.line
            )
        names = [self.result_name(target) for target in targets]
        forms = [dtype(chosen.type_of(kind)) for kind in kinds]
        if len(kinds) > 1:
            padded = names + ["_"] * (len(kinds) - len(names))
            self.emit(f"{', '.join(padded)} = {call}")
        else:
            self.emit(f"{names[0]} = {call}")
        for target, name, form in zip(targets, names, forms, strict=False):
            self.assign_any(target, name, form, instruction)

    def function_name(self, chosen: Selected) -> str:
        words = [chosen.entry.function.__name__]
        if isinstance(chosen.function, object) and chosen.options:
            words += [str(v) for v in chosen.options.values() if v is not True]
            words += [k for k, v in chosen.options.items() if v is True]
        if chosen.types and chosen.function is not chosen.entry.function:
            words += chosen.types
        return "_".join(words)

    def move(self, instruction: Instruction, chosen: Selected) -> None:
        """``mov`` costs nothing: the register gets another name for the value."""
        result, source = instruction.operands
        form = dtype(chosen.types[0])
        if isinstance(result, Vector):
            self.unpack(result, source, form, instruction)
            return
        if isinstance(source, Register) and isinstance(result, Register) and (
            SIZE[source.type] == SIZE[result.type] and instruction.guard is None
        ):  # fmt: skip
            name, have = self.values.get(source.index) or (
                self.register(source, self.forms[source.index]), self.forms[source.index]
            )  # fmt: skip
            self.note = ""
            self.assign(result, name, have, instruction)
            return
        text = self.operand(source, chosen.types[0], instruction)
        if not text.isidentifier():
            name = self.fresh()
            self.emit(f"{name} = {text}")
            text = name
        self.assign_any(result, text, form, instruction)

    # -- the end of the block -------------------------------------------------

    def live_out(self) -> None:
        wanted: set[int] = set()
        for successor in self.block.successors:
            wanted |= self.graph.blocks[successor].live_in
        if self.graph.classes:  # the checker asks what they held, also where they are dead
            wanted |= self.graph.classes.keys()
        self.note = ""
        for index in sorted(self.defined & wanted):
            name, form = self.values[index]
            self.emit(f"R[{index}] = {self.convert(name, form, self.forms[index])}")

    def end(self) -> None:
        block, end = self.block, self.block.end
        following = self.first + block.index + 1
        last = block.index + 1 == len(self.graph.blocks)
        if block.skip is not None:
            guard = block.skip.guard
            assert guard is not None
            condition = self.register(guard, BOOL)
            self.live_out()
            ways = (following, following + 1)
            if block.skip.guard_negated:
                ways = (following + 1, following)
            self.emit(f"return branch(g, {condition}, {ways[0]}, {ways[1]})")
            return
        if end is None:
            self.live_out()
            self.emit("return ret(g)" if last else f"return {following}")
            return
        note = f"  # {end.line}: {end.text}"
        if end.mnemonic not in ("bra", "brx", "call", "ret", "exit", "trap"):
            self.blocking(end, following, note)
            return
        if end.mnemonic == "bra":
            text = f"return {self.first + block.successors[0]}"
            condition = self.register(end.guard, BOOL) if end.guard is not None else ""
            self.live_out()
            if condition:
                target = self.first + block.successors[0]
                ways = (following, target) if end.guard_negated else (target, following)
                text = f"return branch(g, {condition}, {ways[0]}, {ways[1]})"
        else:
            text = self.control(end, following)
            self.live_out()
        self.note = note
        self.emit(text)

    def control(self, end: Instruction, following: int) -> str:
        if end.mnemonic == "brx":
            names = branch_table(self.function, end)
            targets = tuple(self.first + self.graph.labels[name] for name in names)
            index = self.operand(end.operands[0], "u32", end)
            return f"return branch_index(g, {index}, {targets})"
        if end.mnemonic == "trap":
            return f"return trap(g, {end.where!r})"
        if end.mnemonic == "exit" or (end.mnemonic == "ret" and self.function.is_entry):
            return "return leave(g)"
        if end.mnemonic == "ret":
            return "return ret(g)"
        return self.call(end, following)

    def call(self, end: Instruction, following: int) -> str:
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
        if isinstance(target, Symbol):
            if target.name in layout.externals:
                name = self.bind(target.name, layout.externals[target.name])
                return f"return call_external(g, {name}, {places}, {backs}, {following})"
            if target.name not in self.program.first_block and target.name not in {
                f.name for f in layout.functions
            }:
                raise PtxError(f"there is no function {target.name!r} to call", end.line)
            return f"return call(g, {target.name!r}, {places}, {backs}, {following})"
        pointer = self.operand(target, "u64", end)
        return f"return call_indirect(g, {pointer}, {places}, {backs}, {following})"

    def blocking(self, end: Instruction, following: int, note: str) -> None:
        chosen = self.graph.selected[end]
        texts, result = self.arguments(end, chosen)
        function = self.bind(self.function_name(chosen), chosen.function)
        targets: tuple[Operand, ...] = ()
        if isinstance(result, Pair):
            targets = (result.first, result.second)
        elif result is not None:
            targets = (result,)
        dest = [
            (t.index, self.forms[t.index]) if isinstance(t, Register) else None for t in targets
        ]
        name = self.bind("dest", dest[0] if len(dest) == 1 else tuple(dest)) if dest else "None"
        # what the instruction itself writes, it writes after this point
        self.live_out()
        self.emit(f"g.resume = {following}")
        self.note = note
        if chosen.entry.whole:
            self.emit("if not together(g, None): return -1")
            self.note = note
        self.emit(f"return {function}({', '.join(['g', name, *texts])})")


def _positional(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)
