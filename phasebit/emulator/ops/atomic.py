"""Atomics (PTX ISA 9.7.13.5 atom, 9.7.13.7 red).

Threads of a group that name the same address take turns in the order of their
lanes.  For most operations a running total over each address does that at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.numbers.halves import HALVES
from phasebit.emulator.numbers.numerics import canonical, flush, where
from phasebit.emulator.ops import half
from phasebit.emulator.ops.loads_and_stores import lies_in
from phasebit.emulator.ops.move import half_of
from phasebit.emulator.ptx.operands import misfit
from phasebit.emulator.ptx.syntax import Instruction, Vector
from phasebit.emulator.ptx.table import Option, Selected, Traits, effect
from phasebit.emulator.ptx.types import WIDE, Array, Value, dtype

Step = Callable[[Value, Value, Value], Value]
NOFTZ: list[dict[str, Option]] = [{"noftz": ("noftz", True)}]
SUMS = {"u32", "s32", "u64", "s64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2"}
VECTORS: list[dict[str, Option]] = [*NOFTZ, {f"v{n}": ("vector", n) for n in (2, 4, 8)}]
ORDERED = {"u32", "s32", "u64", "s64"}
BITS = {"b32", "b64"}
SHORT = HALVES


def check_vector(instruction: Instruction, chosen: Selected) -> None:
    """As many registers as ``.v2``, ``.v4`` … say."""
    count = chosen.options.get("vector")
    vectors = [o for o in instruction.operands if isinstance(o, Vector)]
    if count is not None and any(len(vector.items) != count for vector in vectors):
        raise misfit(instruction, f"{instruction.mnemonic} needs {count} registers")


WORDS = Traits(words=True)
VECTOR = Traits(words=True, check=check_vector)


def _update(
    g: Group, address: Value, b: Value, space: str, kind: str, sem: str, scope: str, step: Step,
    c: Value = None, running: np.ufunc | None = None,
) -> Value:  # fmt: skip
    """Replace the number at each address by ``step(old, b, c)``; the old numbers.

    With ``sys`` scope that holds against whoever else may write to the memory: a thread whose
    number changed meanwhile takes its turn again.
    """
    index = _places(g, address, space, kind, sem, scope)
    return _replace(g, index, b, kind, scope, step, c, running)


def _places(
    g: Group, address: Value, space: str, kind: str, sem: str, scope: str, count: int = 1
) -> Array:
    """Where each thread's number lies, or the first of ``count``; the instruction is checked."""
    width = dtype(kind).itemsize
    machine = g.batch.machine
    access = machine.executing_access()
    index = g.index(address, space, count * width, width.bit_length() - 1, access)
    for told in machine.told[LaunchObserver.updates]:
        told(g, index, width, sem, scope, count)
    machine.progress += 1
    machine.polls += 1
    return g.spread(index)


def _replace(
    g: Group, index: Array, b: Value, kind: str, scope: str, step: Step, c: Value = None,
    running: np.ufunc | None = None,
) -> Value:  # fmt: skip
    view: Array = getattr(g.memory, dtype(kind).str[1:])
    b = g.spread(b)
    c = None if c is None else g.spread(c)
    old, places, before, after = _turns(view, index, b, c, step, running)
    if scope != "sys":
        view[places] = after
        return old
    lost = g.memory.exchange(view, places, before, after)
    while lost.any():
        again = np.flatnonzero(np.isin(index, places[lost]))
        old[again], places, before, after = _turns(
            view, index[again], b[again], None if c is None else c[again], step, running
        )
        lost = g.memory.exchange(view, places, before, after)
    return old


