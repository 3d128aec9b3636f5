"""From PTX text to a :class:`~phasebit.emulator.ptx.syntax.Module`.

A recursive-descent reader: one method for each thing the grammar has.  This module
reads declarations, functions and the statements in them; those of variables, the
instructions, and where they come from have readers of their own.  Whatever none of
them can read is a :class:`PtxError` with the line.

Source: PTX ISA, sections 4 (syntax), 5 (state spaces, types, variables),
6 (operands), 7 (calls) and 11 (directives).
"""

from __future__ import annotations

import itertools

from phasebit.emulator.capabilities import OLDEST, capability
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.cursor import Cursor
from phasebit.emulator.ptx.instruction_reader import InstructionReader
from phasebit.emulator.ptx.scopes import Scopes
from phasebit.emulator.ptx.source_places import SourcePlaces
from phasebit.emulator.ptx.syntax import Function, Module, Variable
from phasebit.emulator.ptx.types import SIZE
from phasebit.emulator.ptx.variable_reader import VariableReader

LINKAGE = {".visible", ".extern", ".weak", ".common"}
SPACES = {".global", ".const", ".shared", ".local", ".param"}
FUNCTIONS = {".entry", ".func"}
PERFORMANCE = {
    ".maxnreg", ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".noreturn",
    ".reqnctapercluster", ".explicitcluster", ".maxclusterrank", ".blocksareclusters",
    ".abi_preserve", ".abi_preserve_control",
}  # fmt: skip


def read(text: str) -> Module:
    """Read a PTX module.

    Raises :class:`PtxError` with the line for anything that is not PTX,
    including text that ends too early.
    """
    reader = ModuleReader(text)
    try:
        return reader.module()
    except RecursionError:
        raise reader.cursor.fail("brackets are nested too deeply here") from None


class ModuleReader:
    """Reads one module."""

    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self.places = SourcePlaces(self.cursor)
        self.variables = VariableReader(self.cursor)
        self.numbers = itertools.count(1)

    def module(self) -> Module:
        """``.version``, ``.target``, ``.address_size``, then declarations."""
        cursor = self.cursor
        if not cursor.accept(".version"):
            raise cursor.fail("PTX begins with .version; is this a PTX file?")
        module = Module(version=cursor.next().text, target="")
        while cursor.token.kind != "end":
            text = cursor.token.text
            if text == ".target":
                cursor.next()
                module.target = self._target()
                while cursor.accept(","):
                    cursor.word()
            elif text == ".address_size":
                size = cursor.next()
                if cursor.integer() != 64:
                    raise cursor.fail("only 64-bit addresses work: compile with nvcc -m64", size)
            elif text == ".file":
                self.places.file()
            elif text == ".loc":
                self.places.loc()
            elif text == ".section":
                self.places.section()
            elif text in (".pragma", ".alias"):
                cursor.skip_to(";", f"{text} never ends; close it with ';'")
            elif text in LINKAGE or text in SPACES or text in FUNCTIONS:
                self._declaration(module)
            else:
                raise cursor.fail(f"{text!r} cannot stand at the top level of a module")
        if not module.target:
            raise cursor.fail("the module has no .target directive")
        return module

    def _target(self) -> str:
        """``sm_90a``: the architecture, with its letter."""
        token = self.cursor.token
        name = self.cursor.word()
        try:
            number = capability(name)
        except ValueError:
            raise self.cursor.fail(
                f"{name!r} is not a target: compile with nvcc -arch=sm_90a", token
            ) from None
        if number < OLDEST:
            raise self.cursor.fail(
                f"the emulator knows sm_{OLDEST} and later: compile with "
                f"-arch=sm_{OLDEST} or newer instead of {name}", token,
            )  # fmt: skip
        return name

    def _declaration(self, module: Module) -> None:
        """A function, or variables."""
        cursor = self.cursor
        linkage = set()
        while cursor.token.text in LINKAGE:
            linkage.add(cursor.next().text)
        if cursor.token.text in FUNCTIONS:
            function = self._function()
            function.weak = ".weak" in linkage
            known = module.functions.get(function.name)
            if known is None or function.has_body:
                if known is not None and known.has_body:
                    raise PtxError(f"{function.name} is defined twice", function.line)
                module.functions[function.name] = function
            return
        if cursor.token.text not in SPACES:
            raise cursor.fail(f"expected a declaration but found {cursor.token.text!r}")
        for variable in self.variables.several():
            variable.extern = ".extern" in linkage
            variable.weak = not linkage.isdisjoint({".weak", ".common"})
            if not variable.extern or variable.name not in module.variables:
                module.variables[variable.name] = variable
        cursor.expect(";")

    def _function(self) -> Function:
        """``.entry name (parameters) directives { … }``, or ``.func (results) name …``."""
        cursor = self.cursor
        entry = cursor.next().text == ".entry"
        results: list[Variable] = []
        if not entry and cursor.token.text == "(":
            results = self.variables.parameters()
        line = cursor.token.line
        function = Function(cursor.word(), entry, line, results=results)
        if cursor.token.text == "(":
            function.parameters = self.variables.parameters()
        while cursor.token.kind == "dot":
            self._directive(function)
        if cursor.accept(";"):
            return function
        if cursor.token.text != "{":
            raise cursor.fail(
                f"expected the body of {function.name} but found {cursor.token.text!r}"
            )
        function.has_body = True
        self.places.location = None
        _BodyReader(self, function).read()
        return function

    def _directive(self, function: Function) -> None:
        """``.maxntid 256, 1, 1`` and its like, between the parameters and the body."""
        cursor = self.cursor
        name = cursor.next()
        if name.text == ".pragma":
            cursor.next()
            return
        if name.text not in PERFORMANCE:
            raise cursor.fail(f"unknown function directive {name.text!r}", name)
        numbers = []
        while cursor.token.kind == "int":
            numbers.append(cursor.integer())
            cursor.accept(",")
        function.directives[name.text[1:]] = tuple(numbers)


