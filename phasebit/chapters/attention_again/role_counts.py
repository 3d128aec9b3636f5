"""What each role of a block executes: ours beside CUTLASS's kernel for the same problem."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from phasebit import files
from phasebit.chapters.attention_again import softmax_code
from phasebit.chapters.attention_again import tensor_attention as kernels

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


@dataclass
class Counts:
    """Of one block, in one launch."""

    instructions: dict[str, int] = field(default_factory=dict)
    """Role -> warp instructions of PTX."""
    products: int = 0
    """``tcgen05.mma``."""
    powers: int = 0
    """``ex2``, by warps: 32 exponentials each."""
    barriers: int = 0
    """``mbarrier.init``."""
    fetched: int = 0
    """Bytes from tensor memory to registers."""
    stored: int = 0
    """Bytes from registers to tensor memory."""
    columns: int = 0
    """Of tensor memory that the block holds."""
    copied: int = 0
    """Bytes that bulk copies move, in and out."""


@contextmanager
def counting(roles: Mapping[str, range]) -> Iterator[Counts]:
    """Counts what a launch of one block does meanwhile; complete behind the block."""
    from phasebit.emulator import BulkCopyObserver, LaunchObserver, TensorObserver, observing

    counts = Counts()
    opcodes: Counter[str] = Counter()
    role_of = {warp: role for role, warps in roles.items() for warp in warps}
    by_role: Counter[str] = Counter(dict.fromkeys(roles, 0))

    class Watcher(LaunchObserver, BulkCopyObserver, TensorObserver):
        def enters(self, g: Any) -> None:
            block = g.batch.machine.program.blocks[g.pc].instructions
            names = [instruction.opcode for instruction in block]
            for warp in {int(w) for w in g.batch.warp_of[g.lanes]}:
                if warp in role_of:
                    by_role[role_of[warp]] += len(names)
                opcodes.update(names)

        def starts_copies(self, g: Any, copies: Any) -> None:
            counts.copied += sum(copy.size for _, copy in copies)

        def allocated(self, g: Any, region: Any) -> None:
            counts.columns += region.columns.stop - region.columns.start

        def loads_columns(self, g: Any, regions: Any, registers: int) -> None:
            counts.fetched += sum(len(lanes) for lanes, _ in regions) * registers * 4

        def stores_columns(self, g: Any, regions: Any, registers: int) -> None:
            counts.stored += sum(len(lanes) for lanes, _ in regions) * registers * 4

    with observing(Watcher()):
        yield counts

    def of(begins: str) -> int:
        return sum(number for opcode, number in opcodes.items() if opcode.startswith(begins))

    counts.instructions = dict(by_role)
    counts.products, counts.powers = of("tcgen05.mma"), of("ex2")
    counts.barriers = of("mbarrier.init")


def recorded() -> dict[str, Any]:
    """The record: ``package``, ``nvcc``, ``commit``, ``date``, and the counts of each kernel."""
    found: dict[str, Any] = json.loads((files.records() / RECORD).read_text(encoding="utf-8"))
    return found


def ours() -> Counts:
    """Of our last kernel; ``RuntimeError`` where it is not right."""
    data = kernels.draw(SHAPE)
    with counting(OURS) as counts:
        made = kernels.attend(kernels.source(kernels.POLYNOMIAL), data, schedule="eager")
    if made.run.findings or kernels.off(SHAPE, data, made.out) > 1:
        raise RuntimeError("the last kernel of attention_again is not right: run its tests")
    return counts


def table() -> Table:
    """Ours beside CUTLASS's, from the record."""
    from phasebit.measure import Table

    record = recorded()
    sides = record["ours"], record["cutlass"]
    rows = [(f"warp instructions of PTX: {role}", *(f"{s['instructions'][role]:,}" for s in sides))
            for role in OURS]  # fmt: skip
    compiled = softmax_code.read()["of eight exponentials by polynomial"]["2"]
    rows += [("registers of a softmax thread, compiled | asked for by setmaxnreg",
              str(compiled["registers"]), str(record["softmax_registers"])),
             ("products of the tensor core", *(str(s["products"]) for s in sides)),
             ("exponentials by the special units", *(f"{s['powers'] * 32:,}" for s in sides)),
             ("mbarriers", *(str(s["barriers"]) for s in sides)),
             ("columns of tensor memory held", *(str(s["columns"]) for s in sides))]  # fmt: skip
    for words, key in (("from tensor memory to registers", "fetched"),
                       ("from registers to tensor memory", "stored"),
                       ("moved by bulk copies", "copied")):  # fmt: skip
        rows.append((f"KiB {words}", *(f"{s[key] >> 10:,}" for s in sides)))
    return Table(("executed by one block", "ours", "CUTLASS's"), tuple(rows),
                 f"{record['problem']}; nvcc {record['nvcc']}; {record['package']}; "
                 f"{record['date']}")  # fmt: skip
