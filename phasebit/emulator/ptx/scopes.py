"""The names of a function: ``{ .reg .pred p; … }`` gives fresh registers, variables and labels.

Inline assembly needs that.  Here each name is resolved to one that the whole function has once,
so later stages see one flat body.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.syntax import Function, Instruction, Label, Register, Symbol, Variable

CARRY = "CC.CF"


@dataclass
class Scope:
    """One ``{ … }``: registers, variables and labels declared inside it."""

    registers: dict[str, Register] = field(default_factory=dict)
    families: list[tuple[str, int, str]] = field(default_factory=list)
    """``.reg .b32 %r<42>``: prefix, count, type."""
    renamed: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class Scopes:
    """``numbers`` tells names of inner scopes apart."""

    def __init__(self, function: Function, numbers: Iterator[int]) -> None:
        self.function = function
        self.numbers = numbers
        self.stack = [Scope()]
        self._jumps: list[tuple[Instruction, list[Scope]]] = []

    @contextmanager
    def inner(self) -> Iterator[None]:
        """What is declared meanwhile stands in a scope of its own."""
        self.stack.append(Scope())
        yield
        self.stack.pop()

    @property
    def nested(self) -> bool:
        """Whether this is a scope inside the function's body, where a name may come again."""
        return len(self.stack) > 2

    # -- registers ------------------------------------------------------------

    def declare(self, name: str, kind: str) -> Register:
        """A new register of the innermost scope."""
        return self._new(name, kind, self.stack[-1])

    def declare_family(self, prefix: str, count: int, kind: str) -> None:
        """Registers ``prefix0`` … of the innermost scope, made when they are used."""
        self.stack[-1].families.append((prefix, count, kind))

    def _new(self, name: str, kind: str, scope: Scope) -> Register:
        register = Register(len(self.function.registers), name, kind)
        self.function.registers.append(register)
        scope.registers[name] = register
        return register

    def register(self, name: str) -> Register | None:
        """The register that a name means here; None where it means none."""
        for scope in reversed(self.stack):
            if name in scope.registers:
                return scope.registers[name]
            for prefix, count, kind in scope.families:
                digits = name[len(prefix) :]
                if name.startswith(prefix) and digits.isdecimal() and int(digits) < count:
                    return self._new(name, kind, scope)
        return None

    def carry(self) -> Register:
        """The carry flag CC.CF (PTX ISA 9.7.2): one predicate register a function."""
        outer = self.stack[0]
        return outer.registers.get(CARRY) or self._new(CARRY, "pred", outer)

    # -- variables and labels -------------------------------------------------

    def rename(self, variable: Variable) -> None:
        """Tell a variable of a nested scope from others of its name."""
        if self.nested:
            unique = f"{variable.name}@{next(self.numbers)}"
            self.stack[-1].renamed[variable.name] = unique
            variable.name = unique

    def variable(self, name: str) -> str:
        """The name under which the function has a variable."""
        for scope in reversed(self.stack):
            name = scope.renamed.get(name, name)
        return name

    def label(self, name: str, line: int) -> None:
        """A label stands here."""
        scope = self.stack[-1]
        if name in scope.labels:
            raise PtxError(f"label {name} is defined twice", line)
        number = next(self.numbers)
        unique = f"{name}@{number}" if self.nested else name
        scope.labels[name] = unique
        self.function.body.append(Label(unique, line))

    def jump(self, instruction: Instruction) -> None:
        """Remember a jump: its label may come later."""
        self._jumps.append((instruction, list(self.stack)))

    def resolve_labels(self) -> None:
        """Give every jump the label of the nearest enclosing scope."""
        for instruction, scopes in self._jumps:
            instruction.operands = tuple(
                self._target(operand, instruction, scopes) if isinstance(operand, Symbol)
                else operand
                for operand in instruction.operands
            )  # fmt: skip

    def _target(self, symbol: Symbol, jump: Instruction, scopes: list[Scope]) -> Symbol:
        for scope in reversed(scopes):
            if symbol.name in scope.labels:
                return Symbol(scope.labels[symbol.name])
        if symbol.name not in self.function.branch_tables:
            raise PtxError(f"there is no label {symbol.name!r} in {self.function.name}", jump.line)
        return symbol


__all__ = ["Scopes"]
