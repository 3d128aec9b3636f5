"""What was tried at some shapes: another plan, or a change of a text, and what was expected."""

from __future__ import annotations

from dataclasses import replace
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
    """A change of a plan's text, or another plan."""

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
        Plan(plans.STREAM, 2, 128, 6, waves=2), (), "faster: a third fewer bytes from L2"),
    "no early launch": Try(
        Plan(plans.SMALL, 1, 128, 8), (), "slower warm, the same flushed"),
}  # fmt: skip
"""Name -> what was tried at 1024³ beside 64 × 128, 8 slots, early launch."""

BASE = "64 × 128, 8 slots"


class Tried(NamedTuple):
    """A shape, the plan that was meant for it, and what was tried in its place."""

    shape: Shape
    base: Plan
    plans: dict[Plan, str]
    """Another plan -> what was expected of it."""


_SHARED_BY_TWO, _CUT = Plan(plans.PAIRS, 2, 256, 4, pair=2), Plan(plans.STREAM, 2, 256, 4, pair=2)
_SAME = "the same: three slots are 147 KB, C leaves in one part for two"
_AT_ONCE = "slower: the tensor cores wait while C is laid into boxes"
_PING_PONG = "slower: half as much again to copy; C costs no time"
_LARGE = Shape(8192, 8192, 8192)
_MISCOUNTED = (
    f"slower: the last wave has 2 tiles [we miscounted: {_SHARED_BY_TWO.tiles(_LARGE) % 66} pairs' "
    "tiles for 66 pairs]"
)
"""What was expected, as it was written down; what is in brackets was added after the run."""
FURTHER = (
    Tried(Shape(1000, 1000, 1000), Plan(plans.PAIRS, 1, 128, 7, pair=2), {
        Plan(plans.PAIRS, 1, 128, 7): "slower: two lines for each row of B, not one in two blocks",
        Plan(plans.PAIRS, 1, 128, 7, pair=4): "faster: a quarter of B for each block",
        Plan(plans.PAIRS, 1, 160, 6, pair=4): "faster: the same, in 112 tiles",
        Plan(plans.SPLIT_K, 2, 128, 5, split=2): "faster: a third fewer bytes from L2",
        Plan(plans.PING_PONG, 1, 128, 7, pair=2): "the same: a block has one tile",
        Plan(plans.PAIRS, 1, 128, 7, pair=2, early=False): "slower warm, the same flushed",
    }),
    Tried(Shape(5000, 5000, 5000), replace(_CUT, super=4, waves=2), {
        replace(_CUT, super=4, waves=2, later=False): _AT_ONCE,
        replace(_CUT, super=4, waves=2, slots=3, boxes=4): "slower: copies bind, and lose a slot",
        replace(_CUT, super=4, waves=1): "slower: a tile has sums of 16 pairs to take",
        replace(_CUT, super=4, waves=1, pair=4): "faster: a quarter of B for each block",
        replace(_SHARED_BY_TWO, super=4): "slower: the last wave has 4 tiles",
        Plan(plans.PING_PONG, 2, 128, 6, pair=2, super=4): _PING_PONG,
    }),
    Tried(Shape(4096, 14336, 4096), _SHARED_BY_TWO, {
        replace(_SHARED_BY_TWO, later=False): _AT_ONCE,
        replace(_SHARED_BY_TWO, slots=3, boxes=4): _SAME,
        replace(_SHARED_BY_TWO, pair=1): "slower: half as much again from L2",
        replace(_SHARED_BY_TWO, pair=4, super=4): "slower: 12 multiprocessors stand idle",
        replace(_CUT, waves=1): "the same: half a wave gained, sums handed over",
        Plan(plans.PING_PONG, 2, 128, 6, pair=2): _PING_PONG,
        Plan(plans.PING_PONG, 1, 256, 4, pair=2): _PING_PONG,
    }),
    Tried(_LARGE, replace(_CUT, waves=1), {
        replace(_CUT, waves=1, later=False): _AT_ONCE,
        replace(_CUT, waves=1, slots=3, boxes=4): _SAME,
        _SHARED_BY_TWO: _MISCOUNTED,
        replace(_SHARED_BY_TWO, pair=1): "slower: half as much again from L2",
        replace(_SHARED_BY_TWO, pair=4, super=4): "slower: 12 multiprocessors stand idle",
        Plan(plans.PING_PONG, 2, 128, 6, pair=2): _PING_PONG,
    }),
)  # fmt: skip
"""Of the shapes that were hardest, with expectations from a first run on an H100 and the model."""


def change(plan: Plan, base: Plan) -> str:
    """In what a plan of :data:`FURTHER` differs from the one that was meant for its shape."""
    if plan.kernel == plans.PING_PONG:
        return f"ping-pong, {plan.rows // plan.pair} × {plan.bn}"
    words = []
    if plan.pair != base.pair:
        words.append({1: "blocks alone", 2: "pairs", 4: "fours"}[plan.pair])
    if not plan.later:
        words.append("C at once")
    if plan.slots != base.slots:
        words.append(f"{plan.slots} slots, {plan.boxes} boxes")
    if plan.pair != base.pair or plan.waves != base.waves:
        words.append(f"cut {plan.waves}" if plan.waves else "no cut")
    return ", ".join(words)


def part(name: str, plan: Plan = _BASE) -> str:
    """The text of a plan of ``b_next_launch.cu`` without some of its work."""
    return replace_each(plan.text, PARTS[name], plan.kernel)
