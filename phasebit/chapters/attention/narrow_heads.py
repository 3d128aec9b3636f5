"""Heads of 64: what might have made the last rung faster, each alone.

By the count of bytes the scores' product is bound by shared memory: at 64 keys it reads as many
bytes of Q as of K. Q in registers halves that. And where attention is causal, the group with the
first queries of a tile sees fewer keys than the last one does; when groups take other queries of
each next tile, all see equally many. The same number of groups needs the registers, too.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.attention import attend, launched, rungs
from phasebit.chapters.attention.rungs import HEADS, TOKENS
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks

NAME = "attention_narrow_heads"
D = 64
CASES = tuple((causal, length) for causal in (False, True) for length in (1024, 4096))
LAST = "dynamic"
_ROUNDS, _REST, _WARM, _EACH = 8, 0.01, 2, 4

_PRODUCT = """\
// wgmma.mma_async, 9.7.15.5.2: begin d (64, 64) = a (64, 16) · b (16, 64), or + d; a in registers,
// as of the second product, b K-major in shared memory. sm_90a.
__device__ inline void wgmma_registers(float (&d)[32], const unsigned (&a)[4],
                                       unsigned long long b, bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0;\\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 WGMMA_NAMES_4
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
                 : WGMMA_SUMS_4
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}

// A group's 64 queries of 64 columns as operand A, from swizzled rows of 128 bytes.
__device__ void fetch(unsigned (&q)[4][4], const bf16* tile) {
    const int t = threadIdx.x % 128, row = t / 32 * 16 + t % 16;
#pragma unroll
    for (int step = 0; step < 4; ++step)
        ptx::ldmatrix_x4(q[step][0], q[step][1], q[step][2], q[step][3],
                         tile + row * 64 + ((2 * step + t % 32 / 16) ^ row % 8) * 8);
}

template <int KEYS>
__device__ void begin_scores(float (&s)[KEYS / 2], const unsigned (&q)[4][4], const bf16* k) {
    const auto b = ptx::descriptor_128B(k);
#pragma unroll
    for (int step = 0; step < 4; ++step) wgmma_registers(s, q[step], b + 2 * step, step > 0);
    ptx::wgmma_commit_group();
}

// A consumer, one warp group: 64 queries of each task.
"""
_HEAD = "// A consumer, one warp group: 64 queries of each task.\n"
_FIRST = (
    "        begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);\n        ptx::wgmma_wait_group<0>"
)
_NEXT = "            begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);  // of this tile"
_QUERIES = "        const bf16* q = &s.q[t.slot][group * 64 * D];\n"
_ROW = "const int row = task.row + 64 * group,"
_TASKS = "    for (Place<TASKS> t;; t.advance()) {\n"


def _from_registers(line: str) -> tuple[str, str]:
    call = "begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);"
    other = "begin_scores<KEYS>(scores, held, s.k[k.slot]);"
    return line, line.replace(call, f"if constexpr (D == 64) {other}\n        else {call}")


IN_REGISTERS: rungs.Edits = (
    (_HEAD, _PRODUCT),
    (_QUERIES, f"{_QUERIES}        unsigned held[4][4];\n"
               "        if constexpr (D == 64) fetch(held, q);\n"),
    _from_registers(_FIRST),
    _from_registers(_NEXT),
)  # fmt: skip
THREE_GROUPS: rungs.Edits = (("GROUPS = D == 64 ? 4 : 3;", "GROUPS = 3;"),)
IN_TURN: rungs.Edits = (
    (_TASKS, "    int part = group;  // of the tile\n"
             "    for (Place<TASKS> t;; t.advance(), part = part ? part - 1 : GROUPS<D> - 1) {\n"),
    (_QUERIES, _QUERIES.replace("group", "part")),
    (_ROW, _ROW.replace("group", "part")),
)  # fmt: skip


class Tried(NamedTuple):
    """A change of the last rung, and what counts made us expect: written after a first run."""

    edits: rungs.Edits
    expected: str


TRIED = {
    "Q in registers": Tried(IN_REGISTERS, "faster: half of the bytes from shared memory"),
    "three groups": Tried(THREE_GROUPS, "slower: less to hide what a group waits for"),
    "three groups, Q in registers": Tried(
        THREE_GROUPS + IN_REGISTERS, "faster than three groups: their registers suffice"),
    "groups in turn": Tried(IN_TURN, "faster where causal: all see equally many keys"),
}  # fmt: skip
"""Name -> what is tried."""


def text(name: str) -> str:
    """The last rung, or what is tried of it."""
    edits = TRIED[name].edits if name in TRIED else ()
    return replace_each(attend.flat(attend.DYNAMIC), edits, name)


def build(name: str) -> toolchain.Build:
    """A contender as a library."""
    return toolchain.build(text(name), name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    loaded = clocks.libraries(build, [LAST, *TRIED])
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
            "inputs": f"normal random bf16 numbers, {HEADS} heads of {D}, {TOKENS} tokens in all",
            "check": "before timing, all of the output against cuDNN's, within 0.02 + 2 per cent",
            "rivals": f"torch {torch.__version__}, scaled_dot_product_attention with the backend "
            "of cuDNN and with the one of FlashAttention-2, same process, by turns",
        },
        "times": [_side_by_side(torch, loaded, causal, length) for causal, length in CASES],
    }


def _side_by_side(
    torch: Any, loaded: dict[str, ctypes.CDLL], causal: bool, length: int
) -> dict[str, Any]:
    shape = (TOKENS // length, HEADS, length, D)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    tensors = q, k, v, torch.empty_like(q)
    launches = {name: launched.ours(torch, each, tensors, causal) for name, each in loaded.items()}
    rivals = launched.torchs(torch, tensors, causal)
    right = rivals[rungs.CUDNN]()
    for name, launch in launches.items():
        tensors[3].fill_(float("nan"))
        launch()
        if not bool(((tensors[3] - right).abs() <= 0.02 + 0.02 * right.abs()).all()):
            raise toolchain.CudaError(f"{name} differs from cuDNN's attention for heads of {D}")
    found = clocks.times(torch, launches | rivals, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    return {"d": D, "causal": causal, "sequence": length, "contenders": found}
