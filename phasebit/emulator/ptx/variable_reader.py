"""Declarations of variables and parameters (PTX ISA 5.1, 5.4)."""

from __future__ import annotations

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.cursor import Cursor
from phasebit.emulator.ptx.syntax import Immediate, Symbol, Variable
from phasebit.emulator.ptx.types import SIZE

ALIGNMENTS = frozenset(1 << n for n in range(17))
MOST_ELEMENTS = 1 << 32
SPACE_WORDS = frozenset({"attribute", "managed", "unified", "global", "shared", "const", "local"})
"""What a declaration may also say: the space after ``.ptr``, and attributes."""

Initial = list[int | float | Symbol | Immediate]


class VariableReader:
    """Reads declarations at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor

    def several(self) -> list[Variable]:
        """``.shared .align 4 .b8 name[1024] = {…}, other``; stops before the ``;``."""
        declared = _Declaration(self.cursor)
        result = [self._named(declared)]
        while self.cursor.accept(","):
            result.append(self._named(declared))
        return result

    def parameters(self) -> list[Variable]:
        """``( .param .u64 a, .param .b32 b )``: commas separate parameters, not names."""
        cursor = self.cursor
        cursor.expect("(")
        result: list[Variable] = []
        while not cursor.accept(")"):
            if cursor.token.text == ".reg":
                raise cursor.fail("register parameters belong to an old ABI that is not supported")
            if cursor.token.text != ".param":
                raise cursor.fail(f"expected .param but found {cursor.token.text!r}")
            result.append(self._named(_Declaration(cursor)))
            if cursor.token.text != ")":
                cursor.expect(",")
        return result

    def _named(self, declared: _Declaration) -> Variable:
        """``name[1024] = {…}``, of what was declared before."""
        cursor = self.cursor
        line = cursor.token.line
        name = cursor.word()
        elements: int | None = None
        while cursor.accept("["):
            count = 0 if cursor.token.text == "]" else cursor.integer()
            elements = count if elements is None else elements * count
            cursor.expect("]")
        kind = declared.kind
        if kind == "pred" or not 0 <= (elements or 0) <= MOST_ELEMENTS:
            raise PtxError(f"no memory holds {elements or 'a'} .{kind}: {name}", line)
        unit = SIZE[kind] * declared.vector
        variable = Variable(
            name, declared.space, kind, unit * (1 if elements is None else elements),
            declared.align or unit, line, elements, pointer=declared.pointer,
        )  # fmt: skip
        if cursor.accept("="):
            variable.initial = self._initial()
            if variable.elements == 0:
                variable.size = unit * len(variable.initial)
        return variable

    def _initial(self) -> Initial:
        """``{1, 2, {3}}``, a name, ``generic(name)`` or a number, flattened."""
        cursor = self.cursor
        if cursor.accept("{"):
            values: Initial = []
            while not cursor.accept("}"):
                values += self._initial()
                if cursor.token.text != "}":
                    cursor.expect(",")
            return values
        if cursor.token.kind == "word":
            name = cursor.word()
            if cursor.accept("("):  # generic(name), mask(…)(name)
                inner = self._initial()
                cursor.expect(")")
                return inner
            return [Symbol(name, cursor.offset())]
        immediate = cursor.immediate()
        return [immediate if immediate.bits is not None else immediate.value]


class _Declaration:
    """What stands before the names: ``.shared .align 4 .v2 .f32``."""

    def __init__(self, cursor: Cursor) -> None:
        self.space = cursor.next().text[1:]
        self.kind = ""
        self.align = 0
        self.vector = 1
        self.pointer = False
        while cursor.token.kind == "dot":
            dot = cursor.next()
            name = dot.text[1:]
            if name == "align":
                alignment = cursor.integer()
                if alignment not in ALIGNMENTS:
                    raise cursor.fail(
                        f"an alignment is a power of two, and {alignment} is none", dot
                    )
                if not self.pointer:  # after .ptr it is that of what the pointer points to
                    self.align = alignment
            elif name in ("v2", "v4"):
                self.vector = int(name[1:])
            elif name == "ptr":
                self.pointer = True
            elif name in SIZE:
                self.kind = name
            elif name in ("texref", "samplerref", "surfref"):
                raise cursor.fail(f".{name} variables are not supported", dot)
            elif name not in SPACE_WORDS:
                raise cursor.fail(f"unknown word {dot.text!r} in a variable declaration", dot)
            if cursor.accept("("):  # .attribute(.managed)
                cursor.skip_to(")", "unclosed '('")
        if not self.kind:
            raise cursor.fail("a variable declaration without a type")


__all__ = ["VariableReader"]
