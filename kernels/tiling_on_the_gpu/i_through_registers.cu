// A control of rung i: double-buffered too, but the next tile waits in registers while this one is
// multiplied, and is stored to the other slot afterwards. No asynchronous copy is needed for it.
#include "tiling_on_the_gpu/product.cuh"
constexpr int BM = 128, BN = 128, BK = 8;     // a block's part of C, and how deep its tiles are
constexpr int WM = 32, WN = 64;               // a warp's part
constexpr int T = 8;                          // rows and columns of a thread, in groups of four
constexpr int THREADS = BM / T * (BN / T);    // 256: one float4 of each tile
constexpr int STRIDE = BM + 4;                // of a row of A's tile: no bank conflicts
constexpr int SLOTS = 2;

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) through_registers(Product g) {
    __shared__ __align__(16) float a[SLOTS][BK][STRIDE], b[SLOTS][BK][BN];  // (k, m) and (k, n)
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, t = threadIdx.x;
    const int warp = t / 32, lane = t % 32;
    const int y = warp % (BM / WM) * WM + lane / 8 * 4;  // of the first group of four rows
    const int x = warp / (BM / WM) * WN + lane % 8 * 4;  // and columns
    const int am = t / (BK / 4), ak = t % (BK / 4) * 4;  // what this thread copies of A: (m, k)
    const int bk = t / (BN / 4), bn = t % (BN / 4) * 4;  // and of B: (k, n)
    float4 of_a, of_b;                                   // of the next tile
    auto load = [&](int k0) {
        of_a = four<ALIGNED>(g.A, g.M, g.K, g.lda, row0 + am, k0 + ak);
        of_b = four<ALIGNED>(g.B, g.K, g.N, g.ldb, k0 + bk, col0 + bn);
    };
    auto put = [&](int slot) {
        a[slot][ak][am] = of_a.x, a[slot][ak + 1][am] = of_a.y;
        a[slot][ak + 2][am] = of_a.z, a[slot][ak + 3][am] = of_a.w;
        *reinterpret_cast<float4*>(&b[slot][bk][bn]) = of_b;
    };
    float sum[T][T] = {};
    load(0);
    put(0);
    int slot = 0;
    for (int k0 = 0; k0 < g.K; k0 += BK, slot ^= 1) {
        __syncthreads();  // this slot is full, and nobody reads the other any more
        if (k0 + BK < g.K) load(k0 + BK);
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
        if (k0 + BK < g.K) put(slot ^ 1);
    }
    for (int i = 0; i < T; ++i)
        for (int j = 0; j < T; j += 4)
            store_four<ALIGNED>(g, row0 + y + i / 4 * (WM / 2) + i % 4, col0 + x + j / 4 * (WN / 2),
                                sum[i] + j);
}

void launch(const Product& g) {
    auto kernel = aligned(g) ? through_registers<true> : through_registers<false>;
    kernel<<<dim3(blocks(g.N, BN), blocks(g.M, BM)), THREADS>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
