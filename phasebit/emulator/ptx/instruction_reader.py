"""Instructions and their operands (PTX ISA 4.3.2, 6.4, 6.5)."""

from __future__ import annotations

import re

from phasebit.emulator.ptx.cursor import Cursor
from phasebit.emulator.ptx.operands import items_of
from phasebit.emulator.ptx.scopes import Scopes
from phasebit.emulator.ptx.source_places import SourcePlaces
from phasebit.emulator.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Tuple,
    Vector,
)

SPECIAL_WORDS = {
    "%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%nwarpid", "%smid", "%nsmid",
    "%gridid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt",
    "%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi",
    "%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid", "%cluster_ctarank",
    "%cluster_nctarank", "%is_explicit_cluster", "%total_smem_size", "%dynamic_smem_size",
    "%aggr_smem_size", "%current_graph_exec", "%reserved_smem_offset_begin",
    "%reserved_smem_offset_end", "%reserved_smem_offset_cap", "%pm0", "%pm1",
    *(f"%envreg{i}" for i in range(32)),
    *(f"%reserved_smem_offset_{i}" for i in range(2)),
}  # fmt: skip

CARRY_IN = ("addc", "subc", "madc")
"""They read the carry flag without naming it; ``.cc`` writes it."""

JUMPS = ("bra", "brx")

_LONG = re.compile(r"\{\s*([^{},]+)(?:,[^{},]*){7,},([^{},]+)\}")
"""A list of nine registers or more, its first and its last."""


class InstructionReader:
    """Reads the instructions of one function, whose names ``scopes`` knows."""

    def __init__(self, cursor: Cursor, places: SourcePlaces, scopes: Scopes) -> None:
        self.cursor = cursor
        self.places = places
        self.scopes = scopes

    def read(self) -> Instruction:
        """``@guard mnemonic.modifiers operands;``"""
        cursor = self.cursor
        start = cursor.token
        guard, negated = self._guard() if cursor.accept("@") else (None, False)
        mnemonic = cursor.word()
        modifiers = []
        while cursor.token.kind == "dot":
            modifiers.append(cursor.next().text[1:])
        operands: list[Operand] = []
        while cursor.token.text != ";":
            operands.append(self._operand())
            if cursor.token.text != ";":
                cursor.expect(",")
        end = cursor.expect(";")
        text = " ".join(cursor.text[start.start : end.start].split())
        text = _LONG.sub(r"{\1, …,\2}", text)  # for messages: a wgmma names 128 registers
        if "cc" in modifiers and operands:
            operands[0] = Pair(operands[0], self.scopes.carry())
        if modifiers[:2] == ["ld", "red"] and len(operands) > 1:  # tcgen05: two results, one list
            operands[:2] = [Vector((*items_of(operands[0]), operands[1]))]
        if mnemonic in CARRY_IN:
            operands.append(self.scopes.carry())
        instruction = Instruction(
            mnemonic, tuple(modifiers), tuple(operands), start.line, text,
            guard, negated, self.places.location, self.places.generated(start.start),
        )  # fmt: skip
        if mnemonic in JUMPS:
            self.scopes.jump(instruction)
        return instruction

    def _guard(self) -> tuple[Register, bool]:
        negated = self.cursor.accept("!")
        token = self.cursor.token
        guard = self.scopes.register(self.cursor.word())
        if guard is None or guard.type != "pred":
            raise self.cursor.fail(f"the guard {token.text!r} is not a predicate register", token)
        return guard, negated

    # -- operands -------------------------------------------------------------

    def _operand(self) -> Operand:
        if self.cursor.token.kind == "mark" and (operand := self._marked()):
            return operand
        first = self._simple()
        if self.cursor.accept("|"):
            return Pair(first, self._simple())
        return first

    def _marked(self) -> Operand | None:
        """One that begins with a mark, but for a number's sign."""
        cursor = self.cursor
        token = cursor.token
        if cursor.accept("{"):
            items = [self._operand()]
            while cursor.accept(","):
                items.append(self._operand())
            cursor.expect("}")
            return Vector(tuple(items))
        if cursor.accept("("):
            inside: list[Operand] = []
            while not cursor.accept(")"):
                inside.append(self._operand())
                if cursor.token.text != ")":
                    cursor.expect(",")
            return Tuple(tuple(inside))
        if cursor.accept("["):
            return self._address()
        if cursor.accept("!"):
            name = cursor.word()
            register = self.scopes.register(name)
            if register is None:
                raise cursor.fail(f"unknown register {name!r}", token)
            return Not(register)
        return None

    def _simple(self) -> Operand:
        cursor = self.cursor
        token = cursor.token
        if token.kind in ("int", "float", "bits") or token.text in ("-", "+"):
            return cursor.immediate()
        name = cursor.word()
        if name == "_":
            return Sink()
        register = self.scopes.register(name)
        if register is not None:
            return register
        if name in SPECIAL_WORDS:
            if cursor.token.kind == "dot":
                return Special(name[1:] + cursor.next().text)
            return Special(name[1:])
        if name == "WARP_SZ":
            return Immediate(32)
        if name.startswith("%"):
            raise cursor.fail(f"register {name} is not declared", token)
        return Symbol(self.scopes.variable(name), cursor.offset())

    def _address(self) -> Address:
        """After ``[``: ``reg+4``, ``symbol``, ``4096`` or ``map, {c0, c1}``."""
        base = self._simple()
        offset = self.cursor.offset()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset + offset
        rest = []
        while self.cursor.accept(","):
            rest.append(self._operand())
        self.cursor.expect("]")
        return Address(base, offset, tuple(rest))


__all__ = ["InstructionReader"]
