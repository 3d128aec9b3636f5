"""Warp collectives (PTX ISA 9.7.9.6 shfl, 9.7.13.8 to 9.7.13.14): lanes that look at each other.

The machine has already brought the threads of each member mask together, so the
lanes asked for are in the group.  Values are laid out as a table with one row a
warp and 32 columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.numbers.numerics import canonical, where
from phasebit.emulator.ops.compare import BOOLEAN
from phasebit.emulator.ptx.table import Traits, collective, effect
from phasebit.emulator.ptx.types import Array, Value

__all__ = ["BOOLEAN", "Table", "elect", "shfl", "vote_ballot"]


class Table:
    """Where each thread of a group stands: its warp's row, its column; and who is present."""

    def __init__(self, g: Group) -> None:
        batch = g.batch
        rows, self.row = np.unique(batch.warp_of[g.lanes], return_inverse=True)
        self.count = len(rows)
        self.column = (g.lanes % batch.threads) % 32
        self.group = g

    def spread(self, value: Value, fill: Any = 0) -> Array:
        """A value as a table; lanes that are not in the group hold ``fill``."""
        array = self.group.spread(value)
        table = np.full((self.count, 32), fill, array.dtype)
        table[self.row, self.column] = array
        return table

    def ballot(self, p: Value) -> Array:
        """For each warp a bit mask of the lanes where ``p`` holds."""
        bits = self.spread(p, False).astype(np.uint32) << np.arange(32, dtype=np.uint32)
        votes: Array = np.bitwise_or.reduce(bits, axis=1)
        return votes

    def each(self, per_warp: Array) -> Array:
        """A value of each warp for each of its threads."""
        values: Array = per_warp[self.row]
        return values


MODES = {"idx": ("mode", "idx"), "up": ("mode", "up"), "down": ("mode", "down"),
         "bfly": ("mode", "bfly")}  # fmt: skip


@collective("shfl.sync", "b32 u32 u32 u32 -> b32 pred", {"b32"}, section="9.7.9.6",
            options=[MODES])  # fmt: skip
def shfl(
    g: Group, a: Value, b: Value, c: Value, membermask: Value, *, mode: str
) -> tuple[Value, Value]:
    """shfl.sync: the value of another lane; the predicate says whether that lane was in range."""
    for told in g.batch.machine.told[LaunchObserver.shuffles]:
        told(g)
    t = Table(g)
    lane = t.column.astype(np.int64)
    b = g.spread(b).astype(np.int64) & 31
    clamp = g.spread(c).astype(np.int64) & 31
    segment = (g.spread(c).astype(np.int64) >> 8) & 31
    highest = (lane & segment) | (clamp & ~segment)
    lowest = lane & segment
    if mode == "up":
        source = lane - b
        valid = source >= highest
    elif mode == "down":
        source = lane + b
        valid = source <= highest
    elif mode == "bfly":
        source = lane ^ b
        valid = source <= highest
    else:
        source = lowest | (b & ~segment)
        valid = source <= highest
    source = np.where(valid, source, lane)
    if 32 * t.count != g.n:
        here = t.spread(np.bool_(True), False)
        named = g.spread(membermask).astype(np.int64) >> source & 1 != 0
        wrong = ~here[t.row, source] & named
        for shuffles in g.batch.machine.told[LaunchObserver.shuffles_from] if wrong.any() else ():
            shuffles(g, source, wrong)
    return t.spread(a)[t.row, source], valid


@collective("vote.sync.all", "pred u32 -> pred", {"pred"}, section="9.7.13.9")
def vote_all(g: Group, p: Value, membermask: Value) -> Value:
    """vote.sync.all: whether the predicate holds for every member."""
    t = Table(g)
    mask = g.spread(membermask)
    return (t.each(t.ballot(p)) & mask) == (t.each(t.ballot(np.bool_(True))) & mask)


@collective("vote.sync.any", "pred u32 -> pred", {"pred"}, section="9.7.13.9")
def vote_any(g: Group, p: Value, membermask: Value) -> Value:
    """vote.sync.any: whether the predicate holds for some member."""
    t = Table(g)
    return (t.each(t.ballot(p)) & g.spread(membermask)) != 0


@collective("vote.sync.uni", "pred u32 -> pred", {"pred"}, section="9.7.13.9")
def vote_uni(g: Group, p: Value, membermask: Value) -> Value:
    """vote.sync.uni: whether all members agree."""
    t = Table(g)
    mask = g.spread(membermask)
    votes = t.each(t.ballot(p)) & mask
    return (votes == 0) | (votes == (t.each(t.ballot(np.bool_(True))) & mask))


