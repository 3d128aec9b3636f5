"""Products while the copy engine writes other parts of shared memory: do they share its bytes?

``rate.cu`` with a warp more, of a group of its own as in chapter 17's ring. It has bulk copies
brought from L2 at so many bytes a cycle. The products read tiles that nobody writes, and the copies
land where nobody reads.
"""

from __future__ import annotations

import re
import statistics
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.edits import replace_each
from phasebit.instruments import programs

NAME = "warpgroup_copies"
KERNEL = "warpgroup_products/rate"
WIDTHS = (32, 64, 128, 256)
MEMORY = ("shared", "registers")
RATES = (0, 16, 32, 48, 64, -1)
"""Bytes a cycle that are asked for; -1: as fast as they come."""
BLOCKS = (132, 16)
GROUPS = 2

_COPIES = """
constexpr int CHUNK = 8192, SLOTS = 16;  // bytes of a copy; how many may be under way
constexpr int LANDING = CHUNK * SLOTS;   // where they land, behind the tiles
constexpr int FAST = -1;                 // a rate: as fast as they come

__device__ bool over(unsigned long long* barrier) {  // has its first phase completed?
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0;\\n"
                 "selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(ptx::shared_address(barrier)) : "memory");
    return done;
}

// One thread: copies of CHUNK bytes, RATE bytes a cycle, until the products are over, and each slot
// at least twice. counted: its cycles until the last copy has landed, and its bytes.
__device__ void copy(unsigned char* landing, const unsigned char* source, unsigned long long* full,
                     unsigned long long* ended, int rate, long long* counted) {
    long long copies = 0;
    const long long begin = clock64();
    while (rate && (copies < 2 * SLOTS || !over(ended))) {
        if (rate > 0 && (clock64() - begin) * rate < copies * CHUNK) continue;
        const int s = copies % SLOTS;
        if (copies >= SLOTS) ptx::mbarrier_wait(&full[s], (copies / SLOTS + 1) % 2);
        ptx::mbarrier_arrive_expect_tx(&full[s], CHUNK);
        ptx::cp_async_bulk_load(landing + s * CHUNK, source + s * CHUNK, CHUNK, &full[s]);
        ++copies;
    }
    for (long long n = copies < SLOTS ? 0 : copies - SLOTS; n < copies; ++n)
        ptx::mbarrier_wait(&full[n % SLOTS], n / SLOTS % 2);
    counted[0] = clock64() - begin, counted[1] = copies * CHUNK;
}

"""
_COPIER = """    if (threadIdx.x >= GROUPS * 128) {
        ptx::setmaxnreg_dec<40>();
        if (threadIdx.x >= GROUPS * 128 + 32) return;
        unsigned char* landing = memory + SHARED;
        const unsigned char* from = source + size_t(blockIdx.x) * LANDING;
        if (threadIdx.x == GROUPS * 128)
            copy(landing, from, full, &ended, speed, cycles + 3 * blockIdx.x + 1);
        __syncwarp();
        if (!wrong) return;  // where copies are checked: what has come must be what was to come
        const long long come = speed ? cycles[3 * blockIdx.x + 2] : 0;
        const int bytes = come < LANDING ? int(come) : LANDING;
        for (int i = 4 * (threadIdx.x % 32); i < bytes; i += 128)
            if (*reinterpret_cast<unsigned*>(landing + i)
                != *reinterpret_cast<const unsigned*>(from + i)) atomicAdd(wrong, 1);
        return;
    }
    ptx::setmaxnreg_inc<232>();
"""
_MANY = """using Each = std::vector<std::function<void(const Bench&, bool)>>;
template <int N, bool REGISTERS> void add(Each& runs) {
    for (int speed : {0, 16, 32, 48, 64, FAST})
        for (int blocks : {132, 16})
            runs.push_back([=](const Bench& x, bool ones) {
                Bench mine = x;
                mine.speed = speed;
                if (!timing::emulated()) mine.blocks = blocks;
                run<N, REGISTERS, 2, 1>(mine, ones);
            });
}
template <int N> void both(Each& runs) { add<N, false>(runs), add<N, true>(runs); }
Each every() {
    Each runs;
    both<64>(runs);
    if (timing::emulated()) return runs;
    both<32>(runs), both<128>(runs), both<256>(runs);
    return runs;
}

"""


