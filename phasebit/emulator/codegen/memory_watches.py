"""Who watches memory is told of loads and stores, of several by one call.

Accesses of one kind with one base, with no store between loads (or load between stores) and
nothing that orders memory, are a *segment*, and are looked at together, before the first of them.
"""

from __future__ import annotations

from collections import Counter

from phasebit.emulator.codegen.addressing import Addressing, size_of
from phasebit.emulator.machine.accesses import Accesses
from phasebit.emulator.ptx.control_flow import reads_and_writes
from phasebit.emulator.ptx.syntax import Instruction
from phasebit.emulator.ptx.table import Selected

Key = tuple[object, ...]
SPACES = ("shared", "global", "generic")


class MemoryWatches:
    """Writes the calls for one block; none where nobody watches."""

    def __init__(self, addressing: Addressing) -> None:
        self.addressing = addressing
        self.program = addressing.program
        self.graph = addressing.graph
        self.text = addressing.text
        self.names = addressing.names
        self.values = addressing.values
        self._segment = 0
        self._kind = ""
        self._planned: dict[Key, list[tuple[int, int]]] = {}
        """Offset and bytes of each access that one call shall cover."""
        self._meetings: dict[Key, str] = {}
        """For stores that are watched together: the variable that says whether threads meet."""

    def plan(self, instructions: list[Instruction]) -> None:
        """Group the accesses that one call can cover."""
        if not self.program.checked:
            return
        versions: Counter[int] = Counter()
        for instruction in instructions:
            chosen = self.graph.selected[instruction]
            if self._watched(chosen):
                self._advance(chosen.entry.traits.written)
                key, offset = self._key(instruction, chosen, versions)
                self._planned.setdefault(key, []).append((offset, size_of(chosen)))
            elif not chosen.entry.accesses and chosen.entry.kind != "value":
                self.order()
            versions.update(r.index for r in reads_and_writes(instruction, chosen)[1])
        self._segment, self._kind = 0, ""

    def order(self) -> None:
        """An instruction that may order memory: accesses after it are looked at anew."""
        self._segment += 1

    def before(self, instruction: Instruction, chosen: Selected) -> None:
        """Ask once for all accesses of a segment that share a base, before the first of them."""
        if not (self.program.checked and self._watched(chosen)):
            return
        kind = chosen.entry.traits.written
        self._advance(kind)
        base, offset = self.addressing.base(instruction, chosen, self.values.versions)
        if base.space not in SPACES:
            return
        key, _ = self._key(instruction, chosen, self.values.versions)
        accesses = self._planned.pop(key, None)
        if accesses is None:
            return
        index, start = self.addressing.index(instruction, chosen)
        first = offset - start * base.width
        number = self.program.number(instruction)
        shape = self.names.bind(
            "A", Accesses.of(accesses, first, base.width, instruction, chosen, number)
        )
        result = ""
        if kind == "store":
            self._meetings[key] = self.text.fresh("meet")
            result = f"{self._meetings[key]} = "
        self.text.aside(f"{result}g.watch_{kind}({index}, {shape})")

    def after_store(
        self, instruction: Instruction, chosen: Selected, view: str, index: str, value: str
    ) -> None:
        """Where threads meet: did one of them write another value than is there now?"""
        if self.program.checked and chosen.options.get("space") not in ("local", "param"):
            number = self.program.number(instruction)
            key, _ = self._key(instruction, chosen, self.values.versions)
            meet = self._meetings[key]
            self.text.emit(f"if {meet}: g.verify_store({view}, {index}, {value}, {number})")

    def _watched(self, chosen: Selected) -> bool:
        private = chosen.options.get("space") in ("param", "local", "const")
        return chosen.entry.accesses and not private

    def _advance(self, kind: str) -> None:
        if kind != self._kind:
            self._segment += 1
            self._kind = kind

    def _key(
        self, instruction: Instruction, chosen: Selected, versions: Counter[int]
    ) -> tuple[Key, int]:
        """Whose call an access belongs to, and its offset."""
        base, offset = self.addressing.base(instruction, chosen, versions)
        # Wide and narrow accesses of one base are looked at together.
        ordered = chosen.options.get("sem", "weak") != "weak"
        key = (*base, offset % base.width, chosen.entry.traits.written, self._segment)
        return (*key, instruction if ordered else None), offset


__all__ = ["MemoryWatches"]
