"""st.async and red.async (PTX ISA 9.7.9.12, 9.7.13.7): values sent to another block of the cluster.

The store is under way like a copy: an mbarrier beside its target counts the bytes that have come.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phasebit.emulator.copy_engine.bulk_copies import Reduced, Stretch
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ops.bulk import access_of, begin, fault, same_block, site_of
from phasebit.emulator.ptx.table import effect
from phasebit.emulator.ptx.types import SIZE, Array, Value

COUNTED = "mbarrier::complete_tx::bytes"
NUMBERS = frozenset({"b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64"})


class Registers:
    """Values on their way: a side of a copy that lies in no memory."""

    space = "registers"

    def __init__(self, data: Array) -> None:
        self.data = data

    def read(self) -> Array:
        return self.data

    def write(self, data: Array) -> None:
        raise NotImplementedError("values are sent, never received")

    def words(self, shift: int) -> Array:
        return np.zeros(0, np.int64)


def _send(
    g: Group, address: Value, values: Sequence[Value], barrier: Value, size: int, op: str = "",
    kind: str = "",
) -> None:  # fmt: skip
    """Each thread's values to its address; the barrier must lie in the same block."""
    machine, access = g.batch.machine, access_of(g)
    columns = [np.ascontiguousarray(g.spread(v)) for v in values]
    targets, barriers = g.spread(address), g.spread(barrier)
    width = size * len(values)
    for i in range(g.n):
        one = g if g.n == 1 else g.part(np.array([i]), g.pc)
        if int(targets[i]) % width:
            raise fault(one, f"the address {int(targets[i]):#x} is no multiple of {width}")
        zero = targets.dtype.type(0)
        index = one.shared_index(targets[i : i + 1], zero, width, 0, width, access)
        there = Stretch(g.memory, int(one.spread(index)[0]), width, "shared")
        site = site_of(one, int(barriers[i]))
        same_block(one, there, site)
        data = np.concatenate([c[i : i + 1].view(np.uint8) for c in columns])
        begin(one, Registers(data), Reduced(there, op, kind) if op else there, width, access, site)
    machine.progress += 1


@effect(f"st.async.{COUNTED}", "a x a", NUMBERS, section="9.7.9.12")
def st_async(
    g: Group, address: Value, value: Value, barrier: Value, *, kind: str, sem: str = "weak",
    space: str = "shared",
) -> None:  # fmt: skip
    """st.async: store into the shared memory of a block of the cluster; its barrier counts it."""
    _send(g, address, [value], barrier, SIZE[kind])


@effect(f"st.async.{COUNTED}", "a *x a", NUMBERS, section="9.7.9.12",
        options=[{"v2": ("vector", 2), "v4": ("vector", 4)}])  # fmt: skip
def st_async_vector(
    g: Group, address: Value, values: Sequence[Value], barrier: Value, *, kind: str, vector: int,
    sem: str = "weak", space: str = "shared",
) -> None:  # fmt: skip
    """st.async of 2 or 4 values side by side."""
    _send(g, address, values, barrier, SIZE[kind])


@effect(f"red.async.{COUNTED}", "a x a", {"u32", "s32", "u64", "b32"}, section="9.7.13.7",
        options=[{op: ("op", op) for op in ("add", "min", "max", "inc", "dec", "and", "or",
                                            "xor")}])  # fmt: skip
def red_async(
    g: Group, address: Value, value: Value, barrier: Value, *, kind: str, op: str,
    sem: str = "relaxed", space: str = "shared",
) -> None:  # fmt: skip
    """red.async: combine into the shared memory of a block of the cluster; its barrier counts."""
    _send(g, address, [value], barrier, SIZE[kind], op, kind)
