"""The instruction table: one entry an instruction, one Python function an entry.

A family module (``phasebit.emulator.ops.*``) defines the functions and enters
each with one of four decorators, which say how the machine must treat it:

=============  ====================================================================
``value``      a function of its operands and of nothing else
``effect``     touches memory or the machine, always finishes: ``f(g, operands…)``
``blocking``   may have to wait, so it ends a basic block: ``f(g, dest, operands…)``
``collective`` needs the threads of its member mask together before it runs
=============  ====================================================================

``g`` is the :class:`~phasebit.emulator.group.Group` that executes.  The
signature says how each operand is looked at: ``x`` is the instruction's first
type, ``y`` its second, ``w`` twice as wide as ``x``, anything else is a type by
name; ``*`` stands for several registers, ``+`` for a result that is read, too.
``"x x u32 -> x"`` thus reads: two operands of the type, a 32-bit number, a result of
the type.

The same table drives the translation, ``python -m phasebit ptx`` and the
coverage tests; an opcode that is not in it is an error that names it.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from phasebit.emulator.errors import PtxError
from phasebit.emulator.syntax import Address, Instruction
from phasebit.emulator.types import SIZE

Kind = Literal["value", "effect", "blocking", "collective"]
Option = tuple[str, Any]

FAMILIES = (
    "integer", "logic", "floating", "half", "compare", "convert", "move", "memory", "atomic",
    "control", "barrier", "mbarrier", "cp_async", "bulk", "bulk_tensor", "tensormap",
    "remote", "cluster_launch", "warp", "matrix", "wgmma", "tcgen05", "tcgen05_scaled",
    "tcgen05_ws", "tcgen05_shift",
)  # fmt: skip
"""The modules of ``phasebit.emulator.ops``, in the order of the PTX ISA's chapter 9."""

IGNORED = frozenset(
    {
        "uni", "aligned", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "cta", "cluster", "gpu",
        "sys", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
        "L1::no_allocate", "L2::evict_normal", "L2::evict_first", "L2::evict_last",
        "L2::cache_hint", "L2::64B", "L2::128B", "L2::256B", "full",
    }
)  # fmt: skip
"""Modifiers that change nothing one can compute: cache hints, scopes (the checker reads those)."""

SPACES = {
    "shared": "shared", "shared::cta": "shared", "shared::cluster": "shared", "global": "global",
    "local": "local", "const": "const", "param": "param", "param::entry": "param",
    "param::func": "param",
}  # fmt: skip
"""State-space modifiers -> the argument ``space`` of a function that has one."""

