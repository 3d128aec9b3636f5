"""``tcgen05.shift`` (PTX ISA 9.7.16.9.3): rows of tensor memory move by one lane.

A convolution multiplies the same pixels again, one further: lane i takes what lane i + 1 holds,
and ``tcgen05.cp.4x256b`` brings what the last lane of each quarter lacks.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ops.tcgen05 import GROUPS
from phasebit.emulator.ops.tcgen05_access import executing
from phasebit.emulator.ptx.table import Option, effect
from phasebit.emulator.ptx.types import Value
from phasebit.emulator.tensor_core.cta_pairs import blocks
from phasebit.emulator.tensor_core.regions import HALVES, Region
from phasebit.emulator.tensor_core.tensor_memory import split, tensor_memory
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver
from phasebit.emulator.tensor_core.tensor_work import issue

COLUMNS = 8
"""32 bytes."""
LANES = 32
"""Of a warp: what an address that is a multiple of 32 lanes begins."""

DOWN: dict[str, Option] = {"down": ("down", True)}


@effect("tcgen05.shift", "a", None, section="9.7.16.9.3", options=[GROUPS, DOWN])
def shift(g: Group, target: Value, *, down: bool, group: int = 1) -> None:
    """tcgen05.shift.down: in a quarter of the lanes, lane i takes the 32 bytes of lane i + 1.

    Which rows, the PTX ISA says in three places: they are those "for a warp" (9.7.16.9.3), the
    shape is 31x256b (9.7.16.2.3), and the address begins at a multiple of 32 lanes.  So 31 rows
    move, in the quarter that the address names, and its last lane stays; [open] without hardware.
    It runs in the queue with the products.
    """
    batch, machine = g.batch, g.batch.machine
    where, _ = executing(g)
    memory = tensor_memory(batch)
    for i, address in enumerate(g.spread(target)):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        who = say("tcgen05.shift of {}", batch.describe(thread.lanes))
        lane, column = split(address)
        if lane % LANES:
            raise Fault(
                "{} begins at lane {}; it is a multiple of {}; {}",
                who, lane, LANES, where,
            )
        rows = slice(lane, lane + LANES)
        halves = slice(rows.start * HALVES // 128, rows.stop * HALVES // 128)
        columns = slice(column, column + COLUMNS)
        for slot in blocks(thread, group, "tcgen05.shift", where):
            memory.reach(slot, (rows.start, rows.stop), (columns.start, columns.stop), who, where)
            for told in machine.told[TensorObserver.shifts]:
                told(thread, Region(slot, halves, columns))
            machine.now += 1

            def work(slot: int = slot, rows: slice = rows, columns: slice = columns) -> None:
                quarter = memory.cells[slot][rows, columns]
                quarter[:-1] = quarter[1:].copy()

            issue(batch, int(thread.lanes[0]), work)