def _turns(
    view: Array, index: Array, b: Array, c: Value, step: Step, running: np.ufunc | None
) -> tuple[Array, Array, Array, Array]:
    """What each thread finds; the different places; what stands there and what shall stand."""
    order = np.argsort(index, kind="stable")
    ranked = index[order]
    fresh = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    if len(fresh) == len(index):  # every address once
        before = view[index]
        return before, index, before, np.asarray(step(before, b, c)).astype(view.dtype)
    places = ranked[fresh]
    before = view[places]
    after = before.copy()
    old = np.empty(len(index), view.dtype)
    counts = np.diff(fresh, append=len(index))
    if running is not None and len(fresh) < counts.max():  # few places: one after the other
        for k, (start, count) in enumerate(zip(fresh.tolist(), counts.tolist(), strict=True)):
            lanes = order[start : start + count]
            both = np.concatenate([before[k : k + 1], b[lanes]])
            totals = running.accumulate(both, dtype=view.dtype)
            old[lanes] = totals[:-1]
            after[k] = totals[-1]
        return old, places, before, after
    # All of a place, until the first that changes something; then those after it.
    here, left = np.repeat(np.arange(len(fresh)), counts), np.arange(len(order))
    while len(left):
        lanes, at = order[left], here[left]
        found = after[at]
        made = np.asarray(step(found, b[lanes], None if c is None else c[lanes]))
        made = made.astype(view.dtype)
        moved = np.flatnonzero(_differ(made, found))
        whose, first = np.unique(at[moved], return_index=True)
        last = np.full(len(fresh), len(left))
        last[whose] = moved[first]
        done = np.arange(len(left)) <= last[at]
        old[lanes[done]] = found[done]
        after[whose] = made[moved[first]]
        left = left[~done]
    return old, places, before, after


def _differ(a: Array, b: Array) -> Array:
    """Where two arrays of one type have other bits."""
    width = a.dtype.itemsize
    bits = (np.ascontiguousarray(x).view(np.uint8).reshape(-1, width) for x in (a, b))
    return np.asarray((next(bits) != next(bits)).any(axis=1))


def _add32(old: Value, x: Value, far: Value) -> Value:
    """An f32 sum; in global memory with subnormals flushed."""
    return canonical(where(far, flush(flush(old) + flush(x)), old + x))


def _add64(old: Value, x: Value, _: Value) -> Value:
    """An f64 sum in the L2: the NaN of the operand, else that of memory."""
    return where(x != x, x, where(old != old, old, old + x))


@effect("atom.add red.add", "a x -> x", SUMS, section="9.7.13.5", options=NOFTZ, traits=WORDS)
def add(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
        sem: str = "relaxed", scope: str = "gpu", noftz: bool = False) -> Value:  # fmt: skip
    """atom.add: old + b; f32 in global memory flushes subnormals."""
    if kind in HALVES:
        return _update(g, address, b, space, kind, sem, scope,
                       lambda old, x, _: half.add(old, x, kind=kind))  # fmt: skip
    if kind == "f32":  # the L2 does it for global memory, the SM for shared
        far = np.bool_(space == "global")
        if space == "generic":
            far = lies_in(address, "global")
        return _update(g, address, b, space, kind, sem, scope, _add32, far)
    if kind == "f64" and space == "global":
        return _update(g, address, b, space, kind, sem, scope, _add64)
    return _update(g, address, b, space, kind, sem, scope, lambda old, x, _: old + x,
                   running=np.add)  # fmt: skip


