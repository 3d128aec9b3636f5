"""Few rows of A, flushed: what a kernel gains by asking for neighbouring bytes at the same time.

The record ``every_shape_floor`` reads weights alone, in the plan's boxes and in others: where the
128-byte lines of a row that are neighbours come at nearly the same time, it reads faster. A kernel
can have some of that:

- steps at a time: the producer waits until so many slots are free, then asks for the boxes of all
  of them, of weights first. Nothing else changes.
- one box of A: a slot holds two steps; of A they come in one box, of weights in two.
- 8 rows by 256 (or 512) bytes: a slot holds two (or four) steps; of weights they come in one box
  whose order is 8 rows of one step, the same 8 rows of the next, the next 8 rows. Those are the
  swizzle's patterns of 1024 bytes, so that a product of a step takes each second (or fourth).
- K by two blocks: a cluster of two makes a tile twice as wide, one block the even steps, the other
  the odd ones, at the same time; then they join sums. Beside it halves of K, which are not near.

That A is kept with ``evict_last`` and weights leave with ``evict_first`` is so in the plans of all
three shapes; at two of them the plan without stands beside. Steps at a time are also tried at four
shapes whose flushed ratio is near one.

What follows: a way that is faster than the plan by more than the spread, flushed, and not slower
warm, becomes a plan's constant and is measured with all shapes. Where steps at a time change
nothing and boxes of 8 rows do, nearness within a microsecond is too far. Where neither changes
anything, the order of boxes is not what a whole kernel lacks beside its boxes alone.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from typing import Any

from phasebit import measure
from phasebit.chapters.every_shape import bench, few_rows, plans
from phasebit.chapters.every_shape.floor_texts import ANY_MAP
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch

NAME = "every_shape_grouped"
VENDOR = bench.VENDOR
AS_IT_IS, BARE, ONE_BOX = "as it is", "no policies", "one box of A for 2 steps"
HALVES, BY_TURNS = "K by two blocks, halves", "K by two blocks, by turns"
STEPS, TALL = "{} at a time", "8 rows by {} bytes"

FEWEST, LONG, MORE = few_rows.PLANS
_STAYS = Plan(plans.PAIRS, 2, 256, 4)
NEAR_ONE = {
    Shape(1000, 1000, 1000): Plan(plans.PAIRS, 1, 160, 6, pair=4),
    Shape(1024, 1024, 1024): Plan(plans.BY_WARPS, 1, 128, 6),
    Shape(4096, 14336, 4096): _STAYS,
    Shape(2048, 6144, 4096): _STAYS,
}
"""Shapes whose flushed ratio is below 1.01 in ``every_shape_processes``, with that record's plans;
the shapes with few rows aside."""

EXPECTED = {
    "2 at a time": "0.3 to 0.8 µs faster flushed at the two larger shapes of few rows, the same at "
    "16 rows, where boxes by turns gain nothing; the same warm",
    "4 at a time": "slower than 2: a wait for 4 free slots of 6 or 7 leaves memory idle; of 12 "
    "slots the same as 2",
    "1 at a time": "the same as it is",
    BARE: "up to 0.5 µs slower flushed",
    ONE_BOX: "the same as 2 at a time, or slower: fewer slots",
    "8 rows by 256 bytes": "the fastest: 1 µs at the two larger shapes, as much as by turns",
    "8 rows by 512 bytes": "the same as 256",
    BY_TURNS: "slower than the plan, by what it takes to join sums; faster than halves",
    "2 at a time, other shapes": "the same within 1 per cent, flushed and warm: products bind, or "
    "the first slots, which come at once in any case",
}
"""Written before the first run."""

_TOGETHER = """\
constexpr int TOGETHER = {together};  // steps whose boxes are asked for one after another
static_assert(SLOTS > TOGETHER, "a slot is kept until the product after it has begun");

