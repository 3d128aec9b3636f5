"""The instruction table: one entry an instruction, one Python function an entry.

A family module (``phasebit.emulator.ops.*``) defines the functions and enters
each with one of four decorators, which say how the machine must treat it:

=============  ====================================================================
``value``      a function of its operands and of nothing else
``effect``     touches memory or the machine, always finishes: ``f(g, operands…)``
``blocking``   may have to wait, so it ends a basic block: ``f(g, dest, operands…)``
``collective`` needs the threads of its member mask together before it runs
=============  ====================================================================

``g`` is the :class:`~phasebit.emulator.machine.group.Group` that executes.  The
signature says how each operand is looked at: ``x`` is the instruction's first
type, ``y`` its second, ``w`` twice as wide as ``x``, anything else is a type by
name; ``*`` stands for several registers, ``+`` for a result that is read, too.
``"x x u32 -> x"`` thus reads: two operands of the type, a 32-bit number, a result of
the type.

What else the translator and the checker must know of an instruction stands there too, as
:class:`Traits`; which engine works for it follows from its family (``ENGINES``).

The same table drives the translation, ``python -m phasebit ptx`` and the
coverage tests; an opcode that is not in it is an error that names it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.syntax import Address, Instruction
from phasebit.emulator.ptx.types import SIZE

Kind = Literal["value", "effect", "blocking", "collective"]
Option = tuple[str, Any]

_OWN_NAME = (
    "integer", "logic", "floating", "half", "compare", "convert", "move", "memory", "atomic",
    "control", "barrier", "mbarrier", "cp_async", "bulk", "bulk_tensor", "tensormap",
    "remote", "cluster_launch", "warp", "matrix", "mma_narrow", "wgmma", "wgmma_sparse", "tcgen05",
    "tcgen05_scaled", "tcgen05_ws", "tcgen05_sparse", "tcgen05_shift",
)  # fmt: skip
_MODULES = {
    "memory": "loads_and_stores", "barrier": "barriers", "mbarrier": "arrivals",
    "tensormap": "tensormap_updates", "cluster_launch": "clusterlaunchcontrol",
}  # fmt: skip
FAMILIES = {name: _MODULES.get(name, name) for name in _OWN_NAME}
"""Family -> the module that defines it, in the order of the PTX ISA's section 9."""

_FAMILY_OF = {module: family for family, module in FAMILIES.items()}

Engine = Literal["threads", "copies", "remote", "launches", "tensor cores"]

ENGINES: dict[str, Engine] = {
    "cp_async": "threads", "bulk": "copies", "bulk_tensor": "copies", "remote": "remote",
    "cluster_launch": "launches", "wgmma": "tensor cores",
    "wgmma_sparse": "tensor cores", "tcgen05": "tensor cores", "tcgen05_sparse": "tensor cores",
    "tcgen05_scaled": "tensor cores", "tcgen05_ws": "tensor cores",
    "tcgen05_shift": "tensor cores",
}  # fmt: skip
"""Family -> whose asynchronous work its instructions begin, order or wait for."""

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
class Traits:
    """What an instruction's registration says of it beyond its kind.

    The translator and the checker ask for these; they know no instruction by its name.
    """

    written: Literal["call", "move", "load", "store"] = "call"
    """How the translator writes it: as a call of its function, or out in full."""
    untyped: bool = False
    """It moves bits: its type is no hint how its registers are used elsewhere."""
    words: bool = False
    """Each thread reads or writes memory at an address of its own, in units of the type."""
    matrix: bool = False
    """Threads give the addresses of a matrix's rows, and share the elements."""
    aligned: str = ""
    """The mnemonic under which all threads of a warp must execute it together, ``.aligned`` or
    not: ``bar`` is ``barrier.aligned``."""
    warp_group: bool = False
    """Of a collective: the four warps of a warp group execute it together."""
    multiplies: bool = False
    """It begins a multiplication that uses its registers until somebody waits for it."""
    registers: Literal["", "filled later", "awaited"] = ""
    """Whether its registers are filled after it is over, or whether it waits for such."""
    tensor_fence: Literal["", "before", "after"] = ""
    """Of fences between tensor operations and barriers: which side of the barrier it is on."""
    sees_refusal: bool = False
    """It tells whether there was a cluster left to take over."""
    sees_grouping: bool = False
    """It tells which threads of a warp execute together at that moment."""
    unnoticed: bool = False
    """It orders, asks or waits: no other thread can notice that it was executed."""
    allocates: bool = False
    """It takes tensor memory, and writes the address to shared memory."""
    grows: bool = False
    """Memory may lie elsewhere after it: it has a block of its own."""
    check: Callable[[Instruction, Selected], None] | None = None
    """Raises :class:`PtxError` for operands that do not fit it, whose number does."""
    engine: Engine | None = None
    """Whose asynchronous work it begins, orders or waits for; filled in from its family."""

    def is_aligned(self, instruction: Instruction) -> bool:
        """Whether all threads of a warp must execute this instruction together."""
        return self.aligned == instruction.mnemonic or "aligned" in instruction.modifiers

    def tells_nothing(self, instruction: Instruction) -> bool:
        """Whether it reads memory and tells nobody what: an atomic operation without a result."""
        return self.words and instruction.mnemonic == "red"


