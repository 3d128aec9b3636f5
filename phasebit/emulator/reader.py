"""From PTX text to a :class:`~phasebit.emulator.syntax.Module`.

A recursive-descent reader: one method for each thing the grammar has.  It
resolves scopes (``{ .reg .pred p; … }`` gives fresh registers and labels, as
inline assembly needs), so later stages see one flat body.  Whatever it cannot
read is a :class:`PtxError` with the line.

Source: PTX ISA, chapters 4 (syntax), 5 (state spaces, types, variables),
6 (operands), 7 (calls) and 11 (directives).
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, field

from phasebit.emulator.errors import PtxError
from phasebit.emulator.lexer import Token, tokens
from phasebit.emulator.syntax import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Not,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Tuple,
    Variable,
    Vector,
)
from phasebit.emulator.types import SIZE
from phasebit.toolchain import demangle

LINKAGE = {".visible", ".extern", ".weak", ".common"}
SPACES = {".global", ".const", ".shared", ".local", ".param"}
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
ALIGNMENTS = frozenset(1 << n for n in range(17))
OLDEST_TARGET = 75
MOST_ELEMENTS = 1 << 32
PERFORMANCE = {
    ".maxnreg", ".maxntid", ".reqntid", ".minnctapersm", ".maxnctapersm", ".noreturn",
    ".reqnctapercluster", ".explicitcluster", ".maxclusterrank", ".blocksareclusters",
    ".abi_preserve", ".abi_preserve_control",
}  # fmt: skip


@dataclass
class _Scope:
    """One ``{ … }``: registers, variables and labels declared inside it."""

    registers: dict[str, Register] = field(default_factory=dict)
    families: list[tuple[str, int, str]] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Module:
    """Read a PTX module.

    Raises :class:`PtxError` with the line for anything that is not PTX,
    including text that ends too early.
    """
    return _Reader(text).module()


def _debug_strings(text: str) -> tuple[bytes, dict[str, int]]:
    """What ``.section .debug_str`` holds: its bytes, and where each label stands."""
    found = re.search(r"\.section\s+\.debug_str\s*\{([^}]*)\}", text)
    pieces = re.split(r"^(\$\w+):", found[1], flags=re.MULTILINE)[1:] if found else []
    strings = bytearray()
    labels = {}
    for label, rows in zip(pieces[::2], pieces[1::2], strict=True):
        labels[label] = len(strings)
        strings += bytes(int(n) & 0xFF for n in re.findall(r"\b\d+", rows.replace(".b8", " ")))
    return bytes(strings), labels


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0
        self.files = self._file_names()
        self.strings, self.labels = _debug_strings(text)
        self.location: Location | None = None
        self.inlined_at: dict[tuple[int, int, int], Location] = {}
        self.function: Function | None = None
        self.scopes: list[_Scope] = []
        self.unique = 0
        self.pending_labels: list[tuple[Instruction, list[_Scope]]] = []

    def _file_names(self) -> dict[int, str]:
        """``.file`` directives may stand at the end, after the ``.loc`` that use them."""
        names = {}
        for place, token in enumerate(self.tokens[:-2]):
            number, name = self.tokens[place + 1], self.tokens[place + 2]
            if token.text == ".file" and number.kind == "int" and name.kind == "string":
                names[_integer(number.text)] = os.path.basename(name.text[1:-1])
        return names

    # -- tokens ---------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def fail(self, message: str, token: Token | None = None) -> PtxError:
        token = token or self.token
        if token.kind == "end":
            message += "; the text seems to be cut short"
        return PtxError(message, token.line)

    def next(self) -> Token:
        token = self.token
        if token.kind != "end":
            self.at += 1
        return token

    def accept(self, text: str) -> bool:
        if self.token.text == text and self.token.kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if self.token.text != text or self.token.kind == "string":
            raise self.fail(f"expected {text!r} but found {self.token.text!r}")
        return self.next()

    def word(self) -> str:
        if self.token.kind != "word":
            raise self.fail(f"expected a name but found {self.token.text!r}")
        return self.next().text

    def integer(self) -> int:
        negative = self.accept("-")
        if self.token.kind != "int":
            raise self.fail(f"expected an integer but found {self.token.text!r}")
        value = _integer(self.next().text)
        return -value if negative else value

    # -- module ---------------------------------------------------------------

    def module(self) -> Module:
        """``.version``, ``.target``, ``.address_size``, then declarations."""
        if not self.accept(".version"):
            raise self.fail("PTX begins with .version; is this a PTX file?")
        module = Module(version=self.next().text, target="")
        while self.token.kind != "end":
            text = self.token.text
            if text == ".target":
                self.next()
                module.target = self.target()
                while self.accept(","):
                    self.word()
            elif text == ".address_size":
                size = self.next()
                if self.integer() != 64:
                    raise self.fail("only 64-bit addresses work: compile with nvcc -m64", size)
            elif text == ".file":
                self.file()
            elif text == ".loc":
                self.loc()
            elif text == ".section":
                self.section()
            elif text in (".pragma", ".alias"):
                while not self.accept(";"):
                    if self.next().kind == "end":
                        raise self.fail(f"{text} never ends; close it with ';'")
            elif text in LINKAGE or text in SPACES or text in (".entry", ".func"):
                self.declaration(module)
            else:
                raise self.fail(f"{text!r} cannot stand at the top level of a module")
        if not module.target:
            raise self.fail("the module has no .target directive")
        return module

    def target(self) -> str:
        """``sm_90a``: the architecture, with its letter."""
        token = self.token
        name = self.word()
        number = name.removeprefix("sm_").rstrip("af")
        if not number.isdecimal() or not name.startswith("sm_"):
            raise self.fail(f"{name!r} is not a target: compile with nvcc -arch=sm_90a", token)
        if int(number) < OLDEST_TARGET:
            raise self.fail(
                f"the emulator knows sm_{OLDEST_TARGET} and later: compile with "
                f"-arch=sm_{OLDEST_TARGET} or newer instead of {name}", token,
            )  # fmt: skip
        return name

    def file(self) -> None:
        self.expect(".file")
        self.integer()
        if self.token.kind != "string":
            raise self.fail("expected a file name in quotes")
        self.next()
        while self.accept(","):
            self.integer()

    def loc(self) -> None:
        """``.loc file line column [, function_name label, inlined_at file line column]``."""
        self.expect(".loc")
        place = (self.integer(), self.integer(), self.integer())
        caller: Location | None = None
        name = ""
        while self.accept(","):
            what = self.word()
            if what == "inlined_at":
                key = (self.integer(), self.integer(), self.integer())
                caller = self.inlined_at.get(key) or Location(self.files.get(key[0], "?"), key[1])
            else:  # function_name $L__info_string3 [+ 4]
                label = self.word()
                offset = self.integer() if self.accept("+") else 0
                name = self.debug_name(label, offset)
        self.location = Location(self.files.get(place[0], "?"), place[1], caller, name)
        self.inlined_at[place] = self.location

    def debug_name(self, label: str, offset: int) -> str:
        """The last part of the function name at a label of ``.debug_str``; "" if unknown."""
        if label not in self.labels:
            return ""
        start = self.labels[label] + offset
        end = self.strings.find(b"\0", start)
        mangled = self.strings[start : end if end >= 0 else None]
        name = demangle(mangled.decode("utf-8", "replace")).split("::")[-1]
        return "" if name.startswith("_Z") else name

    def section(self) -> None:
        """``.section .debug_str { … }``: debugging information, which nothing here reads."""
        start = self.next()
        while self.token.text != "{":
            if self.next().kind == "end":
                raise self.fail("this .section has no body", start)
        depth = 0
        while True:
            token = self.next()
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            if token.kind == "end":
                raise self.fail("this .section never ends", start)
            if depth == 0:
                return

    def declaration(self, module: Module) -> None:
        linkage = set()
        while self.token.text in LINKAGE:
            linkage.add(self.next().text)
        if self.token.text in (".entry", ".func"):
            function = self.read_function()
            function.weak = ".weak" in linkage
            known = module.functions.get(function.name)
            if known is None or function.has_body:
                if known is not None and known.has_body:
                    raise PtxError(f"{function.name} is defined twice", function.line)
                module.functions[function.name] = function
            return
        if self.token.text not in SPACES:
            raise self.fail(f"expected a declaration but found {self.token.text!r}")
        for variable in self.variables():
            variable.extern = ".extern" in linkage
            variable.weak = not linkage.isdisjoint({".weak", ".common"})
            if not variable.extern or variable.name not in module.variables:
                module.variables[variable.name] = variable
        self.expect(";")

    # -- variables ------------------------------------------------------------

    def variables(self) -> list[Variable]:
        """``.shared .align 4 .b8 name[1024] = {…}, other``; stops before the ``;``."""
        space = self.next().text[1:]
        align, kind, vector, pointer = 0, "", 1, False
        while self.token.kind == "dot":
            dot = self.next()
            name = dot.text[1:]
            if name == "align":
                alignment = self.integer()
                if alignment not in ALIGNMENTS:
                    raise self.fail(f"an alignment is a power of two, and {alignment} is none", dot)
                if not pointer:  # after .ptr it is that of what the pointer points to
                    align = alignment
            elif name in ("v2", "v4"):
                vector = int(name[1:])
            elif name == "ptr":
                pointer = True
            elif name in SIZE:
                kind = name
            elif name in ("texref", "samplerref", "surfref"):
                raise self.fail(f".{name} variables are not supported", dot)
            elif name not in ("attribute", "managed", "unified", "global", "shared", "const",
                              "local"):  # fmt: skip
                raise self.fail(f"unknown word {dot.text!r} in a variable declaration", dot)
            if self.accept("("):  # .attribute(.managed)
                while not self.accept(")"):
                    if self.next().kind == "end":
                        raise self.fail("unclosed '('")
        if not kind:
            raise self.fail("a variable declaration without a type")
        result = []
        while True:
            line = self.token.line
            name = self.word()
            elements: int | None = None
            while self.accept("["):
                count = 0 if self.token.text == "]" else self.integer()
                elements = count if elements is None else elements * count
                self.expect("]")
            if kind == "pred" or not 0 <= (elements or 0) <= MOST_ELEMENTS:
                raise PtxError(f"no memory holds {elements or 'a'} .{kind}: {name}", line)
            unit = SIZE[kind] * vector
            variable = Variable(
                name, space, kind, unit * (1 if elements is None else elements),
                align or unit, line, elements, pointer=pointer,
            )  # fmt: skip
            if self.accept("="):
                variable.initial = self.initialiser()
                if variable.elements == 0:
                    variable.size = unit * len(variable.initial)
            if len(self.scopes) > 2:  # a second "param0" in a sibling scope is another variable
                self.unique += 1
                unique = f"{name}@{self.unique}"
                self.scopes[-1].renamed[name] = unique
                variable.name = unique
            result.append(variable)
            if not self.accept(","):
                return result

    def initialiser(self) -> list[int | float | Symbol | Immediate]:
        if self.accept("{"):
            values: list[int | float | Symbol | Immediate] = []
            while not self.accept("}"):
                values += self.initialiser()
                if self.token.text != "}":
                    self.expect(",")
            return values
        if self.token.kind == "word":
            name = self.word()
            if self.accept("("):  # generic(name), mask(…)(name)
                inner = self.initialiser()
                self.expect(")")
                return inner
            return [Symbol(name, self.offset())]
        immediate = self.immediate()
        return [immediate if immediate.bits is not None else immediate.value]

    # -- functions ------------------------------------------------------------

    def read_function(self) -> Function:
        entry = self.next().text == ".entry"
        function = self.function = Function("", entry, self.token.line)
        self.scopes = [_Scope()]
        if not entry and self.token.text == "(":
            function.results = self.parameter_list()
        function.line = self.token.line
        function.name = self.word()
        if self.token.text == "(":
            function.parameters = self.parameter_list()
        while self.token.kind == "dot":
            name = self.next()
            if name.text == ".pragma":
                self.next()
                continue
            if name.text not in PERFORMANCE:
                raise self.fail(f"unknown function directive {name.text!r}", name)
            numbers = []
            while self.token.kind == "int":
                numbers.append(self.integer())
                self.accept(",")
            function.directives[name.text[1:]] = tuple(numbers)
        if self.accept(";"):
            return function
        if self.token.text != "{":
            raise self.fail(f"expected the body of {function.name} but found {self.token.text!r}")
        function.has_body = True
        self.location = None
        self.pending_labels = []
        self.block()
        self.resolve_labels()
        return function

    def parameter_list(self) -> list[Variable]:
        self.expect("(")
        result: list[Variable] = []
        while not self.accept(")"):
            if self.token.text == ".reg":
                raise self.fail("register parameters belong to an old ABI that is not supported")
            if self.token.text != ".param":
                raise self.fail(f"expected .param but found {self.token.text!r}")
            result += self.variables_one()
            if self.token.text != ")":
                self.expect(",")
        return result

    def variables_one(self) -> list[Variable]:
        """One parameter; the comma after it separates parameters, not names."""
        scopes, self.scopes = self.scopes, self.scopes[:1]
        start = self.at
        depth = 0
        while True:  # hide the list's commas from ``variables``
            text = self.tokens[self.at].text
            if self.tokens[self.at].kind == "end":
                raise self.fail("this parameter list never ends")
            if depth == 0 and text in (",", ")"):
                break
            depth += {"(": 1, ")": -1}.get(text, 0)
            self.at += 1
        stop, self.at = self.at, start
        saved = self.tokens[stop]
        self.tokens[stop] = Token("mark", "\0", saved.line, saved.start, saved.stop)
        try:
            result = self.variables()
        finally:
            self.tokens[stop] = saved
            self.scopes = scopes
        return result

    def block(self) -> None:
        """``{ statements }``, flattened into the function's body."""
        opening = self.expect("{")
        self.scopes.append(_Scope())
        while not self.accept("}"):
            if self.token.kind == "end":
                raise self.fail(f"the block opened on line {opening.line} is never closed")
            self.statement()
        self.scopes.pop()

    def statement(self) -> None:
        assert self.function is not None
        token = self.token
        if token.text == "{":
            self.block()
        elif token.text == ";":
            self.next()
        elif token.text == ".reg":
            self.declare_registers()
        elif token.text == ".loc":
            self.loc()
        elif token.text == ".file":
            self.file()
        elif token.text == ".pragma":
            while not self.accept(";"):
                if self.next().kind == "end":
                    raise self.fail(".pragma never ends; close it with ';'")
        elif token.text in SPACES or token.text in LINKAGE:
            while self.token.text in LINKAGE:
                self.next()
            self.function.variables += self.variables()
            self.expect(";")
        elif token.kind == "word" and self.tokens[self.at + 1].text == ":":
            self.label()
        elif token.kind == "word" or token.text == "@":
            self.instruction()
        else:
            raise self.fail(f"{token.text!r} cannot begin a statement")

    def declare_registers(self) -> None:
        """``.reg .b32 %r<42>;`` or ``.reg .pred p, q;``."""
        self.expect(".reg")
        kind = ""
        while self.token.kind == "dot":
            dot = self.next()
            kind = dot.text[1:]
            if kind not in SIZE:
                raise self.fail(f"unknown register type {dot.text!r}", dot)
        if not kind:
            raise self.fail("a register declaration without a type")
        while True:
            name = self.word()
            if self.accept("<"):
                self.scopes[-1].families.append((name, self.integer(), kind))
                self.expect(">")
            else:
                self.new_register(name, kind, self.scopes[-1])
            if not self.accept(","):
                break
        self.expect(";")

    def new_register(self, name: str, kind: str, scope: _Scope) -> Register:
        assert self.function is not None
        register = Register(len(self.function.registers), name, kind)
        self.function.registers.append(register)
        scope.registers[name] = register
        return register

    def find_register(self, name: str) -> Register | None:
        for scope in reversed(self.scopes):
            if name in scope.registers:
                return scope.registers[name]
            for prefix, count, kind in scope.families:
                digits = name[len(prefix) :]
                if name.startswith(prefix) and digits.isdecimal() and int(digits) < count:
                    return self.new_register(name, kind, scope)
        return None

    def label(self) -> None:
        assert self.function is not None
        token = self.next()
        self.expect(":")
        if self.token.text in (".branchtargets", ".calltargets"):
            self.next()
            names = [self.word()]
            while self.accept(","):
                names.append(self.word())
            self.expect(";")
            self.function.branch_tables[token.text] = tuple(names)
            return
        if self.token.text == ".callprototype":
            while not self.accept(";"):
                if self.next().kind == "end":
                    raise self.fail(".callprototype never ends; close it with ';'")
            self.function.prototypes[token.text] = token.line
            return
        self.unique += 1
        scope = self.scopes[-1]
        if token.text in scope.labels:
            raise self.fail(f"label {token.text} is defined twice", token)
        unique = token.text if len(self.scopes) <= 2 else f"{token.text}@{self.unique}"
        scope.labels[token.text] = unique
        self.function.body.append(Label(unique, token.line))

    def resolve_labels(self) -> None:
        """Give every branch the label of the nearest enclosing scope."""
        assert self.function is not None
        for instruction, scopes in self.pending_labels:
            operands = []
            for operand in instruction.operands:
                if isinstance(operand, Symbol):
                    for scope in reversed(scopes):
                        if operand.name in scope.labels:
                            operand = Symbol(scope.labels[operand.name])
                            break
                    else:
                        if operand.name not in self.function.branch_tables:
                            raise PtxError(
                                f"there is no label {operand.name!r} in {self.function.name}",
                                instruction.line,
                            )
                operands.append(operand)
            instruction.operands = tuple(operands)

    # -- instructions ---------------------------------------------------------

    def instruction(self) -> None:
        assert self.function is not None
        start = self.token
        guard, negated = None, False
        if self.accept("@"):
            negated = self.accept("!")
            token = self.token
            guard = self.find_register(self.word())
            if guard is None or guard.type != "pred":
                raise self.fail(f"the guard {token.text!r} is not a predicate register", token)
        mnemonic = self.word()
        modifiers = []
        while self.token.kind == "dot":
            modifiers.append(self.next().text[1:])
        operands: list[Operand] = []
        while self.token.text != ";":
            operands.append(self.operand())
            if self.token.text != ";":
                self.expect(",")
        end = self.expect(";")
        text = " ".join(self.text[start.start : end.start].split())
        if "cc" in modifiers and operands:
            operands[0] = Pair(operands[0], self.carry())
        if mnemonic in ("addc", "subc", "madc"):
            operands.append(self.carry())
        instruction = Instruction(
            mnemonic, tuple(modifiers), tuple(operands), start.line, text,
            guard, negated, self.location,
        )  # fmt: skip
        if mnemonic in ("bra", "brx"):
            self.pending_labels.append((instruction, list(self.scopes)))
        self.function.body.append(instruction)

    def carry(self) -> Register:
        """The carry flag CC.CF (PTX ISA 9.7.2): one predicate register a function."""
        scope = self.scopes[0]
        return scope.registers.get("CC.CF") or self.new_register("CC.CF", "pred", scope)

    def operand(self) -> Operand:
        token = self.token
        if self.accept("{"):
            items = [self.operand()]
            while self.accept(","):
                items.append(self.operand())
            self.expect("}")
            return Vector(tuple(items))
        if self.accept("("):
            inside: list[Operand] = []
            while not self.accept(")"):
                inside.append(self.operand())
                if self.token.text != ")":
                    self.expect(",")
            return Tuple(tuple(inside))
        if self.accept("["):
            return self.address()
        if self.accept("!"):
            register = self.find_register(self.word())
            if register is None:
                raise self.fail(f"unknown register {self.tokens[self.at - 1].text!r}", token)
            return Not(register)
        first = self.simple_operand()
        if self.accept("|"):
            return Pair(first, self.simple_operand())
        return first

    def simple_operand(self) -> Operand:
        token = self.token
        if token.kind in ("int", "float", "bits") or token.text in ("-", "+"):
            return self.immediate()
        name = self.word()
        if name == "_":
            return Sink()
        register = self.find_register(name)
        if register is not None:
            return register
        if name in SPECIAL_WORDS:
            if self.token.kind == "dot":
                return Special(name[1:] + self.next().text)
            return Special(name[1:])
        if name == "WARP_SZ":
            return Immediate(32)
        if name.startswith("%"):
            raise self.fail(f"register {name} is not declared", token)
        for scope in reversed(self.scopes):
            name = scope.renamed.get(name, name)
        return Symbol(name, self.offset())

    def address(self) -> Address:
        """After ``[``: ``reg+4``, ``symbol``, ``4096`` or ``map, {c0, c1}``."""
        base = self.simple_operand()
        offset = self.offset()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset + offset
        rest = []
        while self.accept(","):
            rest.append(self.operand())
        self.expect("]")
        return Address(base, offset, tuple(rest))

    def offset(self) -> int:
        total = 0
        while self.token.text in ("+", "-"):
            sign = 1 if self.next().text == "+" else -1
            total += sign * self.integer()
        return total

    def immediate(self) -> Immediate:
        sign = 1
        while self.token.text in ("-", "+"):
            sign = -sign if self.next().text == "-" else sign
        token = self.next()
        if token.kind == "int":
            return Immediate(sign * _integer(token.text))
        if token.kind == "float":
            return Immediate(sign * float(token.text))
        if token.kind == "bits":
            bits = int(token.text[2:], 16)
            single = token.text[1] in "fF"
            value = struct.unpack(">f" if single else ">d", bits.to_bytes(4 if single else 8))[0]
            if sign < 0:
                bits ^= 1 << (31 if single else 63)
                value = -value
            return Immediate(value, bits)
        raise self.fail(f"expected a number but found {token.text!r}", token)


def _integer(text: str) -> int:
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X", "0b", "0B"):
        return int(text, 0)
    if len(text) > 1 and text[0] == "0" and text.isdecimal() and set(text) <= set("01234567"):
        return int(text, 8)
    return int(text)