"""
_PRODUCE = """\
// The producer, one thread: steps `from` to `to` - 1. When TOGETHER slots are free it asks for what
// they hold: for all boxes of one operand, then for those of the other.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                        int from, int to) {{
{policies}    int s = from % SLOTS;
    bool phase = from / SLOTS % 2;
    for (int next = from; next < to; next += TOGETHER) {{
        const int count = min(TOGETHER, to - next);
        int at = s;
        bool turn = phase;
        for (int i = 0; i < count; ++i, advance<SLOTS>(at, turn))
            ptx::mbarrier_wait(&ring.empty[at], !turn);
        at = s;
        for (int i = 0; i < count; ++i, advance<SLOTS>(at, turn)) {{
            const int step = next + i;
            ptx::mbarrier_arrive_expect_tx(&ring.full[at], (BM + BN) * BK * sizeof(bf16));
    {weights}        }}
        for (int i = 0; i < count; ++i, advance<SLOTS>(s, phase)) {{
            const int step = next + i;
    {rest}        }}
    }}
}}
"""
_STAYS_SINGLY = """\
        for (int k = piece.first; k < piece.last; ++k, advance<SLOTS>(s, phase)) {
            if (filled-- > 0) continue;
            ptx::mbarrier_wait(&ring.empty[s], !phase);  // here and there
            fill(ring, s, A, B, corner, k, rank);
        }
"""
_STAYS_TOGETHER = """\
        for (int k = piece.first; k < piece.last;) {
            const bool there = filled-- > 0;  // asked for before
            const int count = there ? 1 : min(TOGETHER, piece.last - k);
            int at = s;
            bool turn = phase;
            for (int i = 0; i < count && !there; ++i, advance<SLOTS>(at, turn))
                ptx::mbarrier_wait(&ring.empty[at], !turn);  // here and there
            at = s;
            for (int i = 0; i < count && !there; ++i, advance<SLOTS>(at, turn)) {
                ptx::mbarrier_arrive_expect_tx(&ring.full[at], (BM + BN) * BK * sizeof(bf16));
                bring<SHARE, ACROSS_B>(ring.stage[at].b + rank * SHARE * BK, B, k + i,
                                       corner.col + rank * SHARE, &ring.full[at],
                                       PAIR == 1 ? 0 : (1 << PAIR) - 1);
            }
            for (int i = 0; i < count; ++i, ++k, advance<SLOTS>(s, phase))
                if (!there)
                    bring<BM, ACROSS_A>(ring.stage[s].a, A, k, corner.row, &ring.full[s]);
        }
"""
_HEADER = '#include "every_shape/pairs.cuh"\n'
_LOAD = re.compile(r"^ +ptx::(?:load_box|cp_async_bulk_tensor_load)\(ring\.stage\[s\]\..*\n", re.M)
_PRODUCER = re.compile(r"// The producer, one thread.*?\n}\n", re.S)


def together(plan: Plan, steps: int) -> str:
    """A plan's text; its producer asks for so many steps at a time."""
    constant = _TOGETHER.format(together=steps)
    if plan.stays:
        header = plans.header("pairs").replace("#pragma once\n", "")
        edits = [("// The producer after that.", f"{constant}// The producer after that."),
                 (_STAYS_SINGLY, _STAYS_TOGETHER)]  # fmt: skip
        whole = [(_HEADER, replace_each(header, edits, "pairs.cuh"))]
        return replace_each(plan.text, whole, plan.kernel)
    text = plan.text
    (old,) = (found[0] for found in _PRODUCER.finditer(text))
    weights, rest = _LOAD.findall(old)
    if not plan.swapped:
        weights, rest = rest, weights
    policies = "".join(line for line in old.splitlines(True) if "const auto " in line)
    new = _PRODUCE.format(policies=policies, weights=weights.replace("[s]", "[at]"), rest=rest)
    return replace_each(text, [(old, constant + new)], plan.kernel)


