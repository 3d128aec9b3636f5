"""What a narrow instruction costs: by width, by how many sums take turns, by warp groups.

``rate.cu`` with more of each: an instruction 24 wide, sums of one kind or of two and four that take
turns, and up to four warp groups.
"""

from __future__ import annotations

import re
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.edits import replace_each
from phasebit.instruments import programs

NAME = "warpgroup_narrow"
KERNEL = "warpgroup_products/rate"
WIDTHS = (8, 16, 24, 32, 64)
SUMS = (1, 2, 4)
GROUPS = (1, 2, 4)
MEMORY = ("shared", "registers")

_WIDE_24 = """
#define PTX_D12(d, i) PTX_D8(d, i), PTX_D4(d, i + 8)
#define PTX_S12 PTX_S8 ", %11, %12, %13, %14"
#define PTX_R12 PTX_R8 ", %14, %15, %16, %17"
namespace ptx {
PTX_WGMMA(24, 12, PTX_S12, PTX_R12, 15, 16, 17, 18, 19)
}
"""
_EACH = """template <int N, int GROUPS, int SUMS> void both(const Bench& x, bool ones) {
    run<N, false, GROUPS, SUMS>(x, ones);
    run<N, true, GROUPS, SUMS>(x, ones);
}
template <int N, int GROUPS> void sums(const Bench& x, bool ones) {
    both<N, GROUPS, 1>(x, ones), both<N, GROUPS, 2>(x, ones), both<N, GROUPS, 4>(x, ones);
}
template <int N> void each(const Bench& x, bool ones) {
    sums<N, 1>(x, ones), sums<N, 2>(x, ones);
    if constexpr (N < 64) sums<N, 4>(x, ones);
}
void all(const Bench& x, bool ones) {
    if (timing::emulated()) return run<24, true, 1, 2>(x, ones);
    each<8>(x, ones), each<16>(x, ones), each<24>(x, ones), each<32>(x, ones), each<64>(x, ones);
}
"""


def text() -> str:
    """The program; raises ``ValueError`` where an edit does not fit."""
    given = files.kernel(KERNEL)
    begin = given.index("template <int N, bool REGISTERS, int GROUPS> void both")
    end = given.index("int main")
    edits = (
        (given[begin:end], _EACH + "\n"),
        ("using bf16 =", f"{_WIDE_24}using bf16 ="),
        ("template <int N, bool REGISTERS, int GROUPS, int PENDING>\n__global__",
         "template <int N, bool REGISTERS, int GROUPS, int SUMS>\n__global__"),
        ("template <int N, bool REGISTERS, int GROUPS, int PENDING>\nvoid run",
         "template <int N, bool REGISTERS, int GROUPS, int SUMS>\nvoid run"),
        ("constexpr int SHARED = 2 * TILE_A + TILE_B;",
         "constexpr int SHARED = 4 * TILE_A + TILE_B;"),
        ("memory + 2 * TILE_A", "memory + 4 * TILE_A"),
        ("    float d[N / 2] = {};", "    float d[SUMS][N / 2] = {};"),
        ("ptx::wgmma_a(d,", "ptx::wgmma_a(d[i % SUMS],"),
        ("ptx::wgmma(d,", "ptx::wgmma(d[i % SUMS],"),
        ("wgmma_wait_group<PENDING>", "wgmma_wait_group<1>"),
        ("    for (int i = 0; i < N / 2; ++i) mine[i] = d[i];",
         "    for (int i = 0; i < N / 2; ++i) {\n        mine[i] = 0;\n"
         "        for (int s = 0; s < SUMS; ++s) mine[i] += d[s][i];\n    }"),
        ("auto* kernel = rate<N, REGISTERS, GROUPS, PENDING>;",
         "auto* kernel = rate<N, REGISTERS, GROUPS, SUMS>;"),
        ('printf("⏱ N=%d A=%s groups=%d pending=%d %.1f\\n", N, REGISTERS ? "registers" : '
         '"shared",\n               GROUPS, PENDING, flop / cycles[cycles.size() / 2]);',
         'printf("⏱ N=%d A=%s groups=%d sums=%d %.3f\\n", N, REGISTERS ? "registers" : "shared",\n'
         "               GROUPS, SUMS,\n"
         "               double(cycles[cycles.size() / 2]) / (BATCH * x.batches * GROUPS));"),
        ("size_t(x.blocks) * 256 * 128 * sizeof(float)",
         "size_t(x.blocks) * 512 * 128 * sizeof(float)"),
        ("const double flop = 2.0 * 64 * N * 16 * BATCH * x.batches * GROUPS;\n", ""),
    )  # fmt: skip
    return replace_each(given, edits, KERNEL)


def build() -> toolchain.Build:
    """Compiled for this machine's GPU."""
    return toolchain.build(text(), name=NAME)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; raises :class:`toolchain.CudaError` when there is none."""
    facts = measure.facts()
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "cycles": "rate.cu, one block on each multiprocessor, tiles of normal random bf16 "
            "numbers that stay in shared memory, 500 batches of 16 instructions, one batch under "
            "way when the next is begun; a run on ones, whose sums are compared, goes before and "
            "does not count; cycles of a multiprocessor for an instruction, by its own clock, of "
            "the median multiprocessor in each of 9 rounds",
            "sums": "how many sums of a warp group take turns: an instruction adds to the sums "
            "that so many instructions before it added to",
            "groups": "warp groups; cycles are those of the multiprocessor, for one instruction of "
            "any of them",
        },
        "cycles": read(programs.output(build().program, "time")),
    }


def read(said: str) -> list[dict[str, Any]]:
    """An entry for each kernel: ``n``, ``a``, ``groups``, ``sums`` and ``cycles`` of each round."""
    found: dict[tuple[int, str, int, int], list[float]] = {}
    pattern = r"^⏱ N=(\d+) A=(\w+) groups=(\d) sums=(\d) (\S+)$"
    for n, a, groups, sums, cycles in re.findall(pattern, said, re.MULTILINE):
        found.setdefault((int(n), a, int(groups), int(sums)), []).append(float(cycles))
    return [
        {"n": n, "a": a, "groups": groups, "sums": sums, "cycles": each}
        for (n, a, groups, sums), each in found.items()
    ]
