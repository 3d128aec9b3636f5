"""``tcgen05.mma.ws`` (PTX ISA 9.7.16.10.9.3): B stays in the tensor core while A changes.

The product is that of :mod:`~phasebit.emulator.ops.tcgen05`, for other shapes, with D where
``tensor_core.weight_stationary`` says, and with columns of B that may count as zero.
The collector, a cache for B, changes nothing that one can compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phasebit.emulator.errors import Fault
from phasebit.emulator.findings import Sentence, say
from phasebit.emulator.machine.group import Group
from phasebit.emulator.ops.tcgen05 import KINDS, ONE_BLOCK
from phasebit.emulator.ops.tcgen05_access import executing
from phasebit.emulator.ptx.table import Option, effect
from phasebit.emulator.ptx.types import Value
from phasebit.emulator.tensor_core.cta_pairs import blocks
from phasebit.emulator.tensor_core.instruction_descriptors import InstructionDescriptorError, decode
from phasebit.emulator.tensor_core.regions import Region
from phasebit.emulator.tensor_core.tensor_memory import split, tensor_memory
from phasebit.emulator.tensor_core.tensor_metadata import Metadata
from phasebit.emulator.tensor_core.tensor_mma import Form, from_tensor_memory, multiply
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver
from phasebit.emulator.tensor_core.tensor_operands import A_COLUMNS, SharedOperand
from phasebit.emulator.tensor_core.tensor_work import issue
from phasebit.emulator.tensor_core.weight_stationary import SHIFTS, MaskError, banks, rows
from phasebit.emulator.tensor_core.weight_stationary import decode as decode_mask

COLLECTOR: dict[str, Option] = {
    f"collector::b{n}::{word}": ("collector", f"b{n} {word}")
    for n in range(4) for word in ("fill", "use", "lastuse", "discard")
}  # fmt: skip


@effect("tcgen05.mma.ws", "a any b64 u32 any b64", None, section="9.7.16.10.9.3",
        options=[ONE_BLOCK, KINDS, COLLECTOR], optional=1)  # fmt: skip
def mma(
    g: Group, target: Value, a: tuple[str, Value], b: Value, descriptor: Value,
    accumulate: tuple[str, Value], mask: Value = None, *, form: str, group: int = 1,
    collector: str = "",
) -> None:  # fmt: skip
    """tcgen05.mma.ws: D = A·B + D, or A·B, with M of 32, 64 or 128; columns of B can be zeros.

    A in tensor memory lies in each bank of lanes, for its part of D [assumed].
    """
    operands = [target, a[1], b, descriptor, accumulate[1], 0 if mask is None else mask]
    issue_stationary(g, operands, a[0] == "a", form)


def issue_stationary(
    g: Group, operands: Sequence[Any], a_in_tensor: bool, form: str, metadata: Value = None
) -> None:
    """Each thread issues a product; ``metadata``: of a sparse A, their address."""
    where, _ = executing(g)
    for told in g.batch.machine.told[TensorObserver.issues]:
        told(g, "tcgen05.mma.ws")
    spread = [g.spread(x) for x in operands]
    sparse = None if metadata is None else g.spread(metadata)
    for i in range(g.n):
        thread = g if g.n == 1 else g.part(np.array([i]), g.pc)
        at = None if sparse is None else int(sparse[i])
        _one(thread, [int(x[i]) for x in spread], a_in_tensor, form, where, at)


def _one(
    g: Group, operands: list[int], a_in_tensor: bool, kind: str, where: Sentence,
    metadata: int | None,
) -> None:  # fmt: skip
    """What one thread issues."""
    target, a, b, bits, adds, mask = operands
    batch, machine = g.batch, g.batch.machine
    who = say("tcgen05.mma.ws of {}", batch.describe(g.lanes))
    (slot,) = blocks(g, 1, "tcgen05.mma.ws", where)
    try:
        of = decode(bits, kind, weights=True, sparse=metadata is not None)
        columns = decode_mask(mask, of.m, of.n, SHIFTS[bits >> 30])
    except (InstructionDescriptorError, MaskError) as error:
        raise Fault("{}: {}; {}", who, error, where) from error
    memory = tensor_memory(batch)
    count = 128 // of.m

    def region(address: int, width: int, name: str) -> Region:
        lane, column = split(address)
        if lane:
            raise Fault(
                "{}: {} begins at lane {}; it begins at lane 0; {}",
                who, name, lane, where,
            )
        memory.reach(slot, (0, 128), (column, column + width), say("{} of {}", name, who), where)
        return Region(slot, slice(0, 8), slice(column, column + width))

    d = region(target, of.n // count, "D")
    second = SharedOperand(g, slot, b, of.n + columns.shift, of, "B", where)
    shared, source = [second], None
    if a_in_tensor:
        if of.mn_major_a:
            raise Fault("{}: A in tensor memory is K-major; {}", who, where)
        source = region(a, A_COLUMNS, "A")
    else:
        shared.append(SharedOperand(g, slot, a, of.m, of, "A", where))
    held_bits = None if metadata is None else Metadata(
        memory, (slot,), metadata, np.arange(128), of, who, where
    )  # fmt: skip
    for told in machine.told[TensorObserver.multiplies]:
        told(g, d, source, shared, bool(adds), (), of.m << 16 | of.n,
             None if held_bits is None else held_bits.regions[0])  # fmt: skip
    machine.now += 1
    cells = memory.cells[slot]

    def work() -> None:
        along = None if held_bits is None else held_bits.read().reshape(count, of.m, -1)
        right = second.read()[columns.shift :]
        right[columns.zero] = 0
        old = rows(cells[:, d.columns], count) if adds else None
        if source is None:
            left = [shared[1].read()] * count
        else:
            left = [*from_tensor_memory(cells[:, source.columns], of).reshape(count, of.m, -1)]
        if source is None and along is None:
            result = multiply(left[0], right, old, Form(of))
        else:
            width = of.n // count
            result = np.concatenate([
                multiply(left[i], right, old, Form(of), None if along is None else along[i])[
                    :, i * width : (i + 1) * width
                ]
                for i in range(count)
            ], axis=1)  # fmt: skip
        cells[:, d.columns] = banks(result, count)

    issue(batch, int(g.lanes[0]), work)