_BOXES = """\
constexpr int DEEP = {deep};  // steps of K in a slot

// cp.async.bulk.tensor.3d and .4d with .L2::cache_hint, 9.7.9.27.1.2. sm_90.
__device__ inline void load_panels(void* shared, const CUtensorMap& map, int row, int panel,
                                   unsigned long long* barrier, unsigned long long policy) {{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {{%2, %3, %4}}], [%5], %6;"
                 :: "r"(ptx::shared_address(shared)), "l"(&map), "r"(0), "r"(row), "r"(panel),
                    "r"(ptx::shared_address(barrier)), "l"(policy) : "memory");
}}
__device__ inline void load_eights(void* shared, const CUtensorMap& map, int row, int panel,
                                   unsigned long long* barrier, unsigned long long policy) {{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {{%2, %3, %4, %5}}], [%6], %7;"
                 :: "r"(ptx::shared_address(shared)), "l"(&map), "r"(0), "r"(0), "r"(panel),
                    "r"(row / 8), "r"(ptx::shared_address(barrier)), "l"(policy) : "memory");
}}

// Begin the products of a slot. Of an operand without EIGHTS a step is all its rows; with them each
// 8 rows of a step stand beside the same 8 of the others.
template <int ROWS, bool EIGHTS> __device__ unsigned long long of_step(const bf16* slot, int first,
                                                                       int step) {{
    return EIGHTS ? ptx::descriptor_128B(slot + (first * DEEP + step * 8) * BK) +
                        (64ull * (DEEP - 1) << 32)
                  : ptx::descriptor_128B(slot + (step * ROWS + first) * BK);
}}
template <bool OF_A, bool OF_B>
__device__ inline void begin_deep(float (&sums)[BN / 2], const bf16* a, const bf16* b, int group,
                                  bool add) {{
#pragma unroll
    for (int step = 0; step < DEEP; ++step) {{
        const auto x = of_step<BM, OF_A>(a, group * 64, step), y = of_step<BN, OF_B>(b, 0, step);
        for (int k = 0; k < BK / 16; ++k)
            ptx::wgmma<BN, 0, 0>(sums, x + 2 * k, y + 2 * k, add || step > 0 || k > 0);
    }}
    ptx::wgmma_commit_group();
}}

struct Ring {{"""
_DEEP_MAPS = """\
// All rows of a step, then all of the next; K is a multiple of 64.
CUtensorMap panels(const bf16* matrix, int rows, int K, int box_rows) {
    const cuuint64_t dims[3] = {BK, cuuint64_t(rows), cuuint64_t(K / BK)};
    const cuuint64_t strides[2] = {cuuint64_t(K) * 2, BK * 2};
    const cuuint32_t box[3] = {BK, cuuint32_t(box_rows), DEEP};
    return any_map(matrix, 3, dims, strides, box, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_NONE);
}
// 8 rows of a step, the same 8 of the next, the next 8 rows; rows are a multiple of 8, too.
CUtensorMap eights(const bf16* matrix, int rows, int K, int box_rows) {
    const cuuint64_t dims[4] = {BK, 8, cuuint64_t(K / BK), cuuint64_t(rows / 8)};
    const cuuint64_t strides[3] = {cuuint64_t(K) * 2, BK * 2, cuuint64_t(K) * 16};
    const cuuint32_t box[4] = {BK, 8, DEEP, cuuint32_t(box_rows / 8)};
    return any_map(matrix, 4, dims, strides, box, CU_TENSOR_MAP_SWIZZLE_128B,
                   CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

"""
_LAUNCH = "void launch(const Product& p) {"


def deep(plan: Plan, steps: int, eights: bool) -> str:
    """A plan's text; a slot holds so many steps, of A in one box, of weights in one of ``eights``
    or in one for each step. ``plan.slots`` counts these slots. K is a multiple of 64.
    """
    w, a = ("a", "b") if plan.swapped else ("b", "a")
    old = {"a": "ptx::load_box(ring.stage[s].a, A, step * BK, row,",
           "b": "ptx::load_box(ring.stage[s].b, B, step * BK, col,"}  # fmt: skip
    maps = {"a": ("A", "row", "BM"), "b": ("B", "col", "BN")}
    operands = {w: "operand(p.B, p.N, p.K, {})", a: "operand(p.A, p.M, p.K, {})"}

    def brought(side: str, function: str) -> str:
        name, first, _ = maps[side]
        return f"{function}(ring.stage[s].{side}, {name}, {first}, step * DEEP,"

    name, first, rows = maps[w]
    singly = (f"for (int i = 0; i < DEEP; ++i)\n            ptx::load_box(ring.stage[s].{w} + "
              f"i * {rows} * BK, {name},\n                          (step * DEEP + i) * BK, "
              f"{first},")  # fmt: skip
    mapped = operands[a].format(maps[a][2])
    edits = [
        ("struct Ring {", _BOXES.format(deep=steps)),
        ("Stage<BM, BN> stage[SLOTS];", "Stage<BM * DEEP, BN * DEEP> stage[SLOTS];"),
        ("(BM + BN) * BK * sizeof(bf16)", "DEEP * (BM + BN) * BK * sizeof(bf16)"),
        (old[a], brought(a, "load_panels")),
        (old[w], brought(w, "load_eights") if eights else singly),
        ("begin_multiply<BN>(sums, ring.stage[s].a + group * 64 * BK, ring.stage[s].b, step > 0);",
         f"begin_deep<{str(eights and w == 'a').lower()}, {str(eights and w == 'b').lower()}>(\n"
         "            sums, ring.stage[s].a, ring.stage[s].b, group, step > 0);"),
        ("steps = over(K, BK);", "steps = over(K, DEEP * BK);"),
        (_LAUNCH, ANY_MAP + _DEEP_MAPS + _LAUNCH),
        (mapped, mapped.replace("operand", "panels")),
    ]  # fmt: skip
    if eights:
        mapped = operands[w].format(rows)
        edits.append((mapped, mapped.replace("operand", "eights")))
    return replace_each(plan.text, edits, plan.kernel)


