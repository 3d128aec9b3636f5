// Rung j. Tuned: deeper tiles; the numbers of the next k are loaded while those of this one are
// multiplied; two blocks on a multiprocessor; blocks that run together share tiles (super-rows);
// lanes in an order in which shared memory serves 16 at a time; and the 64 multiplications of a
// thread in a serpentine, so that each has a number in common with the one before it.
#include "tiling_on_the_gpu/product.cuh"
#include "ptx.cuh"
constexpr int SIDE = 128, BK = 32;              // a block's square of C, and how deep its tiles are
constexpr int WM = 32, WN = 64;                 // a warp's part
constexpr int T = 8;                            // rows and columns of a thread, in groups of four
constexpr int THREADS = SIDE / T * (SIDE / T);  // 256
constexpr int RESIDENT = 512 / THREADS;         // blocks that must fit on a multiprocessor
constexpr int STRIDE = SIDE + 4;                // of a row of A's tile: no bank conflicts
constexpr int SLOTS = 2, SUPER = 8;  // SUPER rows of blocks are numbered column by column
constexpr int SHARED = SLOTS * BK * (STRIDE + SIDE) * sizeof(float);  // bytes of a block
constexpr bool AHEAD = true, SERPENTINE = true, ALWAYS_ASK = false;   // what can be switched off

// Where a lane stands in its warp: in row 0 to 3, and column 0 to 7.
__device__ int lane_row(int lane) { return lane >> 1 & 1 | lane >> 3 & 2; }
__device__ int lane_column(int lane) { return lane & 1 | lane >> 1 & 6; }

// WHOLE: M and N are multiples of SIDE and K of BK, so that no copy asks where the matrix ends.
template <bool ALIGNED, bool WHOLE>
__global__ void __launch_bounds__(THREADS, RESIDENT) tuned(Product g) {
    extern __shared__ __align__(16) float shared[];
    float (*const a)[BK][STRIDE] = reinterpret_cast<float (*)[BK][STRIDE]>(shared);  // (k, m)
    float (*const b)[BK][SIDE] = reinterpret_cast<float (*)[BK][SIDE]>(a + SLOTS);
    const int t = threadIdx.x, warp = t / 32, lane = t % 32;
    const int y = warp % (SIDE / WM) * WM + lane_row(lane) * 4;     // first group of four rows
    const int x = warp / (SIDE / WM) * WN + lane_column(lane) * 4;  // and columns
    const int wide = blocks(g.N, SIDE), high = blocks(g.M, SIDE);
    const int first = blockIdx.x / (SUPER * wide) * SUPER;  // row of blocks of this super-row
    const int rows = min(SUPER, high - first), place = blockIdx.x - first * wide;
    const int row0 = (first + place % rows) * SIDE, col0 = place / rows * SIDE;

    const int am = t / 8, ak = t % 8;                        // this thread's first number of A
    const int bk = t / (SIDE / 4), bn = t % (SIDE / 4) * 4;  // and its first four of B
    const float* from_a = g.A + size_t(row0 + am) * g.lda + ak;
    const float* from_b = g.B + size_t(bk) * g.ldb + col0 + bn;
    auto fetch = [&](int slot, int k0) {
#pragma unroll
        for (int k = 0; k < BK; k += 8)
#pragma unroll
            for (int m = 0; m < SIDE; m += THREADS / 8)
                ptx::cp_async<4>(&a[slot][k + ak][m + am], from_a + size_t(m) * g.lda + k0 + k,
                                 !WHOLE && (row0 + m + am >= g.M || k0 + k + ak >= g.K));
#pragma unroll
        for (int k = 0; k < BK; k += THREADS / (SIDE / 4)) {
            float* to = &b[slot][k + bk][bn];
            const float* from = from_b + size_t(k0 + k) * g.ldb;
            const bool below = !WHOLE && k0 + k + bk >= g.K;
            if (ALIGNED && (WHOLE || col0 + bn + 3 < g.N)) ptx::cp_async<16>(to, from, below);
            else
                for (int i = 0; i < 4; ++i)
                    ptx::cp_async<4>(to + i, from + i, below || col0 + bn + i >= g.N);
        }
        ptx::cp_async_commit_group();
    };
    float sum[T][T] = {}, left[2][T], right[2][T];
    auto load = [&](int slot, int k, int into) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            *reinterpret_cast<float4*>(left[into] + i * 4) =
                *reinterpret_cast<float4*>(&a[slot][k][y + i * WM / 2]);
            *reinterpret_cast<float4*>(right[into] + i * 4) =
                *reinterpret_cast<float4*>(&b[slot][k][x + i * WN / 2]);
        }
    };
    const int tiles = blocks(g.K, BK);
    if (tiles > 0) {
        fetch(0, 0);
        if (tiles == 1) fetch(1, 0);  // the loop below loads from the next slot, needed or not
        ptx::cp_async_wait_group<0>();
        __syncthreads();  // the first slot is full
        if (AHEAD) load(0, 0, 0);
    }
    for (int tile = 0, slot = 0; tile < tiles; ++tile, slot ^= 1) {
        if (tile + 1 < tiles) fetch(slot ^ 1, (tile + 1) * BK);
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (!AHEAD) load(slot, k, k % 2);
            if (k + 1 == BK) {
                ptx::cp_async_wait_group<0>();  // my copies have arrived
                __syncthreads();          // everybody's have, and nobody reads this slot any more
            }
            if (AHEAD) load(k + 1 < BK ? slot : slot ^ 1, (k + 1) % BK, (k + 1) % 2);
#pragma unroll
            for (int i = 0; i < T; ++i)
#pragma unroll
                for (int step = 0; step < T; ++step) {
                    const int j = SERPENTINE && i % 2 ? T - 1 - step : step;
                    sum[i][j] += left[k % 2][i] * right[k % 2][j];
                }
        }
    }
#pragma unroll
    for (int i = 0; i < T; ++i)
#pragma unroll
        for (int j = 0; j < T; j += 4)
            store_four<ALIGNED>(g, row0 + y + i / 4 * (WM / 2) + i % 4, col0 + x + j / 4 * (WN / 2),
                                sum[i] + j);
}

void launch(const Product& g) {
    const bool whole = !ALWAYS_ASK && g.M % SIDE == 0 && g.N % SIDE == 0 && g.K % BK == 0;
    auto kernel = tuned<false, false>;
    if (aligned(g)) kernel = whole ? tuned<true, true> : tuned<true, false>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    kernel<<<blocks(g.N, SIDE) * blocks(g.M, SIDE), THREADS, SHARED>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
