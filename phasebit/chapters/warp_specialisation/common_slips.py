"""Slips that are made in nearly every kernel, as edits of the clinic's healthy one.

None of them is about the ring. The emulator runs each: some break a rule of memory, which is found;
others only compute something else, which a test of results must see.
"""

from __future__ import annotations

from phasebit import measure
from phasebit.chapters.warp_specialisation import clinic
from phasebit.edits import replace_each

_ROWS = "const int x = threadIdx.x % 32, y = (threadIdx.x - PRODUCERS) / 32;"
_SUMS = "float c[8] = {};  // column x of rows y, y + 4, …"
_STEPS = "for (int k = 0; k < BK; ++k)\n            for (int i = 0; i < 8; ++i)"
_USE = "c[i] += a[at.slot][y + 4 * i][k] * b[at.slot][k][x];"
_STORE = "for (int i = 0; i < 8; ++i) C[(y + 4 * i) * N + x] = c[i];"

SLIPS: dict[str, tuple[tuple[str, str], ...]] = {
    "half of each tile is multiplied": ((_STEPS, _STEPS.replace("< BK", "< BK / 2")),),
    "rows of B are taken to be K apart": (
        ("B[(tile * BK + row) * N + x]", "B[(tile * BK + row) * K + x]"),
    ),
    "K / 16 rounds over tiles 32 deep": (("TILES = K / BK;", "TILES = K / 16;"),),
    "two groups load the same tile": (
        ("PRODUCERS = 128", "PRODUCERS = 256"),
        ("y = threadIdx.x / 32;  // lane, warp", "y = threadIdx.x / 32 % 4;  // lane, warp"),
    ),
    "two groups add halves of k into C": (
        (_ROWS, _ROWS.replace("/ 32;", "/ 32 % 2, half = (threadIdx.x - PRODUCERS) / 64;")),
        (_SUMS, "float c[16] = {};"),
        (_STEPS, "for (int k = half * 16; k < half * 16 + 16; ++k)\n"
                 "            for (int i = 0; i < 16; ++i)"),
        (_USE, _USE.replace("4 * i", "2 * i")),
        (_STORE, "for (int i = 0; i < 16; ++i) C[(y + 2 * i) * N + x] = 0;\n"
                 "    for (int i = 0; i < 16; ++i) C[(y + 2 * i) * N + x] += c[i];"),
    ),
    "bf16 is stored into an f32 C": (
        ('#include "warp_specialisation/ring.cuh"\n',
         '#include "warp_specialisation/ring.cuh"\n#include <cuda_bf16.h>\n'),
        (_STORE, _STORE.replace("C[", "reinterpret_cast<__nv_bfloat16*>(C)[")),
    ),
}  # fmt: skip
"""What is wrong, and what is changed."""


def source(slip: str) -> str:
    """The healthy kernel with one slip; raises ``ValueError`` where an edit no longer fits."""
    return replace_each(clinic.source("00_healthy"), SLIPS[slip], "00_healthy.cu")


def table() -> measure.Table:
    """Each slip on the emulator: the result, and the kinds of findings."""
    rows = []
    for slip in SLIPS:
        seen = clinic.examine(source(slip))
        rows.append((slip, seen.verdict, seen.kinds or "–"))
    return measure.Table(("the slip", "result", "found"), tuple(rows), "the emulator")
