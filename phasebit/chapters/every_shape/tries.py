"""What was tried at one shape: a plan with a change of its text, and what was expected of it."""

from __future__ import annotations

from typing import NamedTuple

from phasebit.chapters.every_shape import plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import replace_each

Edits = tuple[tuple[str, str], ...]

SMALL_SQUARE = Shape(1024, 1024, 1024)
_BASE = Plan(plans.EARLY, 1, 128, 8)

_NO_PRODUCTS: Edits = (
    (
        "        begin_multiply<BN>(sums, ring.stage[s].a + group * 64 * BK, ring.stage[s].b, "
        "step > 0);\n",
        "",
    ),
)
_NO_COPIES: Edits = (
    (
        "        ptx::mbarrier_arrive_expect_tx(&ring.full[s], (BM + BN) * BK * sizeof(bf16));\n"
        "        ptx::cp_async_bulk_tensor_load("
        "ring.stage[s].a, A, step * BK, row, &ring.full[s]);\n"
        "        ptx::cp_async_bulk_tensor_load("
        "ring.stage[s].b, B, step * BK, col, &ring.full[s]);\n",
        "        ptx::mbarrier_arrive(&ring.full[s]);\n",
    ),
)

PARTS: dict[str, Edits] = {
    "whole": (),
    "no products": _NO_PRODUCTS,
    "no copies": _NO_COPIES,
    "neither": _NO_PRODUCTS + _NO_COPIES,
    "no steps": (("steps = over(K, BK);", "steps = 0;"),),
}
"""A kernel without some of its work: what remains takes how long?"""

_TILE_FROM_REGISTERS: Edits = (
    (
        "        *reinterpret_cast<__nv_bfloat162*>(ring.c + (t / 32 * 16 + t % 32 / 4 + i / 2 % 2 "
        "* 8) *\n                                           PITCH + i / 4 * 8 + t % 4 * 2) =\n"
        "            __floats2bfloat162_rn(sums[i], sums[i + 1]);\n",
        "    {\n        const int r = row + t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8;\n"
        "        const int c = col + i / 4 * 8 + t % 4 * 2;\n"
        "        if (r < M && c < N)\n"
        "            *reinterpret_cast<__nv_bfloat162*>(C + size_t(r) * N + c) =\n"
        "                __floats2bfloat162_rn(sums[i], sums[i + 1]);\n    }\n",
    ),
    ("    for (int i = t; i < BM * BN / 8; i += CONSUMERS) {", "    for (int i = t; i < 0; ++i) {"),
)


class Try(NamedTuple):
    """A change of :data:`_BASE` at :data:`SMALL_SQUARE`, or another plan there."""

    plan: Plan
    edits: Edits
    expected: str

    @property
    def text(self) -> str:
        """The kernel's text."""
        return replace_each(self.plan.text, self.edits, self.plan.kernel)


TRIES = {
    "tiles of 128 × 256": Try(
        Plan(plans.EARLY, 2, 256, 4), (), "slower: 32 tiles for 132 multiprocessors"),
    "tiles of 128 × 128": Try(
        Plan(plans.EARLY, 2, 128, 6), (), "slower: 64 tiles"),
    "6 slots": Try(
        Plan(plans.EARLY, 1, 128, 6), (), "the same: 147 KB in flight"),
    "4 slots": Try(
        Plan(plans.EARLY, 1, 128, 4), (), "a little slower"),
    "no product in flight while a slot is given back": Try(
        _BASE, (("        ptx::wgmma_wait_group<1>();", "        ptx::wgmma_wait_group<0>();"),),
        "a little slower: 16 short gaps"),
    "C from registers": Try(
        _BASE, _TILE_FROM_REGISTERS, "the same: 16 KB a block"),
    "pairs that share B": Try(
        Plan(plans.PAIRS, 1, 128, 7, pair=2), (), "faster: a third fewer bytes from L2"),
    "fours that share B": Try(
        Plan(plans.PAIRS, 1, 128, 7, pair=4), (), "faster: half of the bytes from L2"),
    "tiles of 128 × 64": Try(
        Plan(plans.EARLY, 2, 64, 9), (), "the same: as many tiles, as many bytes"),
    "128 × 128, cut along K": Try(
        Plan(plans.STREAM, 2, 128, 6), (), "faster: a third fewer bytes from L2"),
    "no early launch": Try(
        Plan(plans.SMALL, 1, 128, 8), (), "slower warm, the same flushed"),
}  # fmt: skip
"""Name -> what was tried at 1024³ beside 64 × 128, 8 slots, early launch."""

BASE = "64 × 128, 8 slots"


def part(name: str, plan: Plan = _BASE) -> str:
    """The text of a plan of ``b_next_launch.cu`` without some of its work."""
    return replace_each(plan.text, PARTS[name], plan.kernel)
