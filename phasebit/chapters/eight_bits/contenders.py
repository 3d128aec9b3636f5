"""What is measured: the kernels, what is tried beside them, and copies with clock stamps: texts."""

from __future__ import annotations

from phasebit import files
from phasebit.edits import replace_each

KERNELS = {
    "one scale": "a_one_scale",
    "block scales": "b_block_scales",
    "two parts": "c_two_parts",
    "unrolled": "d_unrolled",
}
"""Contender -> its file."""

A, B, C, D = KERNELS.values()
E, F = "e_pairs", "f_scales_in_slot"

Edits = tuple[tuple[str, str], ...]


def _pieces(count: int) -> Edits:
    """Promotion after 128 / ``count`` along K."""
    each = 4 // count
    return (
        ("Stage<BN>& stage, int group, int half) {",
         "Stage<BN>& stage, int group, int half, int piece) {"),
        ("    for (int k = 0; k < BK / 32; ++k)  // 32 along K are 32 bytes\n",
         f"    for (int k = piece * {each}; k < (piece + 1) * {each}; ++k)\n"),
        ("b + 2 * k, k > 0);", f"b + 2 * k, k > piece * {each});"),
        ("            for (int half = 0; half < 2; ++half) {\n                Part part;\n",
         f"            for (int n = 0; n < 2 * {count}; ++n) {{\n"
         f"                const int half = n / {count};\n                Part part;\n"),
        ("ring.stage[s], group, half);", f"ring.stage[s], group, half, n % {count});"),
        ("                if (half == 1) {\n", f"                if (n == 2 * {count} - 1) {{\n"),
    )  # fmt: skip


_HALVES: Edits = (
    ("    const auto b = ptx::descriptor_128B(stage.b);\n"
     "    for (int k = 0; k < BK / 32; ++k)  // 32 along K are 32 bytes\n"
     "        ptx::wgmma_m64n256k32(sums, a + 2 * k, b + 2 * k, add || k > 0);\n",
     "    for (int half = 0; half < 2; ++half) {\n"
     "        const auto b = ptx::descriptor_128B(stage.b + half * 128 * BK);\n"
     "        float (&part)[64] = *reinterpret_cast<float (*)[64]>(sums + 64 * half);\n"
     "        for (int k = 0; k < BK / 32; ++k)\n"
     "            ptx::wgmma_m64n128k32(part, a + 2 * k, b + 2 * k, add || k > 0);\n"
     "    }\n"),
)  # fmt: skip
_AHEAD: Edits = (
    ("            const float b[2] = {of_half[0][k], of_half[1][k]};  "
     "// before the wait: it takes time\n",
     "            const float b[2] = {next[0], next[1]};\n"
     "            next[0] = of_half[0][min(k + 1, blocks - 1)];\n"
     "            next[1] = of_half[1][min(k + 1, blocks - 1)];\n"),
    ("        Part sums[2] = {};\n",
     "        Part sums[2] = {};\n        float next[2] = {of_half[0][0], of_half[1][0]};\n"),
)  # fmt: skip
_LATE: Edits = (
    ("        Part sums[2] = {};\n",
     "        Part sums[2] = {};\n"
     "        for (const long long t = clock64(); group == 1 && clock64() - t < 250;) {}\n"),
)  # fmt: skip
_TURNS: Edits = (
    ("tiles.K), last = Product::blocks(tiles.N) - 1;\n",
     "tiles.K), last = Product::blocks(tiles.N) - 1;\n"
     '    if (group == 1) asm volatile("bar.arrive 1, 256;" ::: "memory");\n'),
    ("                Part part;\n                ptx::wgmma_fence();\n",
     "                Part part;\n"
     '                asm volatile("bar.sync %0, 256;" :: "r"(1 + group) : "memory");\n'
     "                ptx::wgmma_fence();\n"),
    ("                begin_multiply(part, ring.stage[s], group, half);\n",
     "                begin_multiply(part, ring.stage[s], group, half);\n"
     '                asm volatile("bar.arrive %0, 256;" :: "r"(2 - group) : "memory");\n'),
    ("    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must",
     '    if (group == 0) asm volatile("bar.sync 1, 256;" ::: "memory");\n'
     "    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must"),
)  # fmt: skip
_EACH_LANE: Edits = (
    ("        // Every lane takes the first one's number: the compiler then knows that it is one a "
     "warp.\n", ""),
    ("__shfl_sync(~0u, threadIdx.x / 128, 0)", "threadIdx.x / 128"),
)
_SHARED: Edits = (
    ("    float scales[SLOTS][BM];  // of A\n",
     "    float scales[SLOTS][BM];  // of A\n    float b_scales[2][128];   // of B\n"),
    ("        Part sums[2] = {};\n",
     '        asm volatile("bar.sync 1, %0;" :: "n"(CONSUMERS) : "memory");\n'
     "        for (int half = 0; half < 2; ++half)\n"
     "            for (int k = threadIdx.x; k < blocks; k += CONSUMERS)\n"
     "                ring.b_scales[half][k] = of_half[half][k];\n"
     '        asm volatile("bar.sync 1, %0;" :: "n"(CONSUMERS) : "memory");\n'
     "        Part sums[2] = {};\n"),
    ("            const float b[2] = {of_half[0][k], of_half[1][k]};  "
     "// before the wait: it takes time\n",
     "            const float b[2] = {ring.b_scales[0][k], ring.b_scales[1][k]};\n"),
)  # fmt: skip
_THREE: Edits = (("SLOTS = 4;", "SLOTS = 3;"),)
VARIANTS: dict[str, tuple[str, Edits]] = {
    "one scale, halves of 128": (A, _HALVES),
    "promotion without scales": (B, (("part[i] * (i / 2 % 2 ? below : scale)", "part[i]"),)),
    "half of the sums promoted": (
        B,
        (("for (int i = 0; i < HALF / 2; ++i) sums", "for (int i = 0; i < HALF / 4; ++i) sums"),),
    ),
    "promotion every 64": (B, _pieces(2)),
    "promotion every 32": (B, _pieces(4)),
    "scales of B a step ahead": (B, _AHEAD),
    "one consumer begins late": (B, _LATE),
    "consumers take turns": (B, _TURNS),
    "three slots": (B, _THREE),
    "three slots, scales of B in shared memory": (B, _THREE + _SHARED),
    "unrolled, descriptors by lane": (D, _EACH_LANE),
    "unrolled, scales of B in shared memory": (D, _SHARED),
}
"""What is tried beside the kernels -> the file, and what is replaced by what in it."""

