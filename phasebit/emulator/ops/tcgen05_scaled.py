"""``tcgen05.mma`` with block scales (PTX ISA 9.7.16.10.9.1): kinds mxf8f6f4, mxf4, mxf4nvf4.

The scales lie in tensor memory, see ``tensor_core.block_scales``; all else is as
without them, see :mod:`~phasebit.emulator.ops.tcgen05`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ops.tcgen05 import COLLECTOR, GROUPS
from phasebit.emulator.ops.tcgen05_access import executing
from phasebit.emulator.ptx.table import Option, effect
from phasebit.emulator.ptx.types import Array, Value
from phasebit.emulator.tensor_core.block_scales import (
    ADDRESS,
    columns,
    multiply,
    read,
    scaled,
    values,
)
from phasebit.emulator.tensor_core.cta_pairs import blocks
from phasebit.emulator.tensor_core.instruction_descriptors import InstructionDescriptorError
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.scaled_descriptors import VECTORS, ScaledDescriptor, decode
from phasebit.emulator.tensor_core.tensor_memory import split, tensor_memory
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver
from phasebit.emulator.tensor_core.tensor_operands import Product
from phasebit.emulator.tensor_core.tensor_work import issue

KINDS: dict[str, Option] = {f"kind::{word}": ("form", word) for word in VECTORS}
SIZES: dict[str, Option] = {
    word: ("vector", word)
    for word in ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
}


class Scales:
    """The scales of A or B in the tensor memory of one block or of a pair.

    ``halves``: the second half of the rows has its scales in the upper two quarters of the lanes.
    """

    def __init__(
        self, g: Group, slots: tuple[int, ...], address: int, rows: int, first: int, name: str,
        of: ScaledDescriptor, where: Sentence, halves: bool = False,
    ) -> None:  # fmt: skip
        who = say("tcgen05.mma of {}", g.batch.describe(g.lanes))
        lane, column = split(address & ADDRESS)
        if lane:
            raise Fault(
                "{}: the scales of {} begin at lane {}; they begin at lane 0, and the other "
                "quarters of the lanes repeat them; {}",
                who, name, lane, where,
            )
        self.memory = tensor_memory(g.batch)
        end = column + columns(rows // 2 if halves else rows)
        for slot in slots:
            self.memory.reach(
                slot, (0, 128), (column, end), say("the scales of {} of {}", name, who), where
            )
        self.regions = [Region(slot, slice(0, 8), slice(column, end)) for slot in slots]
        self.rows, self.first, self.halves = rows, first, halves
        self.of, self.name, self.where = of, name, say("{}; {}", who, where)

    def read(self, block: int) -> Array:
        """The numbers, f64 [rows, scales of a row], that one block holds."""
        region = self.regions[block]
        cells = self.memory.cells[region.slot, :, region.columns]
        parts, rows = ([cells[:64], cells[64:]], self.rows // 2) if self.halves else (
            [cells], self.rows
        )  # fmt: skip
        scales = np.concatenate([
            read(part, rows, self.first, self.of.per_row, self.name, self.where) for part in parts
        ])  # fmt: skip
        return values(scales, self.of.scale, self.name, self.where)


@effect("tcgen05.mma.block_scale", "a any b64 u32 a a any", None, section="9.7.16.10.9.1",
        options=[GROUPS, KINDS, SIZES, COLLECTOR])  # fmt: skip
def mma(
    g: Group, target: Value, a: tuple[str, Value], b: Value, descriptor: Value, a_scales: Value,
    b_scales: Value, accumulate: tuple[str, Value], *, form: str, vector: str = "",
    group: int = 1, collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma.block_scale: D = (A · scales) (B · scales) + D, or without D.

    16 or 32 elements along k share a scale.  How it rounds is an assumption.
    """
    issue_scaled(g, [target, a[1], b, descriptor, a_scales, b_scales, accumulate[1]], a[0] == "a",
                 form, vector, group)  # fmt: skip


def issue_scaled(
    g: Group, operands: Sequence[Any], a_in_tensor: bool, form: str, vector: str, group: int,
    metadata: Value = None,
) -> None:  # fmt: skip
    """Each thread issues a product; ``metadata``: of a sparse A, their address."""
    where, _ = executing(g)
    if vector not in VECTORS[form]:
        known = ", ".join(f".{word}" if word else "none" for word in VECTORS[form])
        raise Fault(
            "kind::{} has no {}: {}; it takes {}",
            form, vector or "block_scale without its size", where, known,
        )  # fmt: skip
    for told in g.batch.machine.told[TensorObserver.issues]:
        told(g, "tcgen05.mma")
    spread = [g.spread(x) for x in operands]
    sparse = None if metadata is None else g.spread(metadata)
    for i in range(g.n):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        numbers = [int(x[i]) for x in spread]
        at = None if sparse is None else int(sparse[i])
        _one(thread, numbers, a_in_tensor, form, VECTORS[form][vector], group, where, at)


def _one(
    g: Group, operands: list[int], a_in_tensor: bool, kind: str, per_row: int, group: int,
    where: Sentence, metadata: int | None,
) -> None:  # fmt: skip
    """What one thread issues."""
    target, a, b, bits, a_scales, b_scales, adds = operands
    batch = g.batch
    slots = blocks(g, group, "tcgen05.mma", where)
    try:
        of = decode(bits, kind, per_row, group, metadata is not None)
    except InstructionDescriptorError as error:
        raise Fault("tcgen05.mma of {}: {}; {}", batch.describe(g.lanes), error, where) from error
    for told in batch.machine.told[TensorObserver.reserved_bit] if of.reserved else ():
        told(g, bits, where)
    product = Product(g, slots, of, target, a_in_tensor, a, b, where, metadata)
    height = of.m // len(slots)
    of_a = Scales(g, slots, a_scales, height, of.a_id, "A", of, where)
    of_b = Scales(g, slots, b_scales, of.n, of.b_id, "B", of, where, product.halved)
    product.tell(g, bool(adds), list(zip(of_a.regions, of_b.regions, strict=True)))

    def multiplied(first: Array, second: Array, old: Array | None) -> Array:
        along = product.along()
        parts = [
            multiply(
                scaled(first[low : low + height], of_a.read(i)), scaled(second, of_b.read(i)),
                None if old is None else old[low : low + height], of,
                None if along is None else along[low : low + height],
            )
            for i, low in enumerate(range(0, of.m, height))
        ]  # fmt: skip
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    issue(batch, int(g.lanes[0]), lambda: product.work(multiplied, bool(adds)))
