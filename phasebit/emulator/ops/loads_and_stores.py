"""Loads and stores (PTX ISA 9.7.9): what is not written out in the generated block.

A load is one gather from a view of memory, ``M_f4[start:].take(index)``; the
translator writes it out.  These functions are the rest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.machine.accesses import Accesses
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ptx.operands import items_of, misfit
from phasebit.emulator.ptx.placement import (
    GLOBAL_BASE,
    LOCAL_BASE,
    PARAM_BASE,
    RANK_SHIFT,
    SHARED_BASE,
    WINDOW_SHIFT,
)
from phasebit.emulator.ptx.syntax import Address, Immediate, Instruction, Tuple, Vector
from phasebit.emulator.ptx.table import Selected, Traits, effect, value
from phasebit.emulator.ptx.types import Array, Value

MEMORY_TYPES = frozenset(
    {"b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "b32", "u32", "s32", "f32", "f16x2",
     "bf16x2", "b64", "u64", "s64", "f64", "b128"}
)  # fmt: skip

ANY_LOAD = {"v2": ("vector", 2), "v4": ("vector", 4), "v8": ("vector", 8)}


def check_access(instruction: Instruction, chosen: Selected) -> None:
    """An address, and as many registers as the vector has."""
    operands, name = instruction.operands, instruction.mnemonic
    policy = "L2::cache_hint" in instruction.modifiers
    if len(operands) != 2 + policy:
        raise misfit(instruction, f"{name} needs an address and a value")
    first = chosen.entry.traits.written == "store"
    address, value = (operands[0], operands[1]) if first else (operands[1], operands[0])
    if not isinstance(address, Address):
        raise misfit(instruction, f"{name} needs an address in brackets")
    if not chosen.types or chosen.types[0] not in MEMORY_TYPES:
        raise misfit(instruction, f"{name} needs the type of what memory holds")
    length = chosen.options.get("vector", 1)
    if chosen.types[0] == "b128" and (length > 1 or chosen.options.get("space") == "param"):
        raise misfit(instruction, f"{name} of 128 bits takes one register, and no parameter")
    items = items_of(value)
    # Triton puts braces around a single register too, and ptxas takes them
    if len(items) != length or (length > 1 and not isinstance(value, Vector)):
        raise misfit(instruction, f"{name} of {length} needs as many registers")
    if any(isinstance(item, Vector | Address | Tuple) for item in items):
        raise misfit(instruction, f"{name} needs registers or numbers")


LOAD = Traits(written="load", untyped=True, words=True, check=check_access)
STORE = Traits(written="store", untyped=True, words=True, check=check_access)


def store(view: Array, index: Value, value: Value) -> None:
    """Scatter.  Of threads that write one address the last one wins, as some order may have it."""
    if index.__class__ is not np.ndarray and value.__class__ is np.ndarray:
        value = value[-1]
    view[index] = value


@effect("ld ldu", "a x -> x", None, section="9.7.9.8", options=[ANY_LOAD], optional=1,
        traits=LOAD)  # fmt: skip
def ld(g: Group, *operands: Any, space: str = "generic", sem: str = "weak", scope: str = "cta",
       vector: int = 1) -> None:  # fmt: skip
    """ld: load 1, 2, 4 or 8 values from any state space (written out by the translator)."""
    raise NotImplementedError


@effect("st", "a x u64", None, section="9.7.9.12", options=[ANY_LOAD], optional=1, traits=STORE)
def st(g: Group, *operands: Any, space: str = "generic", sem: str = "weak", scope: str = "cta",
       vector: int = 1) -> None:  # fmt: skip
    """st: store 1, 2, 4 or 8 values to any state space (written out by the translator)."""
    raise NotImplementedError


MOST_BULK = 1 << 24
"""Bytes that one st.bulk initializes at most."""


def check_bulk(instruction: Instruction, chosen: Selected) -> None:
    """The value is the number 0, and the address is none of another block."""
    address, value = instruction.operands[0], instruction.operands[-1]
    if not isinstance(address, Address) or not isinstance(value, Immediate) or value.value != 0:
        raise misfit(instruction, "st.bulk needs an address in brackets, a size, and the number 0")
    if chosen.options.get("space", "shared") != "shared" or (
        "shared::cluster" in instruction.modifiers
    ):
        raise misfit(instruction, "st.bulk initializes shared memory of its own block")


@effect("st.bulk", "a u64 u32", section="9.7.9.14", traits=Traits(check=check_bulk))
def st_bulk(
    g: Group, address: Value, size: Value, zero: Value, *, space: str = "generic",
    sem: str = "weak",
) -> None:  # fmt: skip
    """st.bulk: set so many bytes of shared memory to zero (sm_100).

    Each thread that executes it asks for a stretch of its own.  The size is a multiple of 8; that
    the address is one too is asked here, though the PTX ISA does not say so.
    """
    access = g.batch.machine.executing_access()
    addresses, sizes = g.spread(address), g.spread(size)
    for i in range(g.n):
        one = g if g.n == 1 else g.part(np.array([i]), g.pc)
        start, count = int(addresses[i]), int(sizes[i])
        if space == "generic" and not lies_in(np.uint64(start), "shared"):
            raise bulk_fault(one, f"the address {start:#x} is none of shared memory")
        if count % 8 or start % 8 or count > MOST_BULK:
            raise bulk_fault(
                one, f"{count} bytes from {start:#x}: both are multiples of 8, and the size is at "
                f"most {MOST_BULK}"
            )  # fmt: skip
        if not count:
            continue
        kind = addresses.dtype.type
        first = getattr(one, f"{space}_index")(kind(start), kind(0), count, 2, 8, access)
        first = one.spread(first)
        words = tuple(range(count // 4))
        requests = tuple((word, 8) for word in words[::2])
        one.watch_store(first, Accesses(words, 4, requests, access, "weak", "cta", space))
        g.memory.u4[int(first[0]) : int(first[0]) + len(words)] = 0


def bulk_fault(g: Group, why: str) -> Fault:
    return Fault(
        "st.bulk by {}: {}; {}", g.batch.describe(g.lanes), why, g.batch.machine.where(g)
    )


WINDOWS = {"global": 0, "const": 0, "shared": SHARED_BASE, "local": LOCAL_BASE,
           "param": PARAM_BASE}  # fmt: skip


@value("cvta", "x -> x", {"u32", "u64"}, section="9.7.9.20")
def cvta(a: Value, *, space: str = "global") -> Value:
    """cvta.space: an address of one state space as a generic address."""
    return a + np.uint64(WINDOWS[space]) if WINDOWS[space] else a


@value("cvta.to", "x -> x", {"u32", "u64"}, section="9.7.9.20")
def cvta_to(a: Value, *, space: str = "global") -> Value:
    """cvta.to.space: a generic address as an address of that state space."""
    return a - np.uint64(WINDOWS[space]) if WINDOWS[space] else a


def lies_in(a: Value, space: str) -> Value:
    """Whether a generic address lies in the window of a state space."""
    window = (WINDOWS[space] or GLOBAL_BASE) >> WINDOW_SHIFT
    return (a >> np.uint64(WINDOW_SHIFT)) == np.uint64(window)


STATE_SPACES = (*WINDOWS, "shared::cta", "shared::cluster")


@effect("alloca", "x u32 -> x", {"u32", "u64"}, section="9.7.17.3", optional=1,
        traits=Traits(grows=True))  # fmt: skip
def alloca(g: Group, size: Value, align: Value = 8) -> Value:
    """alloca: memory of each thread's stack, until the function that asks for it returns."""
    batch, depth = g.batch, len(g.frames)
    if batch.machine.program.layout.recursive:
        raise Fault(
            "{} asks for memory of its stack: {}; a kernel whose functions call themselves cannot "
            "do that here: use an array of a fixed size",
            batch.describe(g.lanes), batch.machine.where(g),
        )  # fmt: skip
    to = np.int64(max(int(align), 8))
    start = -(-batch.stack_top(g.lanes, depth) // to) * to
    end = start + g.spread(size).astype(np.int64)
    batch.need_stack(int(end.max()), g.lanes, depth + 1)
    batch.set_stack_top(g.lanes, depth, end)
    return start.astype(np.asarray(size).dtype)


@effect("stacksave", "-> x", {"u32", "u64"}, section="9.7.17.1")
def stacksave(g: Group) -> Value:
    """stacksave: how far the stack goes."""
    return g.batch.stack_top(g.lanes, len(g.frames)).astype(np.uint64)


@effect("stackrestore", "x", {"u32", "u64"}, section="9.7.17.2")
def stackrestore(g: Group, top: Value) -> None:
    """stackrestore: what has been asked for since is given back."""
    g.batch.set_stack_top(g.lanes, len(g.frames), g.spread(top).astype(np.int64))


@effect("isspacep", "u64 -> pred", section="9.7.9.19",
        options=[{word: ("where", word) for word in STATE_SPACES}])  # fmt: skip
def isspacep(g: Group, a: Value, *, where: str = "global") -> Value:
    """isspacep: whether a generic address lies in a state space.

    ``.shared`` is ``.shared::cta``: the block's own shared memory, not that of its neighbours.
    """
    space, _, part = where.partition("::")
    found = lies_in(a, space)
    if space == "shared" and part != "cluster":
        offset = (a & np.uint64(0xFFFFFFFF)) >> np.uint64(RANK_SHIFT)
        found = found & (offset == g.special("cluster_ctarank"))
    return found


@effect(
    "prefetch prefetchu applypriority discard", "a u32", section="9.7.9.15", optional=1,
    options=[{"L1": ("level", 1), "L2": ("level", 2), "tensormap": ("level", 2),
              "L2::evict_last": ("level", 2), "L2::evict_normal": ("level", 2)}],
)  # fmt: skip
def prefetch(g: Group, *operands: Value, space: str = "generic", level: int = 2) -> None:
    """prefetch: a hint to the caches; changes nothing here."""


EVICT = ("evict_last", "evict_first", "evict_normal", "evict_unchanged")
POLICIES = {f"L2::{word}": ("policy", word) for word in EVICT}


@value("createpolicy.fractional", "f32 -> b64", section="9.7.9.18", optional=1, options=[POLICIES])
def createpolicy(*fraction: Value, policy: str = "") -> Value:
    """createpolicy: a cache policy; an opaque number that nothing here reads."""
    return np.uint64(0)


@value("createpolicy.range", "a u32 u32 -> b64", section="9.7.9.18", options=[POLICIES])
def createpolicy_range(
    a: Value, primary: Value, total: Value, *, policy: str = "", space: str = "generic"
) -> Value:
    """createpolicy.range: the same for a range of addresses."""
    return np.uint64(0)


@value("createpolicy.cvt.L2", "b64 -> b64", section="9.7.9.18")
def createpolicy_cvt(a: Value) -> Value:
    """createpolicy.cvt: a policy from the property that a stream's window of accesses has."""
    return np.uint64(0)
