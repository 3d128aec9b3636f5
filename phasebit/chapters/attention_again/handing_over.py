"""P handed over in two parts, as FlashAttention-4 does: `d_polynomial.cu` changed, and watched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from phasebit.chapters.attention_again import exercises, step_model, view
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.edits import replace_each, replace_once

if TYPE_CHECKING:
    from phasebit.draw import Picture
    from phasebit.measure import Table

SHAPE = kernels.Shape(256, 512, 128)
"""Two tiles of queries, four steps, nothing masked."""
STEP = 1
"""Whose product is looked at: one with a step before it and one behind."""

WEIGH = """constexpr int HALF_WARPS = 8, READY_WARPS = 4, SPLIT = {split};

__device__ inline void corrected(Shared& s, int tile) {{ arrive(&s.half[tile]); }}

// O of a tile += one part of P times V.
__device__ inline void weigh(Shared& s, int tile, int slot, int step, int part) {{
    const unsigned o = s.tensor_memory + o_columns(tile), p = s.tensor_memory + s_columns(tile);
    const Tile& v = s.kv[slot];
    const unsigned long long b =
        (ptx::shared_address(v.box) & 0x3ffff) >> 4 | (sizeof v.box[0] >> 4) << 16 |
        64ull << 32 | 1ull << 46 | 2ull << 61;
    ptx::mbarrier_wait(part ? &s.ready[tile] : &s.half[tile], step % 2);
    ptx::tcgen05_fence_after_thread_sync();
    for (int k = part ? SPLIT / STEP : 0; k < (part ? ROWS : SPLIT) / STEP; ++k)
        ptx::tcgen05_mma_f16_from_tensor_memory(
            o, p + STEP / 2 * k, b + (sizeof v.box[0][0] * STEP >> 4) * k,
            ptx::tcgen05_bf16_f32(ROWS, DEPTH) | 1 << 16, step > 0 || k > 0);
}}"""
PARTS = (
    ("reference, 0, 64)", "reference, 0, SPLIT)"),
    ("reference, 64, 128)", "reference, SPLIT, 128)"),
)
WEIGHED = (
    "            weigh(s, tile, v, step);\n",
    "            for (int part = 0; part < 2; ++part) weigh(s, tile, v, step, part);\n",
)
FIRST_STEP = "    Row row;\n    for (int step = 0; step < steps; ++step) {\n        const int key"
# 112: with 100 to 125 it is the same story whichever nvcc (13.0, 13.4) compiled the kernel.
LATE = """    if (tile)  // it begins later, by about a quarter of a step
        for (int i = 0; i < 112; ++i) asm volatile("mov.u32 %0, %0;" : "+r"(i));
"""


def in_parts(split: int, *, late: bool = False) -> str:
    """`d_polynomial.cu` with P handed over in two parts, the first ``split`` keys, then the rest.

    With ``split`` 128 it is handed over whole. ``late``: the softmax of tile 1 idles for a while
    before its first step, so that the two groups no longer work in time with each other.
    """
    text = kernels.source(kernels.POLYNOMIAL)
    if split < kernels.ROWS:
        text = exercises.in_halves(WEIGH.format(split=split))
        text = replace_each(text, (*PARTS, WEIGHED))
    return replace_once(text, FIRST_STEP, LATE + FIRST_STEP) if late else text


def begins(text: str) -> tuple[tuple[int, int], bool, int]:
    """Of a run on the emulator: when each tile's product of weights begins in step :data:`STEP`.

    First how many keys of the row have their weights in tensor memory by then, in all warps of
    the tile's group, for tile 0 and 1; then whether the result is right; then the findings.
    """
    data = kernels.draw(SHAPE)
    with view.watching() as log:
        run, out = kernels.attend(text, data, schedule="eager")
    groups = view.Roles.of(text).names
    pieces, products = kernels.ROWS // view.PIECE, kernels.ROWS // 16

    def times(what: str, warp: int, columns: range) -> list[int]:
        return sorted(s.at for s in log if s.what == what and s.warp == warp
                      and int(s.where) in columns)  # fmt: skip

    def there(tile: int) -> int:
        outputs = 2 * kernels.ROWS + tile * SHAPE.depth
        issued = times("multiplies", groups["multiplier"].start, range(outputs, outputs + 1))
        place = range(tile * kernels.ROWS, (tile + 1) * kernels.ROWS)
        stored = (times("stores", warp, place)[STEP * pieces :][:pieces]
                  for warp in groups[f"softmax {tile}"])  # fmt: skip
        return view.PIECE * min(sum(at < issued[STEP * products] for at in each) for each in stored)

    return (there(0), there(1)), kernels.off(SHAPE, data, out) <= 1, len(run.findings)


def slots(split: int) -> Picture:
    """The columns of S and P in a run of :func:`in_parts`."""
    text = in_parts(split)
    with view.watching() as log:
        kernels.attend(text, kernels.draw(SHAPE), schedule="eager", check=False)
    return view.slots(text, SHAPE.depth, log)


def shorter(*keys: int) -> Table:
    """What two halves would save of a block of so many keys, by :mod:`step_model`: arithmetic."""
    from phasebit.measure import Table

    rows = []
    for depth in (128, 64):
        for each in keys:
            steps = -(-each // kernels.ROWS)
            one, two = (step_model.whole(kernels.POLYNOMIAL, steps, depth, parts=parts)
                        for parts in (1, 2))  # fmt: skip
            rows.append((str(depth), f"{each:,}", f"{one:,}", f"{two:,}", str(one - two),
                         f"{(one - two) / one:.1%}"))  # fmt: skip
    return Table(
        ("head", "keys", "in one part", "in two halves", "less", "of the block"), tuple(rows),
        "clocks of the model, from a block's first product to the end of its last",
    )  # fmt: skip


def table(choices: tuple[tuple[int, bool], ...]) -> Table:
    """:func:`begins` for pairs of a split and ``late``, as a table."""
    from phasebit.measure import Table

    rows = []
    for split, late in choices:
        keys, right, findings = begins(in_parts(split, late=late))
        rest = kernels.ROWS - split
        rows.append((f"{split} + {rest}" if rest else str(split), "yes" if late else "no",
                     *map(str, keys), "yes" if right else "no", str(findings)))  # fmt: skip
    return Table(
        ("keys of a part", "tile 1 starts late", "tile 0 begins with", "tile 1 begins with",
         "within the bound", "findings"),
        tuple(rows), "keys whose weights are there when a tile's product of weights begins; "
        f"step {STEP} of {SHAPE.keys // kernels.ROWS}",
    )  # fmt: skip
