"""The ladder's kernels and what is tried beside them: texts."""

from __future__ import annotations

from typing import NamedTuple

from phasebit.chapters.attention import attend
from phasebit.edits import replace_each

LADDER = {
    "one group": attend.ONE_GROUP,
    "ping-pong": attend.PING_PONG,
    "overlapped": attend.OVERLAPPED,
    "persistent": attend.PERSISTENT,
    "lean softmax": attend.LEAN,
    "dynamic": attend.DYNAMIC,
}
"""Rung -> its file."""
NEXT = "next scores before the store"
"""Kernel g, which was measured apart."""

CUDNN, FLASH, FLASH_3 = "cuDNN", "FlashAttention-2", "FlashAttention-3"
RIVALS = (CUDNN, FLASH, FLASH_3)
SEQUENCES = (1024, 4096, 16384)
HEADS, TOKENS = 16, 16384

Edits = tuple[tuple[str, str], ...]


class Variant(NamedTuple):
    """A kernel in which something is otherwise."""

    kernel: str
    edits: Edits
    right: bool = True
    """Whether its result is; where it is not, only its time says something."""


_D, _E, _F = attend.PERSISTENT, attend.LEAN, attend.DYNAMIC
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

_ONE_IN_EIGHT = (
    (_SOFTMAX, _POLYNOMIAL + _SOFTMAX),
    (_EX2, f"i % 8 == 7 ? polynomial(s[i] * factor - base[i / 2 % 2]) : {_EX2}"),
    ("whole == 0 ?", "whole < 0.5f ?"),
)

_WEIGH = """weigh(float (&s)[N], float factor) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            s[i] = """
_ONE_IN_EIGHT_LEAN = (
    (_SOFTMAX, _POLYNOMIAL + _SOFTMAX),
    (_WEIGH + _EX2,
     f"{_WEIGH}i % 8 == 7 ? polynomial(s[i] * factor - base[i / 2 % 2]) : {_EX2}"),
    ("whole == 0 ?", "whole < 0.5f ?"),
)  # fmt: skip
_TURNS = """// Who multiplies next, as in kernel d.
__device__ void wait_for_turn(int group) { ptx::bar_sync(1 + group, 2 * 128); }
template <int D> __device__ void give_turn(int group) {
    ptx::bar_arrive(1 + (group + 1) % GROUPS<D>, 2 * 128);
}

// A consumer, one warp group: 64 queries of each task.
"""


