"""``tcgen05.shift`` (PTX ISA 9.7.16.9.3): rows of tensor memory move by one lane.

A convolution multiplies the same pixels again, one further: lane i takes what lane i + 1 holds,
in each quarter of the lanes, and ``tcgen05.cp.4x256b`` fills the last lane of each.
"""

from __future__ import annotations

import numpy as np

from phasebit.emulator.cta_pairs import blocks
from phasebit.emulator.errors import Fault
from phasebit.emulator.group import Group
from phasebit.emulator.ops.tcgen05 import GROUPS, executing
from phasebit.emulator.table import Option, effect
from phasebit.emulator.tensor_checks import Region
from phasebit.emulator.tensor_memory import split, tensor_memory
from phasebit.emulator.tensor_work import issue
from phasebit.emulator.types import Value

COLUMNS = 8
"""32 bytes."""

DOWN: dict[str, Option] = {"down": ("down", True)}


@effect("tcgen05.shift", "a", None, section="9.7.16.9.3", options=[GROUPS, DOWN])
def shift(g: Group, target: Value, *, down: bool, group: int = 1) -> None:
    """tcgen05.shift.down: lane i takes the 32 bytes of lane i + 1, but the last of each quarter.

    The PTX ISA's figure was not at hand: that all four quarters move, and that way, is an
    assumption.  It runs in the queue with the products.
    """
    batch, machine = g.batch, g.batch.machine
    where, access = executing(g)
    memory = tensor_memory(batch)
    for i, address in enumerate(g.spread(target)):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        who = f"tcgen05.shift of {batch.describe(thread.lanes)}"
        lane, column = split(address)
        if lane % 32:
            raise Fault(f"{who} begins at lane {lane}; it is a multiple of 32; {where}")
        if lane:
            raise Fault(
                f"{who} begins at lane {lane}; the emulator knows the shift from lane 0 only, of "
                f"all quarters: {where}"
            )
        columns = slice(column, column + COLUMNS)
        for slot in blocks(thread, group, "tcgen05.shift", where):
            memory.reach(slot, (0, 128), (columns.start, columns.stop), who, where)
            if machine.checked:
                machine.checker.tensor.shift(thread, access, Region(slot, slice(0, 8), columns))
                machine.now += 1

            def work(slot: int = slot, columns: slice = columns) -> None:
                quarters = memory.cells[slot].reshape(4, 32, -1)
                quarters[:, :31, columns] = quarters[:, 1:, columns].copy()

            issue(batch, int(thread.lanes[0]), work)
