"""Writing a block, part two: loads and stores, and the calls of the checker.

Accesses that share a base register share one index array, and one call of the
checker covers those between which nothing is ordered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phasebit.emulator.cfg import reads_and_writes
from phasebit.emulator.errors import PtxError
from phasebit.emulator.syntax import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Sink,
    Symbol,
    Vector,
)
from phasebit.emulator.table import Selected
from phasebit.emulator.types import SIZE, dtype
from phasebit.emulator.write_values import Form, Span, ValueWriter


class AccessWriter(ValueWriter):
    """Loads and stores of one block."""

    # -- loads and stores -----------------------------------------------------

    def access(self, instruction: Instruction, chosen: Selected) -> tuple[Any, ...]:
        """What an access shares with others (base, its version, space, width), and its offset."""
        load = chosen.entry.mnemonic != "st"
        address = instruction.operands[1 if load else 0]
        if not isinstance(address, Address):
            raise PtxError(
                f"{instruction.opcode} needs an address: {instruction.text}", instruction.line
            )
        space = chosen.options.get("space", "generic")
        base = address.base
        if isinstance(base, Symbol):
            space, where = self.program.layout.place(base, self.function, instruction, space)
            what = "frame" if self.program.layout.moves(base, self.function) else "symbol"
            if space == "shared" and self.program.clustered:
                what = "own"
            return (what, where, 0, space, SIZE[chosen.types[0]], address.offset)
        if isinstance(base, Immediate):
            where = int(base.value)
            return ("symbol", where, 0, space, SIZE[chosen.types[0]], address.offset)
        assert isinstance(base, Register)
        if space == "param" and not self.function.is_entry:
            space = "local"  # a function's parameters lie in its stack frame
        version = self.versions[base.index]
        return ("register", base.index, version, space, SIZE[chosen.types[0]], address.offset)

    @staticmethod
    def vector_length(instruction: Instruction) -> int:
        for word in instruction.modifiers:
            if word in ("v2", "v4", "v8"):
                return int(word[1:])
        return 1

    def _plan_spans(self, instructions: list[Instruction]) -> None:
        """Find, for each base, the range of offsets that this block uses."""
        self.versions.clear()
        accesses: list[tuple[tuple[Any, ...], int, int]] = []
        for instruction in instructions:
            chosen = self.graph.selected[instruction]
            if chosen.entry.accesses:
                *parts, offset = self.access(instruction, chosen)
                size = SIZE[chosen.types[0]] * self.vector_length(instruction)
                accesses.append((tuple(parts), offset, size))
            for register in _written(instruction, chosen):
                self.versions[register.index] += 1
        self.versions.clear()
        for key, offset, size in accesses:
            if size > self.anchors.get(key, (0, 0))[1]:
                self.anchors[key] = (offset, size)
        for key, offset, size in accesses:
            span = self.spans.setdefault(self.together(key, offset, size), Span())
            span.low = min(span.low, offset)
            span.high = max(span.high, offset + size)
            span.align = max(span.align, size)
        for key, span in self.spans.items():
            if key in self.anchors:  # begin where the widest access says that it is aligned
                span.low -= (span.low - self.anchors[key][0]) % span.align

    def together(self, key: tuple[Any, ...], offset: int, size: int) -> tuple[Any, ...]:
        """Whose span this access belongs to: one check of alignment must hold for all in it."""
        return key if (offset - self.anchors[key][0]) % size == 0 else (*key, offset, size)

    def index(self, instruction: Instruction, chosen: Selected) -> tuple[str, int, tuple[Any, ...]]:
        """The index array of an access, and where its view begins."""
        *parts, offset = self.access(instruction, chosen)
        key = tuple(parts)
        what, base, _, space, width = key
        size = width * self.vector_length(instruction)
        key = self.together(key, offset, size)
        span = self.spans[key]
        shift = width.bit_length() - 1
        if key not in self.indices:
            if what == "register":
                register = self.function.registers[base]
                form: Form = np.dtype(f"u{SIZE[register.type]}")
                text = self.register(register, form)
            else:
                form = np.dtype("u4" if space == "shared" else "u8")
                text = self.constant(base, form)
                if what == "own":
                    text = f"({text} + {self.own_window(form)})"
                if what == "frame":
                    text = f"({text} + {self.prologue('B_u8', 'u8.type(g.base)')})"
            name = self.fresh("i")
            low = self.constant(span.low, form)
            identity = self.program.access_id(instruction)
            saved, self.note = self.note, ""
            self.emit(
                f"{name} = g.{space}_index({text}, {low}, {span.high - span.low}, "
                f"{shift}, {span.align}, {identity})"
            )
            self.note = saved
            self.indices[key] = name
            self.checks[name] = identity
        covered = self.program.covered.setdefault(self.checks[self.indices[key]], [])
        covered.append((instruction, offset - span.low, size))
        return self.indices[key], (offset - span.low) >> shift, key

    def view(self, form: Form, start: int) -> str:
        name = self.prologue(f"M_{form.str[1:]}", f"g.memory.{form.str[1:]}")
        return f"{name}[{start}:]" if start else name

    def load(self, instruction: Instruction, chosen: Selected) -> None:
        result = instruction.operands[0]
        targets = result.items if isinstance(result, Vector) else (result,)
        kind = chosen.types[0]
        form = dtype(kind)
        if self.parameter(instruction, chosen, targets, form):
            return
        self.watch(instruction, chosen, "load")
        index, start, _ = self.index(instruction, chosen)
        if chosen.options.get("sem", "weak") != "weak":
            self.emit("g.poll()")
        for place, target in enumerate(targets):
            if isinstance(target, Sink):
                continue
            name = self.result_name(target)
            self.emit(f"{name} = {self.view(form, start + place)}[{index}]")
            self.assign_any(target, name, form, instruction)

    def parameter(
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
        at = (offset + address.offset) // form.itemsize
        view = self.prologue(f"P_{form.str[1:]}", f"g.parameters.{form.str[1:]}")
        for place, target in enumerate(targets):
            name = self.result_name(target)
            self.emit(f"{name} = {view}[{at + place}]")
            self.assign_any(target, name, form, instruction)
        return True

    def store(self, instruction: Instruction, chosen: Selected) -> None:
        source = instruction.operands[1]
        sources = source.items if isinstance(source, Vector) else (source,)
        form = dtype(chosen.types[0])
        self.watch(instruction, chosen, "store")
        index, start, _ = self.index(instruction, chosen)
        for place, item in enumerate(sources):
            text = self.operand(item, chosen.types[0], instruction)
            view = self.view(form, start + place)
            self.emit(f"store({view}, {index}, {text})")
            if self.program.checked and chosen.options.get("space") not in ("local", "param"):
                identity = self.program.access_id(instruction)
                meet = self.meetings[self._watch_key(instruction, chosen, "store")]
                self.emit(f"if {meet}: g.verify_store({view}, {index}, {text}, {identity})")

    # -- checks ---------------------------------------------------------------

    def _plan_watches(self, instructions: list[Instruction]) -> None:
        """Group the accesses that one call of the checker can cover.

        Accesses of one kind with one base, with no store between loads (or load
        between stores) and nothing that orders memory, are looked at together.
        """
        self._segments(instructions, self._note_watch)
        self.segment, self.segment_kind = 0, ""
        self.versions.clear()

    def _segments(
        self, instructions: list[Instruction], visit: Callable[[Instruction, Selected, str], None]
    ) -> None:
        for instruction in instructions:
            chosen = self.graph.selected[instruction]
            if chosen.entry.accesses:
                if chosen.options.get("space") not in ("param", "local", "const"):
                    kind = "store" if chosen.entry.mnemonic == "st" else "load"
                    self._advance(kind)
                    visit(instruction, chosen, kind)
            elif chosen.entry.kind != "value":
                self.segment += 1
            for register in _written(instruction, chosen):
                self.versions[register.index] += 1

    def _advance(self, kind: str) -> None:
        if kind != self.segment_kind:
            self.segment += 1
            self.segment_kind = kind

    def _watch_key(self, instruction: Instruction, chosen: Selected, kind: str) -> tuple[Any, ...]:
        what, base, version, space, width, offset = self.access(instruction, chosen)
        # Wide and narrow accesses of one base are looked at together.
        key = (what, base, version, space, width, offset % width)
        sem = chosen.options.get("sem", "weak")
        unit = instruction if sem != "weak" else None
        return (*key, kind, self.segment, unit)

    def _note_watch(self, instruction: Instruction, chosen: Selected, kind: str) -> None:
        if chosen.options.get("space") in ("param", "local", "const"):
            return
        offset = self.access(instruction, chosen)[-1]
        width = SIZE[chosen.types[0]] * self.vector_length(instruction)
        key = self._watch_key(instruction, chosen, kind)
        self.watched.setdefault(key, []).append((offset, width))

    def watch(self, instruction: Instruction, chosen: Selected, kind: str) -> None:
        """Call the checker once for all accesses of a segment that share a base."""
        if not self.program.checked:
            return
        if chosen.options.get("space") in ("param", "local", "const"):
            return
        self._advance(kind)
        *_, space, width, offset = self.access(instruction, chosen)
        if space not in ("shared", "global", "generic"):
            return
        key = self._watch_key(instruction, chosen, kind)
        accesses = self.watched.pop(key, None)
        if accesses is None:
            return
        index, start, _ = self.index(instruction, chosen)
        first = offset - start * width
        shape = self.bind(
            "A", Accesses.of(accesses, first, width, instruction, chosen,
                             self.program.access_id(instruction))
        )  # fmt: skip
        saved, self.note = self.note, ""
        result = ""
        if kind == "store":
            self.meetings[key] = self.fresh("meet")
            result = f"{self.meetings[key]} = "
        self.emit(f"{result}g.watch_{kind}({index}, {shape})")
        self.note = saved


def _written(instruction: Instruction, chosen: Selected) -> list[Register]:
    return reads_and_writes(instruction, chosen)[1]


@dataclass(frozen=True)
class Accesses:
    """Accesses of one segment that share an index array, for the checker.

    ``words`` are offsets from the index, in units of ``width`` bytes.
    """

    words: tuple[int, ...]
    width: int
    requests: tuple[tuple[int, int], ...]
    """For each instruction its first word and its bytes a thread."""
    identity: int
    sem: str
    scope: str
    space: str

    @staticmethod
    def of(
        accesses: list[tuple[int, int]],
        first: int,
        width: int,
        instruction: Instruction,
        chosen: Selected,
        identity: int,
    ) -> Accesses:
        words: list[int] = []
        requests: list[tuple[int, int]] = []
        for offset, size in accesses:
            start = (offset - first) // width
            requests.append((start, size))
            words += range(start, start + size // width)
        return Accesses(
            tuple(dict.fromkeys(words)), width, tuple(requests), identity,
            chosen.options.get("sem", "weak"), chosen.options.get("scope", "cta"),
            chosen.options.get("space", "generic"),
        )  # fmt: skip
