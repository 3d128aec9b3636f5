"""``ld`` and ``st`` (PTX ISA 9.7.9): a gather from a view of memory, a scatter into one."""

from __future__ import annotations

from phasebit.emulator.codegen.addressing import Addressing
from phasebit.emulator.codegen.memory_watches import MemoryWatches
from phasebit.emulator.ptx.operands import misfit
from phasebit.emulator.ptx.syntax import Address, Instruction, Operand, Sink, Symbol, Vector
from phasebit.emulator.ptx.table import Selected
from phasebit.emulator.ptx.types import Form, dtype


class LoadStore:
    """Writes the loads and stores of one block."""

    def __init__(self, addressing: Addressing, watches: MemoryWatches) -> None:
        self.addressing = addressing
        self.watches = watches
        self.program = addressing.program
        self.function = addressing.function
        self.operands = addressing.operands
        self.text = addressing.text
        self.values = addressing.values

    def load(self, instruction: Instruction, chosen: Selected) -> None:
        """A line for each register that is loaded."""
        result = instruction.operands[0]
        targets = result.items if isinstance(result, Vector) else (result,)
        form = dtype(chosen.types[0])
        if self._parameter(instruction, chosen, targets, form):
            return
        self.watches.before(instruction, chosen)
        index, start = self.addressing.index(instruction, chosen)
        if chosen.options.get("sem", "weak") != "weak":
            self.text.emit("g.poll()")
        for place, target in enumerate(targets):
            if isinstance(target, Sink):
                continue
            name = self.values.result_name(target)
            self.text.emit(f"{name} = {self.addressing.view(form, start + place)}[{index}]")
            self.values.assign(target, name, form, instruction)

    def _parameter(
        self, instruction: Instruction, chosen: Selected, targets: tuple[Operand, ...], form: Form
    ) -> bool:
        """Kernel parameters are the same for all threads: a scalar, no index needed."""
        address = instruction.operands[1]
        assert isinstance(address, Address)
        if chosen.options.get("space") != "param" or not isinstance(address.base, Symbol):
            return False
        offset = self.program.layout.parameters.get(address.base.name)
        if offset is None or not self.function.is_entry:
            return False
        at, past = divmod(offset + address.offset, form.itemsize)
        end = (at + len(targets)) * form.itemsize
        if past or at < 0 or end > self.program.layout.parameter_size:
            raise misfit(
                instruction,
                f"{form.itemsize * len(targets)} bytes at {address.offset} of {address.base.name} "
                f"reach beyond the parameters, or begin at no multiple of {form.itemsize}",
            )  # fmt: skip
        view = self.text.prologue(f"P_{form.str[1:]}", f"g.parameters.{form.str[1:]}")
        for place, target in enumerate(targets):
            name = self.values.result_name(target)
            self.text.emit(f"{name} = {view}[{at + place}]")
            self.values.assign(target, name, form, instruction)
        return True

    def store(self, instruction: Instruction, chosen: Selected) -> None:
        """A line for each register that is stored."""
        source = instruction.operands[1]
        sources = source.items if isinstance(source, Vector) else (source,)
        form = dtype(chosen.types[0])
        self.watches.before(instruction, chosen)
        index, start = self.addressing.index(instruction, chosen)
        for place, item in enumerate(sources):
            value = self.operands.seen_as(chosen.types[0], item, instruction)
            view = self.addressing.view(form, start + place)
            self.text.emit(f"store({view}, {index}, {value})")
            self.watches.after_store(instruction, chosen, view, index, value)


__all__ = ["LoadStore"]