CONTROLS = ("promotion without scales", "half of the sums promoted")
"""Variants whose results are wrong: they leave something out, to tell what it costs."""

# Clock stamps of one thread of each consumer: for each half of a step when it has begun to
# multiply, when the sums are there, and when they are promoted; two places are left.
PLACES = ("begun", "there", "promoted")
_HERE = "if (blockIdx.x == 0 && n == 0) stamp"
STAMPED: Edits = (
    ("                begin_multiply(part, ring.stage[s], group, half);\n",
     "                begin_multiply(part, ring.stage[s], group, half);\n"
     f"                {_HERE}(0, 0, 2 * k + half); "
     "if (blockIdx.x == 0 && n == 0) stamp(128, 4, 2 * k + half);\n"),
    ("                ptx::wgmma_wait_group<0>();\n",
     "                ptx::wgmma_wait_group<0>();\n"
     f"                {_HERE}(0, 1, 2 * k + half); {_HERE}(128, 5, 2 * k + half);\n"),
    ("below * b[half]);\n",
     "below * b[half]);\n"
     f"                {_HERE}(0, 2, 2 * k + half); {_HERE}(128, 6, 2 * k + half);\n"),
    ("        Part sums[2] = {};\n",
     "        Part sums[2] = {};\n"
     "        if (threadIdx.x + blockIdx.x == 0 && n == 0) stamp_both(0);\n"),
    ("        for (int half = 0; half < 2; ++half)\n            store",
     "        if (threadIdx.x + blockIdx.x == 0 && n == 0) stamp_both(1);\n"
     "        for (int half = 0; half < 2; ++half)\n            store"),
)  # fmt: skip

_READ = """
extern "C" void read_stamps(long long* places, long long* span) {
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpyFromSymbol(places, stamps, sizeof stamps));
    CHECK(cudaMemcpyFromSymbol(span, stamp_span, sizeof stamp_span));
}
"""


def source(kernel: str) -> str:
    """The text of a kernel of the chapter."""
    return files.kernel(f"eight_bits/{kernel}")


def variant(name: str) -> str:
    """The text of a variant; raises ``ValueError`` when its file does not say what is changed."""
    kernel, edits = VARIANTS[name]
    return replace_each(source(kernel), edits, f"{kernel}.cu")


def stamped() -> str:
    """The kernel with block scales, with stamps in it; raises as :func:`variant` does."""
    text = replace_each(source(B), STAMPED, f"{B}.cu")
    return '#include "stamps.cuh"\n' + text + _READ
