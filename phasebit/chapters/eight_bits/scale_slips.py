"""Mistakes that people make with scales and promotion, planted in the chapter's kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from phasebit.chapters.eight_bits import product
from phasebit.edits import replace_once
from phasebit.emulator import EmulatorError, Schedule

if TYPE_CHECKING:
    from phasebit.launching.launch import Kernel

SHAPE = (130, 136, 272)
"""Two tiles for one block, ragged each way; three steps each, the last of them ragged."""


class Slip(NamedTuple):
    """What is replaced by what in a kernel, and what must be said of it (a pattern)."""

    old: str
    new: str
    says: str
    kernel: str = product.BLOCK_SCALES


_RELEASE = """                if (half == 1) {
                    __syncwarp();  // all lanes have read their scales
                    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);
                }
"""
_READ = "            const float scale = ring.scales[s][mine], below = ring.scales[s][mine + 8];\n"
_FULL = "            ptx::mbarrier_wait(&ring.full[s], phase);\n"
_WAIT = "                ptx::wgmma_wait_group<0>();\n"
_PROMOTE = "                promote(sums[half], part, scale * b[half], below * b[half]);\n"
_LAST = "            ptx::wgmma_wait_group<0>();\n"
_READ_ALL = "            __syncwarp();  // all lanes have read their scales\n"
_SUMS = "        Part sums[2] = {};\n"
_LOOP = "    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {\n"

_EMPTY = "            ptx::mbarrier_wait(&ring.empty[s], !phase);\n"
_LAID = "            for (int half = 0; half < 2; ++half) ring.b_scales[s][half] = b[half];\n"
_PUBLISHED = (
    "            ptx::mbarrier_arrive_expect_tx(full, BYTES);  "
    "// it publishes the scales of B, too\n"
)

SLIPS = {
    "the slot is freed before all lanes have read": Slip(
        "                    __syncwarp();  // all lanes have read their scales\n", "", "race"),
    "the bytes of the scales are not announced": Slip(
        "sizeof(Stage<BN>) + BM * sizeof(float);", "sizeof(Stage<BN>);",
        "deadlock|too many"),
    "the scales are read before the slot is full": Slip(
        _FULL + _READ, _READ + _FULL, "race|async|nobody has written"),
    "the sum is promoted before the wait": Slip(
        _WAIT + _RELEASE + _PROMOTE, _PROMOTE + _WAIT + _RELEASE, "no wgmma.wait_group"),
    "the slot is freed before the wait": Slip(
        _WAIT + _RELEASE, _RELEASE + _WAIT, "may still read it|async"),
    "the next product overwrites a part that is not promoted": Slip(
        _WAIT + _RELEASE + _PROMOTE,
        _WAIT + _RELEASE
        + "                if (half == 0) begin_multiply(part, ring.stage[s], group, 1);\n"
        + _PROMOTE, "wgmma"),
    "the slot is never freed": Slip(_RELEASE, "", "deadlock"),
    "no wgmma.fence": Slip("                ptx::wgmma_fence();\n", "", "no wgmma.fence"),
    "the part begins with what was there": Slip("b + 2 * k, k > 0);", "b + 2 * k, true);",
                                                "nobody has written|WRONG"),
    "the scale of the next row": Slip("[mine + 8];", "[mine + 1];", "WRONG"),
    "rows exchanged": Slip("(i / 2 % 2 ? below", "(i % 2 ? below", "WRONG"),
    "every warp has the first warp's scales": Slip("mine = warp * 16 +", "mine =", "WRONG"),
    "the scales of another slot": Slip("ring.scales[s][mine],", "ring.scales[0][mine],",
                                       "race|WRONG"),
    "the scales of the step, counted in numbers": Slip("row * BM, k / BLOCK, full",
                                                        "row * BM, k, full", "WRONG"),
    "both halves have the first scale of B": Slip("below * b[half]);", "below * b[0]);", "WRONG"),
    "scales of B along K only": Slip("size_t(min(2 * col + half, last)) * blocks;", "0;", "WRONG"),
    "a scale of B for each tile of 256": Slip("2 * col + half, last", "col, last", "WRONG"),
    "sums go on into the next tile": Slip(_SUMS, "", "WRONG"),
    "both halves from the first half of B": Slip("stage.b + half * HALF * BK", "stage.b", "WRONG"),
    "both halves to the same place in C": Slip(" col * BN + half * HALF);", " col * BN);",
                                               "WRONG|race"),
    "steps of 32 numbers of two bytes": Slip(
        "part, a + 2 * k, b + 2 * k", "part, a + 4 * k, b + 4 * k", "WRONG|nobody has written"),
    "K in numbers, where the map counts pairs": Slip("A, k / 2,", "A, k,", "WRONG"),
    "a part is promoted before its products are waited for": Slip(
        _LAST + _READ_ALL, _READ_ALL, "no wgmma.wait_group|async", product.TWO_PARTS),
    "a wait too loose for the first part": Slip(
        "wait_group<1>();\n            promote(sums, left", "wait_group<2>();\n"
        "            promote(sums, left", "no wgmma.wait_group", product.TWO_PARTS),
    "the split of the first half for both": Slip("first - HALF / SAME", "first", "WRONG",
                                                 product.TWO_PARTS),
    "two boxes for three": Slip("Boxes<3> boxes", "Boxes<2> boxes", "may still read it",
                                product.TWO_PARTS),
    "unrolled: the slot is freed before the wait": Slip(
        _WAIT + _RELEASE, _RELEASE + _WAIT, "may still read it|async", product.UNROLLED),
    "a scale of B is laid after the arrival that publishes it": Slip(
        _LAID + _PUBLISHED, _PUBLISHED + _LAID, "race", product.IN_SLOT),
    "a scale of B is laid before the slot is empty": Slip(
        _EMPTY + _LAID, _LAID + _EMPTY, "race", product.IN_SLOT),
    "one lane may overtake: scales of B": Slip(
        "                    __syncwarp();  // all lanes have read their scales\n", "", "race",
        product.IN_SLOT),
    "one thread stores before the group has laid its rows": Slip(
        "    meet(group);                      // and the others\n", "", "async|race",
        product.IN_SLOT),
    "no thread tells the engine of its rows": Slip(
        "    ptx::fence_proxy_async_shared();  "
        "// the engine sees what this thread has stored,\n", "",
        "async|fence", product.IN_SLOT),
    "the boxes are filled while the last tile leaves": Slip(
        "    if (stores) ptx::cp_async_bulk_wait_group_read<0>();  "
        "// the last tile has been read\n",
        "", "may still read it", product.IN_SLOT),
    "the scale is left out": Slip("(sums, scale, ring", "(sums, 1, ring", "WRONG",
                                  product.ONE_SCALE),
    "the scale of A alone": Slip("*a_scale * *b_scale", "*a_scale", "WRONG", product.ONE_SCALE),
}  # fmt: skip


def broken(name: str) -> str:
    """A kernel with a slip; raises ``ValueError`` when its file is not what it was."""
    slip = SLIPS[name]
    text = product.source(slip.kernel)
    if slip.old != _SUMS:
        return replace_once(text, slip.old, slip.new, f"{slip.kernel}.cu")
    head, tail = replace_once(text, _SUMS, "").split("__device__ void consume(")
    return f"{head}__device__ void consume({replace_once(tail, _LOOP, _SUMS[4:] + _LOOP)}"


def fewer_slots(text: str) -> str:
    """A kernel with two slots, which few steps fill more than once."""
    more = "SLOTS = 4;" if "SLOTS = 4;" in text else "SLOTS = 3;"
    return replace_once(text, more, "SLOTS = 2;")


def judge(
    kernel: str | Kernel,
    shape: tuple[int, int, int] = SHAPE,
    schedule: Schedule = "late",
    *,
    of: str = product.BLOCK_SCALES,
) -> str:
    """What is said of a kernel: the emulator's findings, and WRONG where C is not exact.

    ``of``: which of the chapter's kernels it was made from.
    """
    m, n, k = shape
    in_blocks = of != product.ONE_SCALE
    a = product.plain(m, k, 1, blocks=(1, 128) if in_blocks else None)
    b = product.plain(n, k, 2, blocks=(128, 128) if in_blocks else None)
    try:
        run, c = product.multiply(a, b, kernel, schedule=schedule, blocks=1, of=of)
    except EmulatorError as error:
        return "\n".join([str(error), *map(str, error.findings)])
    exact = np.array_equal(c, product.right(a, b))
    return "\n".join([*map(str, run.findings), *["WRONG"] * (not exact)])