def text() -> str:
    """The program; raises ``ValueError`` where an edit does not fit."""
    given = files.kernel(KERNEL)
    begin = given.index("template <int N, bool REGISTERS, int GROUPS> void both")
    end = given.index("int main")
    edits = (
        (given[begin:end], _MANY),
        ("#include <cuda_bf16.h>\n", "#include <cuda_bf16.h>\n#include <functional>\n"),
        ("constexpr int SHARED = 2 * TILE_A + TILE_B;\n",
         "constexpr int SHARED = 2 * TILE_A + TILE_B;\n" + _COPIES),
        ("__launch_bounds__(GROUPS * 128)", "__launch_bounds__(GROUPS * 128 + 128, 1)"),
        ("     long long* __restrict__ cycles,    // (blocks)\n     int batches)\n",
         "     long long* cycles,  // (blocks, 3): of the products, of the copies; bytes copied\n"
         "     int batches, const unsigned char* source, int speed, unsigned* wrong)\n"),
        ("memory[];\n",
         "memory[];\n    __shared__ unsigned long long full[SLOTS], ended;\n"
         "    if (threadIdx.x == 0) {\n"
         "        for (int s = 0; s < SLOTS; ++s) ptx::mbarrier_init(&full[s], 1);\n"
         "        ptx::mbarrier_init(&ended, GROUPS);\n"
         "        ptx::fence_mbarrier_init();\n    }\n"),
        ("    __syncthreads();\n", "    __syncthreads();\n" + _COPIER),
        ("    const long long end = clock64();\n",
         "    const long long end = clock64();\n"
         "    if (threadIdx.x % 128 == 0) ptx::mbarrier_arrive(&ended);\n"),
        ("cycles[blockIdx.x] = end - begin;", "cycles[3 * blockIdx.x] = end - begin;"),
        ("blockIdx.x) * blockDim.x + threadIdx.x)",
         "blockIdx.x) * GROUPS * 128 + threadIdx.x)"),
        ("    long long* cycles;\n};",
         "    long long* cycles;\n    unsigned char* source;\n    unsigned* wrong;\n"
         "    int speed;\n};"),
        ("cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED)",
         "cudaFuncAttributeMaxDynamicSharedMemorySize,\n"
         "                               SHARED + LANDING)"),
        ("kernel<<<x.blocks, GROUPS * 128, SHARED>>>(x.values, x.out, x.cycles, x.batches);",
         "CHECK(cudaMemset(x.cycles, 0, x.blocks * 3 * sizeof(long long)));\n"
         "    kernel<<<x.blocks, GROUPS * 128 + 128, SHARED + LANDING>>>(\n"
         "        x.values, x.out, x.cycles, x.batches, x.source, x.speed,\n"
         "        ones ? x.wrong : nullptr);"),
        ("    std::vector<long long> cycles(x.blocks);\n"
         "    CHECK(cudaMemcpy(cycles.data(), x.cycles, x.blocks * sizeof(long long),\n",
         "    std::vector<long long> seen(3 * x.blocks), cycles;\n"
         "    CHECK(cudaMemcpy(seen.data(), x.cycles, x.blocks * 3 * sizeof(long long),\n"),
        ("        std::sort(cycles.begin(), cycles.end());\n",
         "        std::vector<double> bytes;\n"
         "        for (int n = 0; n < x.blocks; ++n) {\n"
         "            cycles.push_back(seen[3 * n]);\n"
         "            bytes.push_back(x.speed ? double(seen[3 * n + 2]) / seen[3 * n + 1] : 0);\n"
         "        }\n"
         "        std::sort(bytes.begin(), bytes.end());\n"
         "        std::sort(cycles.begin(), cycles.end());\n"),
        ("        const double flop = 2.0 * 64 * N * 16 * BATCH * x.batches * GROUPS;\n", ""),
        ('printf("⏱ N=%d A=%s groups=%d pending=%d %.1f\\n", N, REGISTERS ? "registers" : '
         '"shared",\n               GROUPS, PENDING, flop / cycles[cycles.size() / 2]);',
         'printf("⏱ N=%d A=%s blocks=%d asked=%d %.3f %.3f\\n", N,\n'
         '               REGISTERS ? "registers" : "shared", x.blocks, x.speed,\n'
         "               double(cycles[cycles.size() / 2]) / (BATCH * x.batches * GROUPS),\n"
         "               bytes[bytes.size() / 2]);"),
        ("    std::vector<float> got(results);\n",
         "    unsigned wrong;\n"
         "    CHECK(cudaMemcpy(&wrong, x.wrong, sizeof wrong, cudaMemcpyDeviceToHost));\n"
         "    if (wrong || (x.speed && seen[2] < CHUNK)) {\n"
         '        printf("rate: WRONG, %u words copied badly, %lld bytes of the first block\\n",\n'
         "               wrong, seen[2]);\n        exit(2);\n    }\n"
         "    std::vector<float> got(results);\n"),
        ("    CHECK(cudaMalloc(&x.cycles, x.blocks * sizeof(long long)));\n",
         "    CHECK(cudaMalloc(&x.cycles, x.blocks * 3 * sizeof(long long)));\n"
         "    CHECK(cudaMalloc(&x.wrong, sizeof *x.wrong));\n"
         "    CHECK(cudaMemset(x.wrong, 0, sizeof *x.wrong));\n"
         "    std::vector<unsigned> words(size_t(x.blocks) * LANDING / 4);\n"
         "    std::mt19937 bits(17);\n"
         "    for (unsigned& each : words) each = bits();\n"
         "    CHECK(cudaMalloc(&x.source, words.size() * 4));\n"
         "    CHECK(cudaMemcpy(x.source, words.data(), words.size() * 4,\n"
         "                     cudaMemcpyHostToDevice));\n"),
        ("    all(x, true);\n",
         "    Each runs = every();\n    for (auto& run : runs) run(x, true);\n"),
        ("round < 9; ++round) all(x, false);",
         "round < 9; ++round) {\n        std::shuffle(runs.begin(), runs.end(), random);\n"
         "        for (auto& run : runs) run(x, false);\n    }"),
    )  # fmt: skip
    return replace_each(given, edits, KERNEL)


