"""``tcgen05.mma`` with block scales (PTX ISA 9.7.16.10.9.1): kinds mxf8f6f4, mxf4, mxf4nvf4.

The scales lie in tensor memory, see :mod:`~phasebit.emulator.block_scales`; all else is as
without them, see :mod:`~phasebit.emulator.ops.tcgen05`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from phasebit.emulator.block_scales import ADDRESS, columns, multiply, read, scaled, values
from phasebit.emulator.errors import Fault
from phasebit.emulator.group import Group
from phasebit.emulator.instruction_descriptors import InstructionDescriptorError
from phasebit.emulator.ops.tcgen05 import (
    COLLECTOR,
    ONE_BLOCK,
    SharedOperand,
    _tensor_rows,
    executing,
)
from phasebit.emulator.scaled_descriptors import VECTORS, ScaledDescriptor, decode
from phasebit.emulator.table import Option, effect
from phasebit.emulator.tensor_checks import Region
from phasebit.emulator.tensor_memory import TensorMemory, split, tensor_memory
from phasebit.emulator.tensor_mma import from_tensor_memory
from phasebit.emulator.tensor_work import issue
from phasebit.emulator.types import Array, Value

KINDS: dict[str, Option] = {f"kind::{word}": ("form", word) for word in VECTORS}
SIZES: dict[str, Option] = {
    word: ("vector", word)
    for word in ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
}


class Scales:
    """The scales of A or B in the tensor memory of a block."""

    def __init__(
        self, memory: TensorMemory, slot: int, address: int, rows: int, first: int,
        of: ScaledDescriptor, name: str, who: str, where: str,
    ) -> None:  # fmt: skip
        lane, column = split(address & ADDRESS)
        if lane:
            raise Fault(
                f"{who}: the scales of {name} begin at lane {lane}; they begin at lane 0, and all "
                f"four quarters hold the same; {where}"
            )
        end = column + columns(rows)
        memory.reach(slot, (0, 128), (column, end), f"the scales of {name} of {who}", where)
        self.region = Region(slot, slice(0, 8), slice(column, end))
        self.memory, self.slot, self.rows, self.first = memory, slot, rows, first
        self.of, self.name, self.where = of, name, f"{who}; {where}"

    def read(self) -> Array:
        """The numbers, f64 [rows, scales of a row]."""
        cells = self.memory.cells[self.slot, :, self.region.columns]
        scales = read(cells, self.rows, self.first, self.of.per_row, self.name, self.where)
        return values(scales, self.of.scale, self.name, self.where)


@effect("tcgen05.mma.block_scale", "a any b64 u32 a a any", None, section="9.7.16.10.9.1",
        options=[ONE_BLOCK, KINDS, SIZES, COLLECTOR])  # fmt: skip
def mma(
    g: Group, target: Value, a: tuple[str, Value], b: Value, descriptor: Value, a_scales: Value,
    b_scales: Value, accumulate: tuple[str, Value], *, form: str, vector: str = "",
    group: int = 1, collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma.block_scale: D = (A · scales) (B · scales) + D, or without D.

    16 or 32 elements along k share a scale.  How it rounds is an assumption.
    """
    machine = g.batch.machine
    where, access = executing(g)
    if vector not in VECTORS[form]:
        known = ", ".join(f".{word}" if word else "none" for word in VECTORS[form])
        raise Fault(f"kind::{form} has no {vector or 'block_scale without its size'}: {where}; "
                    f"it takes {known}")  # fmt: skip
    if g.n > 1 and machine.checked and len(np.unique(g.batch.warp_of[g.lanes])) < g.n:
        machine.checker.tensor.issued_by_many(g, "tcgen05.mma", access)
    operands: list[Any] = [target, a[1], b, descriptor, a_scales, b_scales, accumulate[1]]
    spread = [g.spread(x) for x in operands]
    for i in range(g.n):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        numbers = [int(x[i]) for x in spread]
        _one(thread, numbers, a[0] == "a", form, VECTORS[form][vector], where, access)
    machine.counters.add("tcgen05.mma", g.n)


def _one(
    g: Group, operands: list[int], a_in_tensor: bool, kind: str, per_row: int, where: str,
    access: int,
) -> None:  # fmt: skip
    """What one thread issues."""
    target, a, b, bits, a_scales, b_scales, adds = operands
    batch, machine = g.batch, g.batch.machine
    who = f"tcgen05.mma of {batch.describe(g.lanes)}"
    try:
        of = decode(bits, kind, per_row)
    except InstructionDescriptorError as error:
        raise Fault(f"{who}: {error}; {where}") from error
    memory = tensor_memory(batch)
    slot = int(batch.slots(g.lanes)[0])
    _, column, region = _tensor_rows(g, memory, target, of.m, of.n, slot, "D", where)
    at = slice(column, column + of.n)
    second = SharedOperand(g, b, of.n, of, "B", where)
    shared, source = [second], None
    if a_in_tensor:
        if of.mn_major_a:
            raise Fault(f"{who}: A in tensor memory is K-major; {where}")
        _, a_column, source = _tensor_rows(g, memory, a, of.m, 8, slot, "A", where)
    else:
        shared.append(SharedOperand(g, a, of.m, of, "A", where))
    first_scales = Scales(memory, slot, a_scales, of.m, of.a_id, of, "A", who, where)
    second_scales = Scales(memory, slot, b_scales, of.n, of.b_id, of, "B", who, where)
    if machine.checked:
        words = np.unique(np.concatenate([x.words(machine.checker.races.shift) for x in shared]))
        machine.checker.tensor.multiply(
            g, access, region, source, words, bool(adds),
            scales=(first_scales.region, second_scales.region),
        )  # fmt: skip
        machine.now += 1

    def work() -> None:
        if a_in_tensor:
            left = from_tensor_memory(memory.cells[slot, : of.m, a_column : a_column + 8], of)
        else:
            left = shared[1].read()
        memory.cells[slot, : of.m, at] = multiply(
            scaled(left, first_scales.read()), scaled(second.read(), second_scales.read()),
            memory.cells[slot, : of.m, at] if adds else None, of,
        )  # fmt: skip

    issue(batch, int(g.lanes[0]), work)
