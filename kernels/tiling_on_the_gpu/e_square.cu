// Rung e. A register tile of 8 × 8: a thread makes 64 elements of C. For each k it loads 16 numbers
// from shared memory and multiplies each with eight others.
#include "tiling_on_the_gpu/product.cuh"
constexpr int BM = 128, BN = 128, BK = 8;     // a block's part of C, and how deep its tiles are
constexpr int T = 8;                          // rows and columns of a thread
constexpr int THREADS = BM / T * (BN / T);    // 256

__global__ void __launch_bounds__(THREADS) square(Product g) {
    __shared__ float a[BM][BK], b[BK][BN];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, t = threadIdx.x;
    const int x = t % (BN / T) * T, y = t / (BN / T) * T;
    float sum[T][T] = {};
    for (int k0 = 0; k0 < g.K; k0 += BK) {
        for (int i = t; i < BM * BK; i += THREADS)
            a[i / BK][i % BK] = element(g.A, g.M, g.K, g.lda, row0 + i / BK, k0 + i % BK);
        for (int i = t; i < BK * BN; i += THREADS)
            b[i / BN][i % BN] = element(g.B, g.K, g.N, g.ldb, k0 + i / BN, col0 + i % BN);
        __syncthreads();  // the tiles are there
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float left[T], right[T];
#pragma unroll
            for (int i = 0; i < T; ++i) left[i] = a[y + i][k], right[i] = b[k][x + i];
#pragma unroll
            for (int i = 0; i < T; ++i)
#pragma unroll
                for (int j = 0; j < T; ++j) sum[i][j] += left[i] * right[j];
        }
        __syncthreads();  // nobody needs them any more
    }
    for (int i = 0; i < T; ++i)
        for (int j = 0; j < T; ++j) store(g, row0 + y + i, col0 + x + j, sum[i][j]);
}

void launch(const Product& g) {
    square<<<dim3(blocks(g.N, BN), blocks(g.M, BM)), THREADS>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