def by_two(plan: Plan, turns: bool) -> str:
    """The text of a plan of ``i_split_k.cu`` for weights; with ``turns`` a block has each second
    step.
    """
    edits = [
        ("    int s = from % SLOTS;\n",
         "    const auto last = ptx::evict_last(), once = ptx::evict_first();\n"
         "    int s = from % SLOTS;\n"),
        ("ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k, row, &ring.full[s]);",
         "ptx::load_box(ring.stage[s].a, A, k, row, &ring.full[s], last);"),
        ("ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k, col, &ring.full[s]);",
         "ptx::load_box(ring.stage[s].b, B, k, col, &ring.full[s], once);"),
    ]  # fmt: skip
    if turns:
        edits += [
            ("const int k = (first + step) * BK;", "const int k = (first + step * SPLIT) * BK;"),
            ("const int first = over(K, BK) * rank / SPLIT;", "const int first = rank;"),
            ("const int steps = over(K, BK) * (rank + 1) / SPLIT - first;",
             "const int steps = over(over(K, BK) - rank, SPLIT);"),
        ]  # fmt: skip
    return replace_each(plan.text, edits, plan.kernel)


BY_TWO = {
    LONG: Plan(plans.SPLIT_K, 1, 160, 7, split=2),
    MORE: Plan(plans.SPLIT_K, 2, 224, 3, split=2),
}
"""Shape -> a plan whose two blocks make a tile twice as wide as the plan's."""
_SLOTS = {FEWEST: (6, 12), LONG: (12,), MORE: (7, 6)}
"""Of single steps: as many as the plan has first."""
_DEEP = {
    FEWEST: ((2, 3), (2, 6), (4, 3)),
    LONG: ((2, 6), (4, 3)),
    MORE: ((2, 3),),
}
"""Steps of a slot, and slots."""


def tried(shape: Shape) -> dict[str, str]:
    """What is timed at a shape: name -> text."""
    if shape in NEAR_ONE:
        plan = NEAR_ONE[shape]
        return {AS_IT_IS: plan.text, STEPS.format(2): together(plan, 2)}
    base = few_rows.PLANS[shape]
    found: dict[str, str] = {}
    for slots in _SLOTS[shape]:
        plan, words = replace(base, slots=slots), "" if slots == base.slots else f", {slots} slots"
        found[f"{AS_IT_IS}{words}"] = plan.text
        for steps in (2, 4):
            found[f"{STEPS.format(steps)}{words}"] = together(plan, steps)
    if not base.swapped:
        found[STEPS.format(1)] = together(base, 1)
        found[BARE] = replace(base, kernel=plans.EARLY).text
    for number, (steps, slots) in enumerate(_DEEP[shape]):
        plan = replace(base, slots=slots)
        found[f"{TALL.format(128 * steps)}, {slots} slots"] = deep(plan, steps, True)
        if number == 0:
            found[ONE_BOX] = deep(plan, steps, False)
    if shape in BY_TWO:
        found[HALVES] = by_two(BY_TWO[shape], False)
        found[BY_TURNS] = by_two(BY_TWO[shape], True)
    return found


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`phasebit.toolchain.CudaError` when there is no GPU or torch, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    chosen = few_rows.PLANS | NEAR_ONE
    wanted = {shape: tried(shape) for shape in chosen}
    by_turns = bench.Bench(
        torch, bench.loaded(t for each in wanted.values() for t in each.values())
    )
    found = []
    for shape, texts in wanted.items():
        row = by_turns.side_by_side(shape, texts)
        for name, times in sorted(row["times"].items(), key=lambda each: _middles(each[1])):
            flushed, warm = _middles(times)
            print(f"⏱ {shape}: {flushed:.2f} µs flushed, {warm:.2f} warm, {name}", flush=True)
        found.append(row | {"plan": str(chosen[shape])})
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            "choice": "the plans of every_shape_few_rows, and at the other shapes those of "
            "every_shape_processes",
            **{f"expected of {what}": words for what, words in EXPECTED.items()},
        },
        "shapes": found,
    }


def _middles(times: dict[str, list[float]]) -> tuple[float, float]:
    return statistics.median(times["flushed_us"]), statistics.median(times["warm_us"])
