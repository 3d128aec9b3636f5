// What the kernels of *Epilogues and groups* share: a ring of slots that two warp groups empty, and
// the way of a tile of C out of their registers. A tile belongs to one warp group, and the two take
// turns (TEAM = 1), or each makes half of every tile (TEAM = 2). Define TEAM, BN, SLOTS
// and BOXES before.
#pragma once
#include "ptx_sm90.cuh"
#include "tensor_map.cuh"

using bf16 = __nv_bfloat16;

constexpr int TURNS = 2 / TEAM;      // tiles that are under way at a time
constexpr int HALVES = 2 / TEAM;     // products of 64 rows that a warp group holds
constexpr int BM = 128;              // rows of a tile of C
constexpr int BK = 64;               // its depth: 128 bytes, a row of the swizzle
constexpr int CONSUMERS = 256, THREADS = CONSUMERS + 128;
constexpr int BOX_ROWS = 16, BOX_COLS = 64;  // what a warp stores at a time

struct Stage {
    alignas(1024) bf16 a[BM * BK];   // the swizzle's pattern has 1024 bytes
    alignas(1024) bf16 b[BN * BK];
};
struct Boxes {
    alignas(1024) bf16 box[BOXES][BOX_ROWS * BOX_COLS];  // of a warp
};
struct Ring {
    Stage stage[SLOTS];
    Boxes boxes[CONSUMERS / 32];
    unsigned long long full[SLOTS], empty[SLOTS];
    unsigned long long turn[2];  // of the warp groups, to multiply
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

__host__ __device__ constexpr int over(int a, int b) { return (a + b - 1) / b; }

// `at` counts the slots that were used, of all tiles of the block.
__device__ inline int slot(int at) { return at % SLOTS; }
__device__ inline bool phase(int at) { return at / SLOTS % 2; }

__device__ inline void begin_ring(Ring& ring) {  // one thread
    for (int s = 0; s < SLOTS; ++s) {
        ptx::mbarrier_init(&ring.full[s], 1);
        ptx::mbarrier_init(&ring.empty[s], TEAM * 4);  // the warps that read it
    }
    for (auto& turn : ring.turn) ptx::mbarrier_init(&turn, 4);  // warps of the other group
}

// The producer, one thread: wait for an empty slot, and say what will come.
__device__ inline Stage& take(Ring& ring, int at) {
    ptx::mbarrier_wait(&ring.empty[slot(at)], !phase(at));
    ptx::mbarrier_arrive_expect_tx(&ring.full[slot(at)], sizeof(Stage));
    return ring.stage[slot(at)];
}

using Sums = float[HALVES][BN / 2];  // of one thread

// Begin d += or = 64 rows of A, times BN rows of B.
__device__ inline void begin(float (&d)[64], unsigned long long a, unsigned long long b, bool add) {
    ptx::wgmma_m64n128k16(d, a, b, add);
}
__device__ inline void begin(float (&d)[128], unsigned long long a, unsigned long long b,
                             bool add) {
    ptx::wgmma_m64n256k16(d, a, b, add);
}

// A consumer, one warp group: tile `tile` of the block, `steps` slots from slot `at` on. A slot is
// given back when the multiplication after it has begun. A barrier's parity is one bit: who waits
// must be at most one phase ahead, so a group waits until the other is at its last slot.
__device__ inline void multiply(Ring& ring, Sums& sums, int group, int tile, int& at, int steps) {
    const bool first = threadIdx.x % 32 == 0;
    if (TURNS == 2) ptx::mbarrier_wait(&ring.turn[group], (tile / 2 + group + 1) % 2);
#pragma unroll 1  // or ptxas lets no product overlap another
    for (int step = 0; step < steps; ++step, ++at) {
        ptx::mbarrier_wait(&ring.full[slot(at)], phase(at));
        if (TURNS == 2 && step == steps - 1) {
            __syncwarp();  // no lane still waits for the phase of `turn` before this one
            if (first) ptx::mbarrier_arrive(&ring.turn[1 - group]);
        }
        const Stage& stage = ring.stage[slot(at)];
        ptx::wgmma_fence();
#pragma unroll
        for (int h = 0; h < HALVES; ++h) {
            const int half = TEAM == 1 ? h : group;
            const auto a = ptx::descriptor_128B(stage.a + half * 64 * BK);
            const auto b = ptx::descriptor_128B(stage.b);
            for (int k = 0; k < BK / 16; ++k)  // 16 along K are 32 bytes
                begin(sums[h], a + 2 * k, b + 2 * k, step > 0 || k > 0);
        }
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();
        if (step > 0 && first) ptx::mbarrier_arrive(&ring.empty[slot(at - 1)]);
    }
    ptx::wgmma_wait_group<0>();
    for (auto& half : sums)  // the compiler does not know that registers were still written
        for (float& sum : half) asm volatile("" : "+f"(sum) :: "memory");
    if (first) ptx::mbarrier_arrive(&ring.empty[slot(at - 1)]);
}

__device__ inline unsigned pack(float2 x) {
    const __nv_bfloat162 both = __float22bfloat162_rn(x);
    return reinterpret_cast<const unsigned&>(both);
}

// A warp stores its 16 rows and COLS columns of C, from row `row` and column `col` on.
// `value(i, row, col)` is what becomes of sums i and i + 1, which are neighbours in a row.
template <int COLS, class Value>
__device__ inline void store(Boxes& boxes, const CUtensorMap& C, int row, int col, Value value) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < COLS / BOX_COLS; ++part) {
        bf16* box = boxes.box[part % BOXES];
        // The engine has read this box, by now.
        if (lane == 0) ptx::cp_async_bulk_wait_group_read<COLS / BOX_COLS - 1>();
        __syncwarp();
#pragma unroll
        for (int j = 0; j < BOX_COLS / 16; ++j) {
            unsigned four[4];
#pragma unroll
            for (int p = 0; p < 4; ++p)
                four[p] = pack(value(part * 32 + j * 8 + 2 * p, row + lane / 4 + p % 2 * 8,
                                     col + part * BOX_COLS + j * 16 + p / 2 * 8 + lane % 4 * 2));
            ptx::stmatrix_x4(box + lane % 16 * BOX_COLS + ((2 * j + lane / 16) ^ lane % 8) * 8,
                             four[0], four[1], four[2], four[3]);
        }
        ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
        __syncwarp();                     // and the others
        if (lane == 0) {
            ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row, box);
            ptx::cp_async_bulk_commit_group();
        }
    }
}

// Where warp `warp` of the block has its rows of half h of a tile.
__device__ inline int row_of(int warp, int h) {
    return (TEAM == 1 ? h * 64 : warp / 4 * 64) + warp % 4 * BOX_ROWS;
}
