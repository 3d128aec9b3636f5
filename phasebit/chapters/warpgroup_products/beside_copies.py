"""Products while the copy engine writes other parts of shared memory: do they share its bytes?

``rate.cu`` with a producer's warps more, of a group of their own as in *The ring at full width*.
They have copies brought from L2, so many bytes a cycle or as fast as they come, by bulk copies or
as boxes of a tensor map. The products read tiles that nobody writes, and the copies land where
nobody reads.
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
FAST, DRY = -1, -2
"""What else is asked for: as fast as they come; looks at the clock and no copies."""
RATES = (0, DRY, 16, 32, 48, 64, FAST)
"""Bytes a cycle that are asked for."""
BLOCKS = (132, 16)
GROUPS = 2

_COPIES = """
constexpr int LANDING = 128 * 1024;  // where copies land, behind the tiles; so much is under way
constexpr int SLOTS_MOST = LANDING / 8192;
constexpr int FAST = -1, DRY = -2;   // rates: as fast as they come; the pace of 48, and no copies

// How copies are brought: as boxes of a tensor map or in bulk, so many bytes each, by one warp or
// two in turn, and from the same source for all blocks or from a source for each.
struct Way {
    int boxes, bytes, warps, same;
};

__device__ bool over(unsigned long long* barrier) {  // has its first phase completed?
    unsigned done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0;\\n"
                 "selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(ptx::shared_address(barrier)) : "memory");
    return done;
}

// One thread of warp `warp`: its copies, `rate` bytes a cycle of all warps, until the products are
// over, and each slot at least twice. counted: cycles until its last copy has landed, its bytes.
__device__ void copy(unsigned char* landing, const unsigned char* source, const CUtensorMap& map,
                     int row, unsigned long long* full, unsigned long long* ended, Way way,
                     int rate, int warp, long long* counted) {
    const int slots = LANDING / way.bytes, pace = rate == DRY ? 48 : rate;
    int s = warp, round = 0;
    long long n = warp;  // the copy's number, of those of all warps
    const long long begin = clock64();
    for (; n < 2 * slots || !over(ended); n += way.warps) {
        if (pace > 0)
            while ((clock64() - begin) * pace < n * way.bytes) continue;
        if (rate != DRY) {
            if (round) ptx::mbarrier_wait(&full[s], (round + 1) % 2);
            unsigned char* to = landing + s * way.bytes;
            ptx::mbarrier_arrive_expect_tx(&full[s], way.bytes);
            if (way.boxes)
                ptx::cp_async_bulk_tensor_load(to, map, 0, row + s * (way.bytes / 128), &full[s]);
            else ptx::cp_async_bulk_load(to, source + s * way.bytes, way.bytes, &full[s]);
        }
        s += way.warps;
        if (s >= slots) s -= slots, ++round;
    }
    if (rate != DRY)
        for (long long m = n - slots; m < n; m += way.warps)
            ptx::mbarrier_wait(&full[m % slots], m / slots % 2);
    counted[0] = clock64() - begin, counted[1] = rate == DRY ? 0 : n / way.warps * way.bytes;
}

"""
_COPIER = """    if (threadIdx.x >= GROUPS * 128) {
        ptx::setmaxnreg_dec<40>();
        const int warp = threadIdx.x / 32 - GROUPS * 4, lane = threadIdx.x % 32;
        if (warp >= way.warps || speed == 0) return;
        unsigned char* landing = memory + SHARED;
        const int place = way.same ? 0 : blockIdx.x;
        const unsigned char* from = source + size_t(place) * LANDING;
        if (lane == 0)
            copy(landing, from, map, place * (LANDING / 128), full, &ended, way, speed, warp,
                 cycles + 5 * blockIdx.x + 1 + 2 * warp);
        __syncwarp();
        if (!wrong || speed == DRY) return;
        // Where copies are checked: what has come must be what was to come, a box swizzled.
        for (int s = warp; s < LANDING / way.bytes; s += way.warps)
            for (int i = 4 * lane; i < way.bytes; i += 128) {
                const int at = way.boxes ? i ^ i / 128 % 8 * 16 : i;
                if (*reinterpret_cast<unsigned*>(landing + s * way.bytes + at)
                    != *reinterpret_cast<const unsigned*>(from + s * way.bytes + i))
                    atomicAdd(wrong, 1);
            }
        return;
    }
    ptx::setmaxnreg_inc<232>();
"""
_MANY = """constexpr Way RING = {1, 16384, 1, 0};  // boxes of 16 KiB by one thread
constexpr Way WAYS[] = {{0, 8192, 1, 0}, {0, 16384, 1, 0}, {0, 32768, 1, 0}, {0, 8192, 2, 0},
                        {1, 8192, 1, 0}, RING, {1, 32768, 1, 0}, {1, 16384, 2, 0},
                        {1, 16384, 1, 1}};