def build() -> toolchain.Build:
    """Compiled for this machine's GPU."""
    return toolchain.build(text(), name=NAME)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; raises :class:`toolchain.CudaError` when there is none."""
    facts = measure.facts()
    found = read(programs.output(build().program, "time"))
    for row in found:
        cycles, arrived = (statistics.median(row[what]) for what in ("cycles", "arrived"))
        print(f"⏱ N = {row['n']}, A in {row['a']}, {row['blocks']} blocks, asked for "
              f"{row['asked']}: {cycles:.1f} cycles, {arrived:.1f} bytes a cycle")  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "cycles": "rate.cu, two warp groups, one batch under way when the next is begun, tiles "
            "of normal random bf16 numbers that stay in shared memory, 500 batches of 16 "
            "instructions of each group; cycles of a multiprocessor for an instruction, by its own "
            "clock, of the median multiprocessor in each of 9 rounds, in a new random order",
            "check": "a run on ones, whose sums are compared, goes before and does not count; in "
            "it what was copied is compared with its source, word by word",
            "asked": "bytes a cycle that one thread of a warp of its own has brought from L2, by "
            "bulk copies of 8192 bytes, at most 16 under way, to a place of shared memory that no "
            "product reads; -1: as fast as they come",
            "arrived": "bytes of the copies over the cycles from their begin to the last one's "
            "end, of the median multiprocessor; each block has a source of its own of 128 KiB",
            "blocks": "how many blocks run, each on a multiprocessor of its own",
        },
        "rows": found,
    }


def read(said: str) -> list[dict[str, Any]]:
    """An entry for each kernel and rate: ``cycles`` and ``arrived`` of each round."""
    found: dict[tuple[int, str, int, int], tuple[list[float], list[float]]] = {}
    pattern = r"^⏱ N=(\d+) A=(\w+) blocks=(\d+) asked=(-?\d+) (\S+) (\S+)$"
    for n, a, blocks, asked, cycles, arrived in re.findall(pattern, said, re.MULTILINE):
        key = int(n), a, int(blocks), int(asked)
        for values, value in zip(found.setdefault(key, ([], [])), (cycles, arrived), strict=True):
            values.append(float(value))
    return [
        {"n": n, "a": a, "blocks": blocks, "asked": asked, "cycles": cycles, "arrived": arrived}
        for (n, a, blocks, asked), (cycles, arrived) in sorted(found.items())
    ]