def _usual(factor: str) -> Edits:
    """The kernel with the softmax of the rungs before it."""
    pad = " " * (8 if factor == "factor" else 4)
    return (
        ("LeanSoftmax softmax;", "Softmax softmax;"),
        (f"\n{pad}softmax.move(scores, shrink, {factor});\n"
         f"{pad}softmax.weigh(scores, {factor});\n",
         f"\n{pad}softmax.step(scores, shrink, {factor});\n"),
        (f"const bool moved = softmax.move(scores, shrink, {factor});",
         f"softmax.step(scores, shrink, {factor});"),
        (f"{pad}    if (moved) rescale(o, shrink);\n"
         f"{pad}    softmax.weigh(scores, {factor});\n", f"{pad}    rescale(o, shrink);\n"),
    )  # fmt: skip


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
    "an eighth by polynomial": Variant(_D, _ONE_IN_EIGHT),
    "maximum of two floats": Variant(_D, ((_BY_INTEGERS, _BY_FLOATS),)),
    "no exponentials": Variant(_D, ((_EX2, "s[i] * factor - base[i / 2 % 2];"),), right=False),
    "products alone": Variant(_D, ((
        "        softmax.step(scores, shrink, shape.factor);  // the output may",
        "        shrink[0] = shrink[1] = 1;  // the output may",
    ),), right=False),
    "more groups, the softmax of before": Variant(_E, _usual("shape.factor")),
    "the softmax of before": Variant(_F, _usual("factor")),
    "one group fewer, tiles of 128 keys": Variant(_F, (
        ("D == 64 ? 4 : 3;  // that", "D == 64 ? 3 : 2;  // that"),
        ("int KEYS = 64;", "int KEYS = 128;"),
        ("int SLOTS = 4;", "int SLOTS = 2;"),
        ("GROUPS<D> == 3 ? 152 : 112", "GROUPS<D> == 3 ? 160 : 232"),
        ("GROUPS<D> == 3 ? 40 : 32", "32"),
    )),
    "named barriers": Variant(_F, (
        ("// A consumer, one warp group: 64 queries of each task.\n", _TURNS),
        ("    Place<SLOTS> k, v;\n    for (Place<TASKS> t",
         "    Place<SLOTS> k, v;\n    if (group == GROUPS<D> - 1) give_turn<D>(group);\n"
         "    for (Place<TASKS> t"),
        ("        if (task.tiles == 0) return;\n",
         "        if (task.tiles == 0) {\n            if (group == 0) wait_for_turn(group);\n"
         "            return;\n        }\n"),
        ("--hidden, k.advance(), v.advance()) {\n",
         "--hidden, k.advance(), v.advance()) {\n            wait_for_turn(group);\n"
         "            give_turn<D>(group);\n"),
        ("            ptx::wgmma_fence();\n            begin_scores",
         "            wait_for_turn(group);\n            ptx::wgmma_fence();\n"
         "            begin_scores"),
        ("            begin_output<D, KEYS>(o, p, s.v[v.slot]);  // of the one before\n",
         "            begin_output<D, KEYS>(o, p, s.v[v.slot]);  // of the one before\n"
         "            give_turn<D>(group);\n"),
    )),
    "exponentials before the wait": Variant(_F, ((
        "            ptx::wgmma_wait_group<0>();\n            settle(o);\n"
        "            release(&s.v_empty[v.slot]);\n            v.advance();\n"
        "            if (moved) rescale(o, shrink);\n            softmax.weigh(scores, factor);\n",
        "            softmax.weigh(scores, factor);\n"
        "            ptx::wgmma_wait_group<0>();\n            settle(o);\n"
        "            release(&s.v_empty[v.slot]);\n            v.advance();\n"
        "            if (moved) rescale(o, shrink);\n",
    ),)),
    "hidden tiles are multiplied": Variant(_F, ((
        "seen = task.seen<CAUSAL>(row);", "seen = task.tiles;"),)),
    "head after head": Variant(_F, (
        ("CAUSAL ? i % all.heads : i / tiles_of_head", "i / tiles_of_head"),
        ("CAUSAL ? tiles_of_head - 1 - i / all.heads : i % tiles_of_head",
         "CAUSAL ? tiles_of_head - 1 - i % tiles_of_head : i % tiles_of_head"),
    )),
    "a warp barrier before each arrival": Variant(_F, ((
        "release(unsigned long long* empty) {\n",
        "release(unsigned long long* empty) {\n    __syncwarp();\n"),)),
    "one task at a time": Variant(_F, (("int TASKS = 2;", "int TASKS = 1;"),)),
    "an eighth by polynomial, four groups": Variant(_F, _ONE_IN_EIGHT_LEAN),
    "the last, no exponentials": Variant(_F, ((
        _WEIGH + _EX2, _WEIGH + "s[i] * factor - base[i / 2 % 2];"),), right=False),
}  # fmt: skip
"""What is tried beside the ladder."""


EXPECTED = {
    "no named barriers": "slower, for want of an order",
    "turns given after the scores": "slower: the other group's products begin later",
    "stores of 4 bytes": "slower for short sequences",
    "tiles of 128 keys": "slower: more passes, each with its waits",
    "two groups": "control: what is the third group worth?",
    "rescaled where the maximum moves": "faster: it moves seldom after the first tiles",
    "an eighth by polynomial": "faster for heads of 64",
    "maximum of two floats": "slower",
    "the softmax of before": "slower",
    "one group fewer, tiles of 128 keys": "slower: there is less that could hide a wait",
    "named barriers": "slower: four groups wait for their turns",
    "exponentials before the wait": "faster: more lies under the product",
    "hidden tiles are multiplied": "slower where causal",
    "head after head": "slower where causal: the last tiles are long ones",
    "a warp barrier before each arrival": "slower",
    "one task at a time": "slower: the next queries come late",
    "an eighth by polynomial, four groups": "faster for heads of 64",
}
"""What we expected of each change whose results are right."""


def variants(rung: str, right: bool = True) -> list[str]:
    """The variants of a rung whose results are right, or those whose are not."""
    return [name for name, each in VARIANTS.items()
            if each.kernel == LADDER[rung] and each.right == right]  # fmt: skip


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
