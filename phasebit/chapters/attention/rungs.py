"""The ladder's kernels and what is tried beside them: texts."""

from __future__ import annotations

from typing import NamedTuple

from phasebit.chapters.attention import attend
from phasebit.edits import replace_each

LADDER = {
    "one group": attend.ONE_GROUP,
    "ping-pong": attend.PING_PONG,
    "overlapped": attend.OVERLAPPED,
    "blocks that stay": attend.PERSISTENT,
}
"""Rung -> its file."""

CUDNN, FLASH = "cuDNN", "FlashAttention-2"
RIVALS = (CUDNN, FLASH)
SEQUENCES = (1024, 4096, 16384)
HEADS, TOKENS = 16, 16384

Edits = tuple[tuple[str, str], ...]


class Variant(NamedTuple):
    """A kernel in which something is otherwise."""

    kernel: str
    edits: Edits
    right: bool = True
    """Whether its result is; where it is not, only its time says something."""


_C, _D = attend.OVERLAPPED, attend.PERSISTENT
_RESCALE = "rescale(o, shrink);\n        round"
_EX2 = "ptx::ex2(s[i] * factor - base[i / 2 % 2]);"
_POLYNOMIAL = """
// 2 to the power of x without ex2: the whole part goes into the exponent, the rest, at most a half,
// through a polynomial, whose relative error is below 8e-5.
__device__ inline float polynomial(float x) {
    x = fmaxf(x, -126.0f);
    const float shifted = x + 12582912.0f, rest = x - (shifted - 12582912.0f);  // 1.5 · 2²³
    float p = fmaf(0.0551716668f, rest, 0.242611135f);
    p = fmaf(p, rest, 0.693260987f);
    p = fmaf(p, rest, 0.999928073f);
    return __int_as_float(__float_as_int(p) + (__float_as_int(shifted) << 23));
}
"""
_SOFTMAX = "// The online softmax of a thread's two rows"

_BY_FLOATS = """        float high[2][2] = {{top[0], top[0]}, {top[1], top[1]}};
#pragma unroll
        for (int i = 0; i < N; ++i) high[i / 2 % 2][i % 2] = fmaxf(high[i / 2 % 2][i % 2], s[i]);
        float base[2];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float most = fmaxf(high[h][0], high[h][1]);
"""
_BY_INTEGERS = """        float high[2], base[2];
        highest(s, high);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float most = high[h];
"""

VARIANTS = {
    "no named barriers": Variant(_D, (
        ("{ ptx::bar_sync(1 + group, 2 * 128); }", "{}"),
        ("    ptx::bar_arrive(1 + (group + 1) % GROUPS<D, LONG>, 2 * 128);\n", ""),
    )),
    "turns given after the scores": Variant(_D, ((
        "        give_turn<D, LONG>(group);\n        ptx::wgmma_wait_group<1>();\n"
        "        settle(scores);\n",
        "        ptx::wgmma_wait_group<1>();\n        settle(scores);\n"
        "        give_turn<D, LONG>(group);\n",
    ),)),
    "stores of 4 bytes": Variant(_D, (("store_wide(o", "store(o"),)),
    "tiles of 128 keys": Variant(_D, (("D == 128 && LONG ? 176 : 128", "128"),)),
    "two groups": Variant(_D, (("D == 64 && LONG ? 3 : 2", "2"),)),
    "rescaled where the maximum moves": Variant(_D, ((
        _RESCALE,
        "if (__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) " + _RESCALE,
    ),)),
    "an eighth by polynomial": Variant(_D, (
        (_SOFTMAX, _POLYNOMIAL + _SOFTMAX),
        (_EX2, f"i % 8 == 7 ? polynomial(s[i] * factor - base[i / 2 % 2]) : {_EX2}"),
        ("whole == 0 ?", "whole < 0.5f ?"),
    )),
    "maximum of two floats": Variant(_D, ((_BY_INTEGERS, _BY_FLOATS),)),
    "no exponentials": Variant(_D, ((_EX2, "s[i] * factor - base[i / 2 % 2];"),), right=False),
    "products alone": Variant(_D, ((
        "        softmax.step(scores, shrink, shape.factor);  // while",
        "        shrink[0] = shrink[1] = 1;  // while",
    ),), right=False),
}  # fmt: skip
"""What is tried beside the ladder."""

# Clock stamps of block 0 by the first thread of each group: it has its turn, its scores are
# complete, its probabilities are ready, its output is complete. In b both products are complete at
# the same place, the second.
PLACES = ("has its turn", "scores complete", "probabilities ready", "output complete")


def _stamp(place: int) -> str:
    """Both groups stamp; ``tile`` counts downwards, the pass upwards."""
    here = " ".join(
        f"stamp({thread}, {place + shift}, tiles - 1 - tile);"
        for thread, shift in ((0, 0), (128, len(PLACES)))
    )
    return f"        if (blockIdx.x + blockIdx.y == 0) {{ {here} }}\n"


_TURN = "        wait_for_turn(group);\n"
_STEP = "        softmax.step(scores, shrink, shape.factor);"
_SPAN = "    if (threadIdx.x + blockIdx.x + blockIdx.y == 0) stamp_both({});\n"
_BOTH = "        settle(o);\n        settle(scores);\n"
STAMPED: dict[str, Edits] = {
    "ping-pong": (
        (_TURN, _TURN + _stamp(0)),
        (_BOTH, _BOTH + _stamp(1)),
        ("        round_to_bf16<KEYS>(p, scores);\n", "        round_to_bf16<KEYS>(p, scores);\n"
         "        settle(p);\n" + _stamp(2)),
        ("    for (int tile = tiles - 1; tile >= 0; --tile, k.", _SPAN.format(0)
         + "    for (int tile = tiles - 1; tile >= 0; --tile, k."),
        ("    if (group == 0) wait_for", _SPAN.format(1) + "    if (group == 0) wait_for"),
    ),
    "overlapped": (
        (_TURN, _TURN + _stamp(0)),
        ("        ptx::wgmma_wait_group<1>();\n        settle(scores);\n",
         "        ptx::wgmma_wait_group<1>();\n        settle(scores);\n" + _stamp(1)),
        (_STEP, _STEP + "\n        settle(scores);\n" + _stamp(2).rstrip("\n")),
        ("        ptx::wgmma_wait_group<0>();\n        settle(o);\n",
         "        ptx::wgmma_wait_group<0>();\n        settle(o);\n" + _stamp(3)),
        ("    for (int tile = tiles - 2; tile >= 0; --tile, k.", _SPAN.format(0)
         + "    for (int tile = tiles - 2; tile >= 0; --tile, k."),
        ("    if (group == 0) wait_for", _SPAN.format(1) + "    if (group == 0) wait_for"),
    ),
}  # fmt: skip
"""Rung -> what stands in its file, and what stands there in the copy with stamps."""

_READ = """
extern "C" void read_stamps(long long* places, long long* span) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(places, stamps, sizeof stamps));
    CHECK(cudaMemcpyFromSymbol(span, stamp_span, sizeof stamp_span));
}
"""


def stamped(rung: str) -> str:
    """A rung's text with stamps in it; raises ``ValueError`` where an edit does not fit."""
    text = replace_each(attend.flat(LADDER[rung]), STAMPED[rung], rung)
    return '#include "stamps.cuh"\n' + text + _READ


def text(name: str) -> str:
    """The source of a rung or of a variant, the chapter's header in it."""
    if name in LADDER:
        return attend.flat(LADDER[name])
    variant = VARIANTS[name]
    return replace_each(attend.flat(variant.kernel), variant.edits, name)
