"""What each role of a block executes: ours beside CUTLASS's kernel for the same problem."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from phasebit import files
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.instruments.executed import Counts, counting

if TYPE_CHECKING:
    from phasebit.measure import Table

OURS = {"softmax": range(8), "correction": range(8, 12), "loader": range(12, 13),
        "multiplier": range(13, 14), "storer": range(14, 15)}  # fmt: skip
CUTLASS = {"softmax": range(8), "correction": range(8, 12), "multiplier": range(12, 13),
           "loader": range(13, 14), "storer": range(14, 15)}  # fmt: skip
"""Role -> its warps. CUTLASS's block has one more warp, without a role."""

RECORD = "attention_cutlass.json"
"""What ``python tools/cutlass_attention.py`` has counted of both kernels."""
SHAPE = kernels.Shape(256, 512, 128)
"""The problem of which it did: one block."""


def recorded() -> dict[str, Any]:
    """The record: ``package``, ``nvcc``, ``commit``, ``date``, and the counts of each kernel."""
    found: dict[str, Any] = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return found


def ours() -> Counts:
    """Of our last kernel; ``RuntimeError`` where it is not right."""
    data = kernels.draw(SHAPE)
    with counting(OURS) as counts:
        made = kernels.attend(kernels.source(kernels.REGISTERS), data, schedule="eager")
    if made.run.findings or kernels.off(SHAPE, data, made.out) > 1:
        raise RuntimeError("the last kernel of attention_again is not right: run its tests")
    return counts


def softmax_registers() -> int:
    """What a thread of the softmax asks for by ``setmaxnreg`` in our last kernel."""
    found = re.search(r"SOFTMAX = (\d+)", kernels.source(kernels.REGISTERS))
    assert found is not None
    return int(found[1])


def rows() -> list[tuple[str, ...]]:
    """What was counted, in ours and in CUTLASS's, from the record."""
    record = recorded()
    sides = record["ours"], record["cutlass"]
    found: list[tuple[str, ...]] = [
        (f"warp instructions of PTX: {role}", *(f"{s['instructions'][role]:,}" for s in sides))
        for role in OURS
    ]
    found += [("registers that a softmax thread asks for", str(softmax_registers()),
               str(record["softmax_registers"])),
              ("products of the tensor core", *(str(s["products"]) for s in sides)),
              ("exponentials by the special units", *(f"{s['powers'] * 32:,}" for s in sides)),
              ("mbarriers", *(str(s["barriers"]) for s in sides)),
              ("columns of tensor memory held", *(str(s["columns"]) for s in sides))]  # fmt: skip
    for words, key in (("from global to shared memory", "read"),
                       ("from shared memory to the tensor core", "multiplied"),
                       ("from tensor memory to registers", "fetched"),
                       ("from registers to tensor memory", "stored"),
                       ("from shared to global memory", "written")):  # fmt: skip
        found.append((f"KiB {words}", *(f"{s[key] >> 10:,}" for s in sides)))
    return found


def table() -> Table:
    """What differs between the two."""
    from phasebit.measure import Table

    record = recorded()
    return Table(("executed by one block", "ours", "CUTLASS's"),
                 tuple(row for row in rows() if row[1] != row[2]),
                 f"{record['problem']}; nvcc {record['nvcc']}; "
                 f"{record['package']}; {record['date']}")  # fmt: skip
