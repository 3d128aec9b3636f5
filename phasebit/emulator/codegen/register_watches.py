"""Who watches asynchronous multiplications is told of uses of their registers, before each."""

from __future__ import annotations

from collections.abc import Callable

from phasebit.emulator.codegen.accumulator_registers import renames
from phasebit.emulator.codegen.block_text import BlockText
from phasebit.emulator.codegen.global_names import GlobalNames
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.codegen.values import Values
from phasebit.emulator.ptx.control_flow import Graph, reads_and_writes
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Selected
from phasebit.emulator.tensor_core.warpgroups import begins_product, changes, looks_at


class RegisterWatches:
    """Writes the calls for one block; none where no multiplication takes registers."""

    def __init__(
        self, program: TranslatedProgram, graph: Graph, text: BlockText, values: Values,
        names: GlobalNames,
    ) -> None:  # fmt: skip
        self.program = program
        self.multiplied = graph.multiplied
        self.text = text
        self.values = values
        self.names = names

    def before(self, instruction: Instruction, chosen: Selected) -> None:
        """What an instruction is about to read and to compute of these registers."""
        if not self.multiplied or renames(instruction, chosen):
            return
        reads, writes = reads_and_writes(instruction, chosen)
        read = tuple(dict.fromkeys(r.index for r in reads if r.index in self.multiplied))
        computed = tuple(dict.fromkeys(w.index for w in writes if w.index in self.multiplied))
        if not read and not computed:
            return
        number = self.program.number(instruction)
        if chosen.entry.traits.multiplies:
            self._tell(begins_product, f"{self._classes(read)}, {number}")
            own = {w.index for w in writes}
            read, computed = tuple(i for i in read if i not in own), ()
        if read:
            texts = ", ".join(self.values.current(index) for index in read)
            self._tell(looks_at, f"({texts},), {number}")
        if computed:
            texts = ", ".join(f"{index}: {self.values.current(index)}" for index in computed)
            classes = self._classes(computed)
            self._tell(changes, f"{{{texts}}}, {classes}, {number}")

    def _tell(self, event: Callable[..., None], arguments: str) -> None:
        self.text.aside(f"{self.names.bind(event.__name__, event)}(g, {arguments})")

    def _classes(self, registers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted({self.multiplied[index] for index in registers}))


__all__ = ["RegisterWatches"]
