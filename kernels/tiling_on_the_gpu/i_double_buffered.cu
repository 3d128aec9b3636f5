// Rung i. Double-buffered: while one slot is multiplied, asynchronous copies fill the other. A is
// still transposed, element by element, on its way.
#include "tiling_on_the_gpu/product.cuh"
#include "ptx.cuh"
constexpr int BM = 128, BN = 128, BK = 8;     // a block's part of C, and how deep its tiles are
constexpr int WM = 32, WN = 64;               // a warp's part
constexpr int T = 8;                          // rows and columns of a thread, in groups of four
constexpr int THREADS = BM / T * (BN / T);    // 256: one float4 of each tile
constexpr int STRIDE = BM + 4;                // of a row of A's tile: no bank conflicts
constexpr int SLOTS = 2;

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) double_buffered(Product g) {
    __shared__ __align__(16) float a[SLOTS][BK][STRIDE], b[SLOTS][BK][BN];  // (k, m) and (k, n)
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, t = threadIdx.x;
    const int warp = t / 32, lane = t % 32;
    const int y = warp % (BM / WM) * WM + lane / 8 * 4;  // of the first group of four rows
    const int x = warp / (BM / WM) * WN + lane % 8 * 4;  // and columns
    auto fetch = [&](int slot, int k0) {
        // Eight neighbouring threads take the eight k of one row: 32 bytes of it.
        for (int i = t; i < BM * BK; i += THREADS) {
            const int m = row0 + i / BK, k = k0 + i % BK;
            ptx::cp_async<4>(&a[slot][i % BK][i / BK], g.A + size_t(m) * g.lda + k,
                             m >= g.M || k >= g.K);
        }
        const int k = k0 + t / (BN / 4), n = col0 + t % (BN / 4) * 4;
        float* to = &b[slot][t / (BN / 4)][t % (BN / 4) * 4];
        const float* from = g.B + size_t(k) * g.ldb + n;
        if (ALIGNED && n + 3 < g.N) ptx::cp_async<16>(to, from, k >= g.K);
        else
            for (int i = 0; i < 4; ++i)
                ptx::cp_async<4>(to + i, from + i, k >= g.K || n + i >= g.N);
    };
    float sum[T][T] = {};
    fetch(0, 0);
    ptx::cp_async_commit_group();
    int slot = 0;
    for (int k0 = 0; k0 < g.K; k0 += BK, slot ^= 1) {
        ptx::cp_async_wait_group<0>();  // my copies have arrived
        __syncthreads();          // everybody's have, and the other slot is no longer needed
        if (k0 + BK < g.K) fetch(slot ^ 1, k0 + BK);
        ptx::cp_async_commit_group();
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float left[T], right[T];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                *reinterpret_cast<float4*>(left + i * 4) =
                    *reinterpret_cast<float4*>(&a[slot][k][y + i * WM / 2]);
                *reinterpret_cast<float4*>(right + i * 4) =
                    *reinterpret_cast<float4*>(&b[slot][k][x + i * WN / 2]);
            }
#pragma unroll
            for (int i = 0; i < T; ++i)
#pragma unroll
                for (int j = 0; j < T; ++j) sum[i][j] += left[i] * right[j];
        }
    }
    for (int i = 0; i < T; ++i)
        for (int j = 0; j < T; j += 4)
            store_four<ALIGNED>(g, row0 + y + i / 4 * (WM / 2) + i % 4, col0 + x + j / 4 * (WN / 2),
                                sum[i] + j);
}

void launch(const Product& g) {
    auto kernel = aligned(g) ? double_buffered<true> : double_buffered<false>;
    kernel<<<dim3(blocks(g.N, BN), blocks(g.M, BM)), THREADS>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
