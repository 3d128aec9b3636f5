"""What a PTX module consists of, as plain data.

The reader (:mod:`phasebit.emulator.ptx.reader`) builds these objects and nothing
else; every later stage only looks at them.  Names follow the PTX ISA:
a *module* has *functions* and *variables*; a function has *instructions*;
an instruction has an opcode, modifiers, operands and perhaps a guard predicate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from phasebit.emulator.findings import Call, Place


@dataclass(eq=False, slots=True)
class Register:
    """A virtual register: ``index`` is its row in the register file of its function."""

    index: int
    name: str
    type: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant.  ``bits`` is set for ``0f…`` and ``0d…``, which give a bit pattern."""

    value: int | float
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """The name of a variable, a function or a label, plus a constant byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``%tid.x``; ``name`` has no percent sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Not:
    """A negated predicate operand, ``!%p``."""

    operand: Register


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result nobody wants."""


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``d|p``: two destinations."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``, or ``[map, {c0, c1}]`` with the coordinates in ``rest``."""

    base: Operand
    offset: int = 0
    rest: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Tuple:
    """``(a, b)``: the argument and result lists of ``call``."""

    items: tuple[Operand, ...]


Operand: TypeAlias = (
    Register | Immediate | Symbol | Special | Not | Sink | Vector | Pair | Address | Tuple
)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the CUDA source, from ``.loc``; ``inlined`` is the caller's place, if any.

    ``function`` is the inlined function that the place is in, ``path`` the file as the compiler
    was given it.
    """

    file: str
    line: int
    inlined: Location | None = None
    function: str = ""
    column: int = 0
    path: str = ""

    @property
    def ways(self) -> list[Location]:
        """From the kernel's own line inwards: the places in its file, through inlined calls.

        What headers contribute is left out: the last place is where the kernel's file uses them.
        """
        places = [self]
        while places[-1].inlined:
            places.append(places[-1].inlined)
        return [place for place in reversed(places) if place.file == places[-1].file]

    @property
    def own(self) -> Location:
        """The innermost line in the kernel's own file."""
        return self.ways[-1]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The ways, as a finding's place has them."""
        first, *inner = self.ways
        return (
            Call(first.line, first.column), *(Call(p.line, p.column, p.function) for p in inner)
        )  # fmt: skip

    def __str__(self) -> str:
        """``kernel.cu:41``; within inlined functions ``kernel.cu:41, in wait at line 12``."""
        return Place(0, "", self.own.file, self.calls).source


@dataclass(eq=False, slots=True)
class Instruction:
    """One instruction: ``@guard mnemonic.modifiers operands;``."""

    mnemonic: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    line: int
    text: str
    guard: Register | None = None
    guard_negated: bool = False
    location: Location | None = None
    generated: bool = False
    """A compiler chose it: in a text of Triton's, or outside inline assembly in one of NVIDIA's."""
    _where: Place | None = field(default=None, init=False, repr=False)

    @property
    def opcode(self) -> str:
        return ".".join((self.mnemonic, *self.modifiers))

    @property
    def where(self) -> Place:
        """``PTX line 12 (kernel.cu:7)``, ``PTX line 12 (kernel.cu:41, in wait at line 7)``."""
        if self._where is None:  # asked for at every wait, so made once
            at = self.location
            file, calls = (at.own.file, at.calls) if at else ("", ())
            path = at.own.path if at else ""
            self._where = Place(self.line, self.text, file, calls, path)
        return self._where


@dataclass(eq=False, slots=True)
class Label:
    """A jump target inside a function body."""

    name: str
    line: int


@dataclass(eq=False, slots=True)
class Variable:
    """A variable of any state space; ``size`` is in bytes."""

    name: str
    space: str
    type: str
    size: int
    align: int
    line: int
    elements: int | None = None
    """Number of elements when declared as an array; 0 for ``name[]``."""
    initial: list[int | float | Symbol | Immediate] | None = None
    pointer: bool = False
    """A parameter declared with ``.ptr``."""
    extern: bool = False
    """Declared here, defined in another unit."""
    weak: bool = False
    """Another definition may take this one's place."""


@dataclass(eq=False, slots=True)
class Function:
    """An ``.entry`` or a ``.func`` with its body flattened: scopes are resolved."""

    name: str
    is_entry: bool
    line: int
    parameters: list[Variable] = field(default_factory=list)
    results: list[Variable] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instruction | Label] = field(default_factory=list)
    branch_tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, int] = field(default_factory=dict)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    has_body: bool = False
    weak: bool = False
    """Another definition may take this one's place."""


@dataclass(eq=False, slots=True)
class Module:
    """A whole PTX file."""

    version: str
    target: str
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