SEMANTICS = frozenset(
    {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"}
)
"""Memory-ordering modifiers -> the argument ``sem``."""

SCOPES = frozenset({"cta", "cluster", "gpu", "sys"})
"""Scope modifiers -> the argument ``scope``."""

ROUNDING: dict[str, Option] = {r: ("rounding", r) for r in ("rn", "rz", "rm", "rp")}
FTZ: dict[str, Option] = {"ftz": ("ftz", True)}
SAT: dict[str, Option] = {"sat": ("sat", True)}


@dataclass(frozen=True)
class Entry:
    """One line of the table."""

    mnemonic: str
    needs: tuple[str, ...]
    """Modifiers that select this entry."""
    types: tuple[frozenset[str] | None, ...]
    """For each type modifier the types allowed; ``None`` for any."""
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    options: dict[str, Option]
    """Modifiers that become keyword arguments."""
    optional: int
    """How many trailing operands may be left out."""
    function: Callable[..., Any]
    kind: Kind
    section: str
    family: str
    releases: bool
    """Whether the instruction may order memory (the checker starts a new moment after it)."""
    whole: bool = False
    """Of a blocking instruction: whether it begins a block, so that its warp can come together
    there (:meth:`phasebit.emulator.machine.Machine.gather`)."""

    @property
    def updates(self) -> bool:
        """Whether the result is read, too; it is then also the function's first operand."""
        return self.results[:1] != () and self.results[0].startswith("+")

    @property
    def name(self) -> str:
        return ".".join((self.mnemonic, *self.needs))

    @property
    def accesses(self) -> bool:
        """Whether it is a load or store that the translator writes out."""
        return self.mnemonic in ("ld", "ldu", "st") and "async" not in self.needs

    @functools.cached_property
    def parameters(self) -> frozenset[str]:
        """The names of the function's parameters."""
        return frozenset(inspect.signature(self.function).parameters)

    @functools.cached_property
    def required(self) -> frozenset[str]:
        """The parameters that only a modifier can fill, and that have no default."""
        options = {name for name, _ in self.options.values()}
        return frozenset(
            p.name
            for p in inspect.signature(self.function).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.default is p.empty and p.name in options
        )

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n", 1)[0]


@dataclass(frozen=True)
class Selected:
    """An entry together with the types and options that one instruction chose."""

    entry: Entry
    types: tuple[str, ...]
    options: dict[str, Any]

    def type_of(self, letter: str) -> str:
        from phasebit.emulator.types import widen

        if letter == "x":
            return self.types[0]
        if letter == "y":
            return self.types[1]
        if letter == "w":
            return widen(self.types[0])
        return letter

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """The entry's function with the instruction's options filled in."""
        options = dict(self.options)
        parameters = self.entry.parameters
        if "kind" in parameters and self.types:
            options["kind"] = self.types[0]
        if "source" in parameters:
            options["source"] = self.types[1]
        if "types" in parameters:
            options["types"] = self.types
        if not options:
            return self.entry.function
        return filled(self.entry.function, **options)


@functools.cache
def filled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A function with these options filled in: the same object for the same options."""
    return functools.partial(function, **options)


TABLE: dict[str, list[Entry]] = {}
"""Mnemonic -> its entries."""


def _register(
    kind: Kind,
    names: str,
    signature: str,
    types: Iterable[str] | None,
    second: Iterable[str] | None,
    section: str,
    options: Sequence[dict[str, Option]],
    optional: int,
    releases: bool,
    whole: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    left, _, right = signature.partition("->")
    allowed: list[frozenset[str] | None] = []
    if types is not None:
        allowed.append(frozenset(types))
    if second is not None:
        allowed.append(frozenset(second))
    merged: dict[str, Option] = {}
    for group in options:
        merged |= group

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names.split():
            mnemonic, *needs = name.split(".")
            TABLE.setdefault(mnemonic, []).append(
                Entry(
                    mnemonic,
                    tuple(needs),
                    tuple(allowed),
                    tuple(left.split()),
                    tuple(right.split()),
                    merged,
                    optional,
                    function,
                    kind,
                    section,
                    function.__module__.rsplit(".", 1)[-1],
                    releases,
                    whole,
                )
            )
        return function

    return enter


def value(
    names: str,
    signature: str,
    types: Iterable[str] | None = None,
    second: Iterable[str] | None = None,
    *,
    section: str,
    options: Sequence[dict[str, Option]] = (),
    optional: int = 0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of values only."""
    return _register("value", names, signature, types, second, section, options, optional, False)


def effect(
    names: str,
    signature: str,
    types: Iterable[str] | None = None,
    second: Iterable[str] | None = None,
    *,
    section: str,
    options: Sequence[dict[str, Option]] = (),
    optional: int = 0,
    releases: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function that touches memory or the machine: ``f(g, operands…)``."""
    return _register(
        "effect", names, signature, types, second, section, options, optional, releases
    )


def blocking(
    names: str,
    signature: str,
    types: Iterable[str] | None = None,
    *,
    section: str,
    options: Sequence[dict[str, Option]] = (),
    optional: int = 0,
    whole: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an instruction that may wait: ``f(g, dest, operands…)`` gives the next block or -1.

    ``whole``: all threads of the warp execute it together.
    """
    return _register(
        "blocking", names, signature, types, None, section, options, optional, True, whole
    )


def collective(
    names: str,
    signature: str,
    types: Iterable[str] | None = None,
    second: Iterable[str] | None = None,
    *,
    section: str,
    options: Sequence[dict[str, Option]] = (),
    optional: int = 0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an instruction that the threads of its member mask execute together.

    The parameter called ``membermask`` names them; without one it is the whole warp.
    """
    return _register(
        "collective", names, signature, types, second, section, options, optional, False
    )


@functools.cache
def load_families() -> None:
    """Import the family modules, which fill the table."""
    for family in FAMILIES:
        importlib.import_module(f"phasebit.emulator.ops.{family}")


def select(instruction: Instruction) -> Selected:
    """The table's entry for an instruction; raises :class:`PtxError` when there is none."""
    load_families()
    types = tuple(m for m in instruction.modifiers if m in SIZE)
    words = [m for m in instruction.modifiers if m not in SIZE]
    best: Entry | None = None
    for entry in TABLE.get(instruction.mnemonic, ()):
        if not set(entry.needs) <= set(words):
            continue
        rest = [w for w in words if w not in entry.needs]
        if not all(_accepted(w, entry) for w in rest):
            continue
        if not _types_match(types, entry) or not _count_fits(instruction, entry):
            continue
        if not entry.required <= {entry.options[w][0] for w in rest if w in entry.options}:
            continue
        if best is None or len(entry.needs) > len(best.needs):
            best = entry
    if best is None:
        raise unknown(instruction)
    options = dict(best.options[w] for w in words if w in best.options and w not in best.needs)
    rest = [w for w in words if w not in best.needs]
    for word in rest:
        if word in SEMANTICS and "sem" in best.parameters:
            options["sem"] = word
        elif word in SCOPES and "scope" in best.parameters:
            options["scope"] = word
        elif word in SPACES and "space" in best.parameters:
            options["space"] = SPACES[word]
    return Selected(best, types, options)


def _accepted(word: str, entry: Entry) -> bool:
    """Whether an entry allows a modifier that did not select it."""
    if word in entry.options or word in IGNORED:
        return True
    if word in SPACES:
        return "space" in entry.parameters
    return word in SEMANTICS and "sem" in entry.parameters


def _count_fits(instruction: Instruction, entry: Entry) -> bool:
    """Whether the number of operands is one that the entry takes."""
    count = len(instruction.operands)
    if entry.results and count and not isinstance(instruction.operands[0], Address):
        count -= 1
    return len(entry.arguments) - entry.optional <= count <= len(entry.arguments)


def _types_match(types: tuple[str, ...], entry: Entry) -> bool:
    """Whether the entry takes these types: one too many makes another instruction."""
    most = max(1, len(entry.types)) + ("pack" in entry.needs)  # cvt.pack also types its c
    if len(types) > most and "types" not in entry.parameters:
        return False
    return len(types) >= len(entry.types) and all(
        a is None or t in a for t, a in zip(types, entry.types, strict=False)
    )


NEWER = ("cp.async.bulk", "wgmma", "tcgen05")
"""What libraries use from sm_90 on, where older targets have another way."""


def unknown(instruction: Instruction) -> PtxError:
    """The error for an instruction that is not in the table."""
    opcode = instruction.opcode
    known = TABLE.get(instruction.mnemonic)
    if known:
        names = ", ".join(sorted({e.name for e in known})[:8])
        hint = f"it knows {instruction.mnemonic} as {names}, with other types or modifiers"
    else:
        hint = "run `python -m phasebit ptx` for the list of those it knows"
    if instruction.opcode.startswith(NEWER):
        hint += "; compiled with -arch=sm_80, libraries do without it"
    source = str(instruction.location) if instruction.location else None
    return PtxError(f"the emulator does not know {opcode!r}; {hint}", instruction.line, source)


def entries() -> list[Entry]:
    """All entries, by family and name."""
    load_families()
    everything = [entry for entries in TABLE.values() for entry in entries]
    order = {family: i for i, family in enumerate(FAMILIES)}
    return sorted(everything, key=lambda e: (order[e.family], e.name))
