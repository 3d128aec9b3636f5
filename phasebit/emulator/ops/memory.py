"""Loads and stores (PTX ISA 9.7.9): what is not written out in the generated block.

A load is one gather from a view of memory, ``M_f4[start:].take(index)``; the
translator writes it out.  These functions are the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phasebit.emulator.layout import (
    GLOBAL_BASE,
    LOCAL_BASE,
    PARAM_BASE,
    RANK_SHIFT,
    SHARED_BASE,
    WINDOW_SHIFT,
)
from phasebit.emulator.table import effect, value
from phasebit.emulator.types import Array, Value

if TYPE_CHECKING:
    from phasebit.emulator.group import Group

ANY_LOAD = {"v2": ("vector", 2), "v4": ("vector", 4), "v8": ("vector", 8)}


def store(view: Array, index: Value, value: Value) -> None:
    """Scatter.  Of threads that write one address the last one wins, as some order may have it."""
    if index.__class__ is not np.ndarray and value.__class__ is np.ndarray:
        value = value[-1]
    view[index] = value


@effect("ld ldu", "a x -> x", None, section="9.7.9.8", options=[ANY_LOAD], optional=1)
def ld(g: Group, *operands: Any, space: str = "generic", sem: str = "weak", scope: str = "cta",
       vector: int = 1) -> None:  # fmt: skip
    """ld: load 1, 2, 4 or 8 values from any state space (written out by the translator)."""
    raise NotImplementedError


@effect("st", "a x", None, section="9.7.9.12", options=[ANY_LOAD], optional=1)
def st(g: Group, *operands: Any, space: str = "generic", sem: str = "weak", scope: str = "cta",
       vector: int = 1) -> None:  # fmt: skip
    """st: store 1, 2, 4 or 8 values to any state space (written out by the translator)."""
    raise NotImplementedError


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
