"""The ladder's kernels and what is tried beside them: texts."""

from __future__ import annotations

from typing import NamedTuple

from phasebit.chapters.attention import kernels
from phasebit.edits import replace_each

LADDER = {
    "one group": kernels.ONE_GROUP,
    "ping-pong": kernels.PING_PONG,
    "overlapped": kernels.OVERLAPPED,
    "blocks that stay": kernels.PERSISTENT,
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


_C, _D = kernels.OVERLAPPED, kernels.PERSISTENT
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

VARIANTS = {
    "no named barriers": Variant(_D, (
        ("{ ptx::bar_sync(1 + group, 2 * 128); }", "{}"),
        ("    ptx::bar_arrive(1 + (group + 1) % GROUPS<D>, 2 * 128);\n", ""),
    )),
    "turns given after the scores": Variant(_D, ((
        "        give_turn<D>(group);\n        ptx::wgmma_wait_group<1>();\n"
        "        settle(scores);\n",
        "        ptx::wgmma_wait_group<1>();\n        settle(scores);\n"
        "        give_turn<D>(group);\n",
    ),)),
    "stores of 4 bytes": Variant(_D, (("store_wide(o", "store(o"),)),
    "tiles of 128 keys": Variant(_D, (("D == 64 ? 128 : 176", "128"),)),
    "two groups": Variant(_D, (("D == 64 ? 3 : 2", "2"),)),
    "rescaled where the maximum moves": Variant(_D, ((
        _RESCALE,
        "if (__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1)) " + _RESCALE,
    ),)),
    "an eighth by polynomial": Variant(_D, (
        (_SOFTMAX, _POLYNOMIAL + _SOFTMAX),
        (_EX2, f"i % 8 == 7 ? polynomial(s[i] * factor - base[i / 2 % 2]) : {_EX2}"),
        ("whole == 0 ?", "whole < 0.5f ?"),
    )),
    "no exponentials": Variant(_D, ((_EX2, "s[i] * factor - base[i / 2 % 2];"),), right=False),
    "products alone": Variant(_D, ((
        "        softmax.step(scores, shrink, shape.factor);  // while",
        "        shrink[0] = shrink[1] = 1;  // while",
    ),), right=False),
}  # fmt: skip
"""What is tried beside the ladder."""


def text(name: str) -> str:
    """The source of a rung or of a variant, the chapter's header in it."""
    if name in LADDER:
        return kernels.flat(LADDER[name])
    variant = VARIANTS[name]
    return replace_each(kernels.flat(variant.kernel), variant.edits, name)
