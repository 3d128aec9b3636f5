"""Slips that people make with the columns of tensor memory, and what the emulator says of each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from phasebit.chapters.tensor_memory import cells
from phasebit.edits import replace_once

if TYPE_CHECKING:
    from phasebit.measure import Table

_PERMIT = "    ptx::tcgen05_relinquish_alloc_permit();\n"
_SECOND = "    ptx::tcgen05_alloc<MORE>(&address[1]);\n"
_BACK = "    ptx::tcgen05_dealloc<FIRST>(first);\n"


class Slip(NamedTuple):
    """A change of ``columns.cu``."""

    right: str
    wrong: str
    says: str
    """What must be said, as a regular expression."""
    columns: tuple[int, int] = (128, 64)
    """Of the first allocation, of the second."""


SLIPS = {
    "allocates after it gave up the right to": Slip(
        _SECOND, _PERMIT + _SECOND, "after its block gave up the right to"),
    "allocates twice, and needs all 512": Slip(
        _BACK, _BACK, "let a block allocate all", (256, 256)),
    "one thread allocates for its warp": Slip(
        "    ptx::tcgen05_alloc<FIRST>", "    if (threadIdx.x == 0) ptx::tcgen05_alloc<FIRST>",
        "wait for the other threads of the warp: tcgen05.alloc"),
    "gives nothing back": Slip(_BACK, "", "leaves the kernel with 128 columns"),
    "gives half of them back": Slip(
        "dealloc<FIRST>", "dealloc<FIRST / 2>", "deallocates 64 columns .* but 128"),
    "gives back more than it has": Slip(
        "dealloc<FIRST>", "dealloc<FIRST * 2>", "deallocates 256 columns .* but 128"),
    "gives them back twice": Slip(_BACK, _BACK + _BACK, "for the second time"),
}  # fmt: skip


def said(name: str) -> str:
    """What the emulator says of a slip, two blocks on one multiprocessor; or nothing."""
    import numpy as np

    from phasebit.emulator import EmulatorError
    from phasebit.launching.launch import compile

    slip = SLIPS[name]
    text = cells.source("columns", FIRST=slip.columns[0], MORE=slip.columns[1])
    text = replace_once(text, slip.right, slip.wrong)
    out = np.full((2, 2), -1, np.int32)
    try:
        run = compile(text, "sm_100a")["columns"].launch(2, 32, [out], resident=2)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    return "\n".join(map(str, run.findings))


def table() -> Table:
    """Of each slip how it ends, and what of the report says why."""
    from phasebit.measure import Table

    rows = []
    for name, slip in SLIPS.items():
        report = said(name)
        found = re.search(slip.says, report)
        end = next((word for word in ("deadlock", "tensor") if report.startswith(word)), "fault")
        rows.append((name, end, found[0] if found else "nothing"))
    return Table(("a block", "ends in", "the report says"), tuple(rows), "columns.cu, two blocks")


__all__ = ["SLIPS", "Slip", "said", "table"]