using Each = std::vector<std::function<void(const Bench&, bool)>>;
template <int N, bool REGISTERS> void add(Each& runs, bool idle) {
    for (int blocks : {132, 16}) {
        auto one = [&](Way way, int speed) {
            runs.push_back([=](const Bench& x, bool ones) {
                Bench mine = x;
                mine.way = way, mine.speed = speed;
                if (idle) mine.batches = 0, mine.rest = timing::emulated() ? 1000 : 300'000;
                if (!timing::emulated()) mine.blocks = blocks;
                run<N, REGISTERS, 2, 1>(mine, ones);
            });
        };
        for (Way way : WAYS) one(way, FAST);
        if (!idle)
            for (int speed : {0, DRY, 16, 32, 48, 64}) one(RING, speed);
    }
}
template <int N> void both(Each& runs) { add<N, false>(runs, false), add<N, true>(runs, false); }
Each every() {
    Each runs;
    add<64, false>(runs, true);
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
        ('#include "timing.cuh"\n', '#include "tensor_map.cuh"\n#include "timing.cuh"\n'),
        ("constexpr int SHARED = 2 * TILE_A + TILE_B;\n",
         "constexpr int SHARED = 2 * TILE_A + TILE_B;\n" + _COPIES),
        ("__launch_bounds__(GROUPS * 128)", "__launch_bounds__(GROUPS * 128 + 128, 1)"),
        ("     long long* __restrict__ cycles,    // (blocks)\n     int batches)\n",
         "     long long* cycles,  // (blocks, 5): of the products; of each copier, and its bytes\n"
         "     int batches, long long rest, const unsigned char* source,\n"
         "     const __grid_constant__ CUtensorMap map, Way way, int speed, unsigned* wrong)\n"),
        ("memory[];\n",
         "memory[];\n    __shared__ unsigned long long full[SLOTS_MOST], ended;\n"
         "    if (threadIdx.x == 0) {\n"
         "        for (int s = 0; s < SLOTS_MOST; ++s) ptx::mbarrier_init(&full[s], 1);\n"
         "        ptx::mbarrier_init(&ended, GROUPS);\n"
         "        ptx::fence_mbarrier_init();\n    }\n"),
        ("    __syncthreads();\n", "    __syncthreads();\n" + _COPIER),
        ("    const long long begin = clock64();\n    for (int batch",
         "    const long long begin = clock64();\n"
         "    while (clock64() - begin < rest) __nanosleep(1000);  // in place of products\n"
         "    for (int batch"),
        ("    const long long end = clock64();\n",
         "    const long long end = clock64();\n"
         "    if (threadIdx.x % 128 == 0) ptx::mbarrier_arrive(&ended);\n"),
        ("cycles[blockIdx.x] = end - begin;", "cycles[5 * blockIdx.x] = end - begin;"),
        ("blockIdx.x) * blockDim.x + threadIdx.x)",
         "blockIdx.x) * GROUPS * 128 + threadIdx.x)"),
        ("    long long* cycles;\n};",
         "    long long* cycles;\n    unsigned char* source;\n    unsigned* wrong;\n"
         "    int placed;  // blocks that have a source\n    long long rest;\n    Way way;\n"
         "    int speed;\n};"),
        ("cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED)",
         "cudaFuncAttributeMaxDynamicSharedMemorySize,\n"
         "                               SHARED + LANDING)"),
        ("kernel<<<x.blocks, GROUPS * 128, SHARED>>>(x.values, x.out, x.cycles, x.batches);",
         "CHECK(cudaMemset(x.cycles, 0, x.blocks * 5 * sizeof(long long)));\n"
         "    const CUtensorMap map =\n"
         "        tensor_map_2d(reinterpret_cast<const bf16*>(x.source),\n"
         "                      x.placed * (LANDING / 128), 64, x.way.bytes / 128, 64,\n"
         "                      CU_TENSOR_MAP_SWIZZLE_128B);\n"
         "    kernel<<<x.blocks, GROUPS * 128 + 128, SHARED + LANDING>>>(\n"
         "        x.values, x.out, x.cycles, x.batches, x.rest, x.source, map, x.way, x.speed,\n"
         "        ones ? x.wrong : nullptr);"),
        ("    std::vector<long long> cycles(x.blocks);\n"
         "    CHECK(cudaMemcpy(cycles.data(), x.cycles, x.blocks * sizeof(long long),\n",
         "    std::vector<long long> seen(5 * x.blocks), cycles;\n"
         "    CHECK(cudaMemcpy(seen.data(), x.cycles, x.blocks * 5 * sizeof(long long),\n"),
        ("        std::sort(cycles.begin(), cycles.end());\n",
         "        std::vector<double> bytes;\n"
         "        for (int n = 0; n < x.blocks; ++n) {\n"
         "            const long long* its = &seen[5 * n];\n"
         "            cycles.push_back(its[0]);\n"
         "            const double took = std::max({1LL, its[1], its[3]});\n"
         "            bytes.push_back((its[2] + its[4]) / took);\n"
         "        }\n"
         "        std::sort(bytes.begin(), bytes.end());\n"
         "        std::sort(cycles.begin(), cycles.end());\n"),
        ("        const double flop = 2.0 * 64 * N * 16 * BATCH * x.batches * GROUPS;\n", ""),
        ('printf("⏱ N=%d A=%s groups=%d pending=%d %.1f\\n", N, REGISTERS ? "registers" : '
         '"shared",\n               GROUPS, PENDING, flop / cycles[cycles.size() / 2]);',
         'printf("⏱ N=%d A=%s blocks=%d boxes=%d bytes=%d warps=%d same=%d asked=%d %.3f %.3f\\n",'
         '\n               x.batches ? N : 0, !x.batches ? "nothing" : REGISTERS ? "registers" : '
         '"shared",\n'
         "               x.blocks, x.way.boxes, x.way.bytes, x.way.warps, x.way.same, x.speed,\n"
         "               !x.batches ? 0.0 : cycles[cycles.size() / 2]\n"
         "                                      / double(BATCH * x.batches * GROUPS),\n"
         "               bytes[bytes.size() / 2]);"),
        ("    std::vector<float> got(results);\n",
         "    unsigned wrong;\n"
         "    CHECK(cudaMemcpy(&wrong, x.wrong, sizeof wrong, cudaMemcpyDeviceToHost));\n"
         "    if (wrong || (x.speed && x.speed != DRY && seen[2] + seen[4] < 2 * LANDING)) {\n"
         '        printf("rate: WRONG, %u words copied badly, %lld bytes of the first block\\n",\n'
         "               wrong, seen[2] + seen[4]);\n        exit(2);\n    }\n"
         "    std::vector<float> got(results);\n"),
        ("    CHECK(cudaMalloc(&x.cycles, x.blocks * sizeof(long long)));\n",
         "    CHECK(cudaMalloc(&x.cycles, x.blocks * 5 * sizeof(long long)));\n"
         "    x.placed = x.blocks;\n"
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
        how = "boxes" if row["boxes"] else "in bulk"
        print(f"⏱ N = {row['n']}, A in {row['a']}, {row['blocks']} blocks, {how}, "
              f"{row['bytes']} bytes by {row['warps']}, {'one source, ' * row['same']}"
              f"asked for {row['asked']}: {cycles:.1f} cycles, "
              f"{arrived:.1f} bytes a cycle")  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "cycles": "rate.cu, two warp groups, one batch under way when the next is begun, tiles "
            "of normal random bf16 numbers that stay in shared memory, 500 batches of 16 "
            "instructions of each group; cycles of a multiprocessor for an instruction, by its own "
            "clock, of the median multiprocessor in each of 9 rounds, in a new random order; n = "
            "0: nothing is multiplied for 300,000 cycles",
            "check": "a run on ones, whose sums are compared, goes before and does not count; in "
            "it what was copied is compared with its source, word by word",
            "copies": "from L2 to a place of shared memory that no product reads, 128 KiB under "
            "way at most; boxes: 64 bf16 wide, by a tensor map, swizzled over 128 bytes, else bulk "
            "copies; bytes of a copy; warps: one thread of each asks, in turn; same: all blocks "
            "copy the same 128 KiB, else each block its own",
            "asked": "bytes a cycle that are asked for; -1: as fast as they come; -2: as for 48, "
            "with its looks at the clock and at the end's barrier, and no copy",
            "arrived": "bytes of the copies over the cycles from their begin to the last one's "
            "end, of the median multiprocessor",
            "blocks": "how many blocks run, each on a multiprocessor of its own",
        },
        "rows": found,
    }


_ROW = re.compile(
    r"^⏱ N=(\d+) A=(\w+) blocks=(\d+) boxes=(\d) bytes=(\d+) warps=(\d) same=(\d) asked=(-?\d+)"
    r" (\S+) (\S+)$",
    re.MULTILINE,
)


def read(said: str) -> list[dict[str, Any]]:
    """An entry for each kernel, way and rate: ``cycles`` and ``arrived`` of each round."""
    found: dict[tuple[Any, ...], tuple[list[float], list[float]]] = {}
    for n, a, *how, cycles, arrived in _ROW.findall(said):
        key = int(n), a, *map(int, how)
        for values, value in zip(found.setdefault(key, ([], [])), (cycles, arrived), strict=True):
            values.append(float(value))
    names = "n", "a", "blocks", "boxes", "bytes", "warps", "same", "asked"
    return [
        {**dict(zip(names, key, strict=True)), "boxes": bool(key[3]), "same": bool(key[6]),
         "cycles": cycles, "arrived": arrived}
        for key, (cycles, arrived) in sorted(found.items())
    ]  # fmt: skip
