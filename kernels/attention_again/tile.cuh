// What the kernels of attention share: tiles of Q, K and V in shared memory, the places of S, P and
// O in tensor memory, and the two products of a step.
//
// A tile has 128 rows, queries or keys, in boxes of 64 columns, 128 bytes, swizzled: box 0 holds
// columns 0 to 63 of the head, box 1 the others. All matrices are (sequence, heads · DEPTH) of
// bf16, row-major, so a box that ends behind the sequence is filled with zeros, and cut when it is
// stored.
#pragma once
#include "chain/place.cuh"
#include "ptx_tensor_memory.cuh"
#include <cuda_bf16.h>

#ifndef HEAD
#define HEAD 128
#endif

using Element = __nv_bfloat16;
constexpr int DEPTH = HEAD;          // of a head: 64 or 128
constexpr int ROWS = 128;            // of a tile
constexpr int BOX = 64;              // columns of a box
constexpr int BOXES = DEPTH / BOX;   // of a tile
constexpr int STEP = 16;             // of k that a product takes
constexpr int PIECE = 32;            // columns that a thread fetches at a time

struct Tile {
    alignas(1024) Element box[BOXES][ROWS][BOX];
};

// Columns of tensor memory: S of both tiles, 128 each; O of both, DEPTH each. P, two weights to a
// column, takes the first half of the columns of its S.
constexpr int COLUMNS = 512;
__host__ __device__ constexpr int s_columns(int tile) { return tile * ROWS; }
__host__ __device__ constexpr int o_columns(int tile) { return 2 * ROWS + tile * DEPTH; }

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

__device__ inline void load(Tile& to, const CUtensorMap& from, int row, int head,
                            unsigned long long* full) {
    for (int box = 0; box < BOXES; ++box)
        ptx::cp_async_bulk_tensor_load(to.box[box], from, head * DEPTH + box * BOX, row, full);
}

__device__ inline void store(const CUtensorMap& to, const Tile& from, int row, int head) {
    for (int box = 0; box < BOXES; ++box)
        ptx::cp_async_bulk_tensor_store(to, head * DEPTH + box * BOX, row, from.box[box]);
    ptx::cp_async_bulk_commit_group();
}

// S (128 queries, 128 keys) = Q · Kᵀ. Both are K-major; 16 columns are 32 bytes, 2 in a descriptor.
__device__ inline void multiply_scores(unsigned s, const Tile& q, const Tile& k) {
    const unsigned long long a = ptx::tcgen05_descriptor_128B(q.box),
                             b = ptx::tcgen05_descriptor_128B(k.box);
    for (int step = 0; step < DEPTH / STEP; ++step) {
        const int at = step * STEP / BOX * (sizeof q.box[0] >> 4) + step * STEP % BOX * 2 / 16;
        ptx::tcgen05_mma_f16(s, a + at, b + at, ptx::tcgen05_bf16_f32(ROWS, ROWS), step > 0);
    }
}

// O (128 queries, DEPTH) += P (128 queries, 128 keys) · V (128 keys, DEPTH), or = where `add` is
// false. P lies in tensor memory, 16 keys in 8 columns. A row of V is a key, and the product sums
// over keys: V is MN-major, which bit 16 of the instruction descriptor says. In its matrix
// descriptor, the leading distance goes to the next box, the stride to the next eight keys.
__device__ inline void multiply_weights(unsigned o, unsigned p, const Tile& v, bool add) {
    const unsigned long long b =
        (ptx::shared_address(v.box) & 0x3ffff) >> 4 | (sizeof v.box[0] >> 4) << 16 |
        64ull << 32 | 1ull << 46 | 2ull << 61;
    for (int step = 0; step < ROWS / STEP; ++step)
        ptx::tcgen05_mma_f16_from_tensor_memory(
            o, p + STEP / 2 * step, b + (sizeof v.box[0][0] * STEP >> 4) * step,
            ptx::tcgen05_bf16_f32(ROWS, DEPTH) | 1 << 16, add || step > 0);
}

// tcgen05.st.32x32b.x16, 9.7.16.8.4: lane l of a warp stores 16 columns of lane 32 (warp % 4) + l.
// Done after tcgen05_wait_st. sm_100a.
__device__ inline void tcgen05_st_32x32b_x16(unsigned address, const unsigned (&r)[16]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%16], "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15};"
                 :: "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]),
                    "r"(r[7]), "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]),
                    "r"(r[13]), "r"(r[14]), "r"(r[15]), "r"(address)
                 : "memory");
}

#endif

// Which keys a query sees: all, or with `causal` those up to its own place, counted from the end
// of both sequences.
struct Problem {
    int queries, keys;  // of a sequence
    int causal;         // 0 or 1
    float scale;        // of the scores, times log2(e): weights are powers of two
    float threshold;    // of c to e: weights up to 2 to it before a row's reference moves

    // How many keys this query sees.
    __device__ int seen(int query) const {
        return causal ? min(keys, max(0, query + 1 + keys - queries)) : keys;
    }
    // Tiles of keys that a block needs whose last query is this one: at least one.
    __device__ int steps(int last) const { return max(1, (seen(last) + ROWS - 1) / ROWS); }
};