@collective("vote.sync.ballot", "pred u32 -> b32", {"b32"}, section="9.7.13.9")
def vote_ballot(g: Group, p: Value, membermask: Value) -> Value:
    """vote.sync.ballot: a bit for each member where the predicate holds."""
    t = Table(g)
    return t.each(t.ballot(p)) & g.spread(membermask)


def _same(g: Group, a: Value, membermask: Value) -> tuple[Array, Array]:
    """For each thread the lanes of its mask with the same value, and the mask of those present."""
    t = Table(g)
    table = t.spread(a)
    here = t.spread(np.bool_(True), False)
    equal = (table[t.row] == g.spread(a)[:, None]) & here[t.row]
    bits = equal.astype(np.uint32) << np.arange(32, dtype=np.uint32)
    mask = g.spread(membermask)
    return np.bitwise_or.reduce(bits, axis=1) & mask, t.each(t.ballot(np.bool_(True))) & mask


@collective("match.any.sync", "x u32 -> b32", {"b32", "b64"}, section="9.7.13.10")
def match_any(g: Group, a: Value, membermask: Value) -> Value:
    """match.any.sync: the members that hold the same value as this thread."""
    return _same(g, a, membermask)[0]


@collective("match.all.sync", "x u32 -> b32 pred", {"b32", "b64"}, section="9.7.13.10")
def match_all(g: Group, a: Value, membermask: Value) -> tuple[Value, Value]:
    """match.all.sync: the member mask when all hold the same value, else 0; and whether they do."""
    same, present = _same(g, a, membermask)
    agree = same == present
    return np.where(agree, g.spread(membermask), np.uint32(0)), agree


@effect("activemask", "-> b32", {"b32"}, section="9.7.13.11",
        traits=Traits(sees_grouping=True))  # fmt: skip
def activemask(g: Group) -> Value:
    """activemask: the lanes of the warp that execute together right now."""
    t = Table(g)
    return t.each(t.ballot(np.bool_(True)))


REDUCE: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def _redux(g: Group, a: Value, membermask: Value, op: str) -> Value:
    t = Table(g)
    table = t.spread(a)
    masks = t.spread(membermask, 0)
    result = np.empty(g.n, table.dtype)
    for row in range(t.count):
        for mask in np.unique(masks[row][masks[row] != 0]):
            members = (np.uint32(mask) >> np.arange(32, dtype=np.uint32)) & 1 != 0
            members &= masks[row] != 0
            total = REDUCE[op].reduce(table[row][members])
            result[(t.row == row) & (masks[row][t.column] == mask)] = total
    return result


OPS = {op: ("op", op) for op in REDUCE}


@collective("redux.sync", "x u32 -> x", {"u32", "s32", "b32"}, section="9.7.13.12", options=[OPS])
def redux(g: Group, a: Value, membermask: Value, *, op: str) -> Value:
    """redux.sync: a sum, minimum, maximum, and, or, xor over the members."""
    return _redux(g, a, membermask, op)


@collective("redux.sync", "x u32 -> x", {"f32"}, section="9.7.13.12",
            options=[{"min": ("op", "min"), "max": ("op", "max"), "abs": ("abs_", True),
                      "NaN": ("nan", True)}])  # fmt: skip
def redux_f32(
    g: Group, a: Value, membermask: Value, *, op: str, abs_: bool = False, nan: bool = False
) -> Value:
    """redux.sync.{min,max}{.abs}{.NaN}.f32: over the members; NaN loses unless .NaN."""
    a = np.abs(a) if abs_ else a
    worst = np.float32(np.inf if op == "min" else -np.inf)
    bad = a != a
    r = _redux(g, where(bad, worst, a), membermask, op)
    everyone_bad = ~vote_any(g, ~bad, membermask)
    some_bad = vote_any(g, bad, membermask)
    return canonical(np.where(some_bad if nan else everyone_bad, np.float32(np.nan), r))


@collective("elect.sync", "u32 -> b32 pred", None, section="9.7.13.14")
def elect(g: Group, membermask: Value) -> tuple[Value, Value]:
    """elect.sync: one leader among the members, and who it is.

    Which one is not said, but that it is always the same: here the lowest lane, or in some of the
    random schedules the highest.
    """
    t = Table(g)
    present: Array = t.each(t.ballot(np.bool_(True))) & g.spread(membermask)
    if not g.batch.machine.last_leads:
        present = present & (~present + np.uint32(1))
    leader = np.frexp(present.astype(np.float64))[1].astype(np.int64) - 1
    return leader.astype(np.uint32), leader == t.column