PLAIN = Traits()


@dataclass(frozen=True)
class Entry:
    """One line of the table."""

    mnemonic: str
    needs: tuple[str, ...]
    """Modifiers that select this entry."""
    types: tuple[frozenset[str], ...]
    """For each type modifier that an instruction must have the types allowed."""
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
    traits: Traits
    whole: bool
    """Of a blocking instruction: whether it begins a block, so that its warp can come together
    there (:meth:`phasebit.emulator.machine.scheduler.Machine.gather`)."""

    @property
    def updates(self) -> bool:
        """Whether the result is read, too; it is then also the function's first operand."""
        return any(word.startswith("+") for word in self.results)

    @property
    def name(self) -> str:
        return ".".join((self.mnemonic, *self.needs))

    @property
    def accesses(self) -> bool:
        """Whether it is a load or store that the translator writes out."""
        return self.traits.written in ("load", "store")

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
        from phasebit.emulator.ptx.types import widen

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
"""Mnemonic -> its entries; importing ``phasebit.emulator.ops`` fills it."""


def _leaf(function: Callable[..., Any]) -> str:
    return function.__module__.rsplit(".", 1)[-1]


def _register(
    kind: Kind,
    names: str,
    signature: str,
    types: Iterable[str] | None,
    second: Iterable[str] | None,
    section: str,
    options: Sequence[dict[str, Option]],
    optional: int,
    traits: Traits,
    whole: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    left, _, right = signature.partition("->")
    allowed = tuple(frozenset(each) for each in (types, second) if each is not None)
    merged: dict[str, Option] = {}
    for group in options:
        merged |= group

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        family = _FAMILY_OF.get(_leaf(function), _leaf(function))
        known = dataclasses.replace(traits, engine=ENGINES.get(family))
        for name in names.split():
            mnemonic, *needs = name.split(".")
            TABLE.setdefault(mnemonic, []).append(
                Entry(
                    mnemonic,
                    tuple(needs),
                    allowed,
                    tuple(left.split()),
                    tuple(right.split()),
                    merged,
                    optional,
                    function,
                    kind,
                    section,
                    family,
                    known,
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
    traits: Traits = PLAIN,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function of values only."""
    return _register("value", names, signature, types, second, section, options, optional, traits)


def effect(
    names: str,
    signature: str,
    types: Iterable[str] | None = None,
    second: Iterable[str] | None = None,
    *,
    section: str,
    options: Sequence[dict[str, Option]] = (),
    optional: int = 0,
    traits: Traits = PLAIN,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function that touches memory or the machine: ``f(g, operands…)``."""
    return _register("effect", names, signature, types, second, section, options, optional, traits)


def blocking(
    names: str,
    signature: str,
    types: Iterable[str] | None = None,
    *,
    section: str,
    options: Sequence[dict[str, Option]] = (),
    optional: int = 0,
    traits: Traits = PLAIN,
    whole: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an instruction that may wait: ``f(g, dest, operands…)`` gives the next block or -1.

    ``whole``: all threads of the warp execute it together.
    """
    return _register(
        "blocking", names, signature, types, None, section, options, optional, traits, whole
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
    traits: Traits = PLAIN,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter an instruction that the threads of its member mask execute together.

    The parameter called ``membermask`` names them; without one it is the whole warp.
    """
    return _register(
        "collective", names, signature, types, second, section, options, optional, traits
    )


def select(instruction: Instruction) -> Selected:
    """The table's entry for an instruction; raises :class:`PtxError` when there is none."""
    types = tuple(m for m in instruction.modifiers if m in SIZE)
    words = [m for m in instruction.modifiers if m not in SIZE]
    found = TABLE.get(instruction.mnemonic, ())
    fit = [entry for entry in found if _fits(entry, instruction, types, words)]
    if not fit:
        raise unknown(instruction)
    best = max(fit, key=lambda entry: len(entry.needs))  # the first with most words
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


def _fits(entry: Entry, instruction: Instruction, types: tuple[str, ...], words: list[str]) -> bool:
    """Whether an instruction with these types and other modifiers may be that of an entry."""
    rest = [w for w in words if w not in entry.needs]
    return (
        set(entry.needs) <= set(words)
        and all(_accepted(w, entry) for w in rest)
        and _types_match(types, entry)
        and _count_fits(instruction, entry)
        and entry.required <= {entry.options[w][0] for w in rest if w in entry.options}
    )


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
        t in allowed for t, allowed in zip(types, entry.types, strict=False)
    )


NEWER = ("cp.async.bulk", "wgmma", "tcgen05")
"""What libraries use from sm_90 on, where older targets have another way."""


_WIDE = "which pixels its halo has the PTX ISA (5.5.5.3) shows in figures only"
MISSING = {
    "multimem": "an address of several devices' memory at once comes from cuMulticastCreate, "
                "which the emulated driver has not; ld, st and red of each device's own pointer "
                "work with `phasebit run --devices`",
    "im2col::w": _WIDE, "im2col::w::128": _WIDE,
}  # fmt: skip
"""What is known to be missing, by mnemonic or modifier: why."""


def unknown(instruction: Instruction) -> PtxError:
    """The error for an instruction that is not in the table."""
    assert TABLE, "nothing is in the table before phasebit.emulator.ops is imported"
    opcode = instruction.opcode
    known = TABLE.get(instruction.mnemonic)
    missing = {instruction.mnemonic, *instruction.modifiers} & MISSING.keys()
    if missing:
        hint = MISSING[missing.pop()]
    elif known:
        names = ", ".join(sorted({e.name for e in known})[:8])
        hint = f"it knows {instruction.mnemonic} as {names}, with other types or modifiers"
    else:
        hint = "run `python -m phasebit ptx` for the list of those it knows"
    if instruction.opcode.startswith(NEWER) and hint not in MISSING.values():
        hint += "; compiled with -arch=sm_80, libraries do without it"
    source = str(instruction.location) if instruction.location else None
    return PtxError(f"the emulator does not know {opcode!r}; {hint}", instruction.line, source)


def entries() -> list[Entry]:
    """All entries, by family and name."""
    everything = [entry for entries in TABLE.values() for entry in entries]
    order = {family: i for i, family in enumerate(FAMILIES)}
    return sorted(everything, key=lambda e: (order[e.family], e.name))