class _BodyReader:
    """Reads the statements of one function into its body, which is flat."""

    def __init__(self, reader: ModuleReader, function: Function) -> None:
        self.function = function
        self.cursor = reader.cursor
        self.places = reader.places
        self.variables = reader.variables
        self.scopes = Scopes(function, reader.numbers)
        self.instructions = InstructionReader(self.cursor, self.places, self.scopes)

    def read(self) -> None:
        """``{ statements }``, then the labels that jumps before them name."""
        self._block()
        self.scopes.resolve_labels()

    def _block(self) -> None:
        """``{ statements }``: a scope."""
        opening = self.cursor.expect("{")
        with self.scopes.inner():
            while not self.cursor.accept("}"):
                if self.cursor.token.kind == "end":
                    raise self.cursor.fail(
                        f"the block opened on line {opening.line} is never closed"
                    )
                self._statement()

    def _statement(self) -> None:
        cursor = self.cursor
        token = cursor.token
        text = token.text
        if text == "{":
            self._block()
        elif text == ";":
            cursor.next()
        elif text == ".reg":
            self._registers()
        elif text == ".loc":
            self.places.loc()
        elif text == ".file":
            self.places.file()
        elif text == ".pragma":
            cursor.skip_to(";", ".pragma never ends; close it with ';'")
        elif text in SPACES or text in LINKAGE:
            while cursor.token.text in LINKAGE:
                cursor.next()
            declared = self.variables.several()
            for variable in declared:
                self.scopes.rename(variable)
            self.function.variables += declared
            cursor.expect(";")
        elif token.kind == "word" and cursor.following().text == ":":
            self._label()
        elif token.kind == "word" or text == "@":
            self.function.body.append(self.instructions.read())
        else:
            raise cursor.fail(f"{text!r} cannot begin a statement")

    def _registers(self) -> None:
        """``.reg .b32 %r<42>;`` or ``.reg .pred p, q;``."""
        cursor = self.cursor
        cursor.expect(".reg")
        kind = ""
        while cursor.token.kind == "dot":
            dot = cursor.next()
            kind = dot.text[1:]
            if kind not in SIZE:
                raise cursor.fail(f"unknown register type {dot.text!r}", dot)
        if not kind:
            raise cursor.fail("a register declaration without a type")
        while True:
            name = cursor.word()
            if cursor.accept("<"):
                self.scopes.declare_family(name, cursor.integer(), kind)
                cursor.expect(">")
            else:
                self.scopes.declare(name, kind)
            if not cursor.accept(","):
                break
        cursor.expect(";")

    def _label(self) -> None:
        """``name:``, or a list under a name: ``table: .branchtargets a, b;``."""
        cursor = self.cursor
        token = cursor.next()
        cursor.expect(":")
        if cursor.token.text in (".branchtargets", ".calltargets"):
            cursor.next()
            names = [cursor.word()]
            while cursor.accept(","):
                names.append(cursor.word())
            cursor.expect(";")
            self.function.branch_tables[token.text] = tuple(names)
        elif cursor.token.text == ".callprototype":
            cursor.skip_to(";", ".callprototype never ends; close it with ';'")
            self.function.prototypes[token.text] = token.line
        else:
            self.scopes.label(token.text, token.line)


__all__ = ["read"]