@effect("atom.min red.min", "a x -> x", ORDERED, section="9.7.13.5", traits=WORDS)
def min_(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
         sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.min: the smaller of old and b."""
    return _update(g, address, b, space, kind, sem, scope,
                   lambda old, x, _: np.minimum(old, x), running=np.minimum)  # fmt: skip


@effect("atom.max red.max", "a x -> x", ORDERED, section="9.7.13.5", traits=WORDS)
def max_(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
         sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.max: the larger of old and b."""
    return _update(g, address, b, space, kind, sem, scope,
                   lambda old, x, _: np.maximum(old, x), running=np.maximum)  # fmt: skip


@effect("atom.inc red.inc", "a x -> x", {"u32"}, section="9.7.13.5", traits=WORDS)
def inc(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
        sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.inc: old + 1, or 0 once old has reached b."""
    return _update(g, address, b, space, kind, sem, scope,
                   lambda old, x, _: where(old >= x, np.uint32(0), old + np.uint32(1)))  # fmt: skip


@effect("atom.dec red.dec", "a x -> x", {"u32"}, section="9.7.13.5", traits=WORDS)
def dec(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
        sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.dec: old - 1, or b when old is 0 or above b."""
    def step(old: Value, x: Value, _: Value) -> Value:
        return where((old == 0) | (old > x), x, old - np.uint32(1))

    return _update(g, address, b, space, kind, sem, scope, step)


@effect("atom.and red.and", "a x -> x", BITS, section="9.7.13.5", traits=WORDS)
def and_(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
         sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.and: old & b."""
    return _update(g, address, b, space, kind, sem, scope, lambda old, x, _: old & x,
                   running=np.bitwise_and)  # fmt: skip


@effect("atom.or red.or", "a x -> x", BITS, section="9.7.13.5", traits=WORDS)
def or_(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
        sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.or: old | b."""
    return _update(g, address, b, space, kind, sem, scope, lambda old, x, _: old | x,
                   running=np.bitwise_or)  # fmt: skip


@effect("atom.xor red.xor", "a x -> x", BITS, section="9.7.13.5", traits=WORDS)
def xor(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
        sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.xor: old ^ b."""
    return _update(g, address, b, space, kind, sem, scope, lambda old, x, _: old ^ x,
                   running=np.bitwise_xor)  # fmt: skip


@effect("atom.exch", "a x -> x", BITS | {"b128"}, section="9.7.13.5", traits=WORDS)
def exch(g: Group, address: Value, b: Value, *, kind: str, space: str = "generic",
         sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.exch: b."""
    return _update(g, address, b, space, kind, sem, scope, lambda old, x, _: x)


@effect("atom.cas", "a x x -> x", {"b16", "b32", "b64", "b128"}, section="9.7.13.5", traits=WORDS)
def cas(g: Group, address: Value, b: Value, c: Value, *, kind: str, space: str = "generic",
        sem: str = "relaxed", scope: str = "gpu") -> Value:  # fmt: skip
    """atom.cas: c where old equals b, else old."""
    return _update(g, address, b, space, kind, sem, scope,
                   lambda old, x, y: where(_same(old, x), y, old), c)  # fmt: skip


def _same(a: Value, b: Value) -> Value:
    """Whether the bits are equal; of 128-bit values both halves."""
    if a.dtype != WIDE:
        return a == b
    return (half_of(a, 0) == half_of(b, 0)) & (half_of(a, 1) == half_of(b, 1))


# -- vectors: one instruction, each element an atomic of its own (PTX ISA 9.7.13.5) ----


def _vector(
    g: Group, address: Value, values: Sequence[Value], kind: str, space: str, sem: str, scope: str,
    step: Step, c: Value = None,
) -> tuple[Value, ...]:  # fmt: skip
    """``step`` on neighbouring elements, whose vector must be aligned."""
    first = _places(g, address, space, kind, sem, scope, len(values))
    return tuple(
        _replace(g, first + i, value, kind, scope, step, c) for i, value in enumerate(values)
    )


@effect("atom.add red.add", "a *x -> *x", SHORT | {"f32"},
        section="9.7.13.5", options=VECTORS, traits=VECTOR)  # fmt: skip
def add_vector(g: Group, address: Value, b: Sequence[Value], *, kind: str, vector: int,
               space: str = "generic", sem: str = "relaxed", scope: str = "gpu",
               noftz: bool = False) -> tuple[Value, ...]:  # fmt: skip
    """atom.add of 2, 4 or 8 neighbours in global memory; each is atomic, the vector is not."""
    if kind == "f32":
        return _vector(g, address, b, kind, space, sem, scope, _add32, np.bool_(True))
    return _vector(g, address, b, kind, space, sem, scope,
                   lambda old, x, _: half.add(old, x, kind=kind))  # fmt: skip


@effect("atom.min red.min", "a *x -> *x", SHORT, section="9.7.13.5", options=VECTORS, traits=VECTOR)
def min_vector(g: Group, address: Value, b: Sequence[Value], *, kind: str, vector: int,
               space: str = "generic", sem: str = "relaxed", scope: str = "gpu",
               noftz: bool = False) -> tuple[Value, ...]:  # fmt: skip
    """atom.min of 2, 4 or 8 neighbouring halves in global memory."""
    return _vector(g, address, b, kind, space, sem, scope,
                   lambda old, x, _: half.min_(old, x, kind=kind))  # fmt: skip


@effect("atom.max red.max", "a *x -> *x", SHORT, section="9.7.13.5", options=VECTORS, traits=VECTOR)
def max_vector(g: Group, address: Value, b: Sequence[Value], *, kind: str, vector: int,
               space: str = "generic", sem: str = "relaxed", scope: str = "gpu",
               noftz: bool = False) -> tuple[Value, ...]:  # fmt: skip
    """atom.max of 2, 4 or 8 neighbouring halves in global memory."""
    return _vector(g, address, b, kind, space, sem, scope,
                   lambda old, x, _: half.max_(old, x, kind=kind))  # fmt: skip


__all__: list[str] = ["add", "cas", "exch"]
