// Rung d. A register tile of one column: a thread makes eight elements of C, one below the other,
// so that an element of B that it loaded from shared memory is used eight times.
#include "tiling_on_the_gpu/product.cuh"
constexpr int BM = 64, BN = 64, BK = 8;  // a block's part of C, and how deep its tiles are
constexpr int TM = 8;                    // rows of a thread
constexpr int THREADS = BM * BN / TM;    // 512: a tile has as many elements

__global__ void __launch_bounds__(THREADS) column(Product g) {
    __shared__ float a[BM][BK], b[BK][BN];
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, t = threadIdx.x;
    const int x = t % BN, y = t / BN * TM;  // this thread's first element in the block's part
    float sum[TM] = {};
    for (int k0 = 0; k0 < g.K; k0 += BK) {
        a[t / BK][t % BK] = element(g.A, g.M, g.K, g.lda, row0 + t / BK, k0 + t % BK);
        b[t / BN][t % BN] = element(g.B, g.K, g.N, g.ldb, k0 + t / BN, col0 + t % BN);
        __syncthreads();  // the tiles are there
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float right = b[k][x];
#pragma unroll
            for (int i = 0; i < TM; ++i) sum[i] += a[y + i][k] * right;
        }
        __syncthreads();  // nobody needs them any more
    }
    for (int i = 0; i < TM; ++i) store(g, row0 + y + i, col0 + x, sum[i]);
}

void launch(const Product& g) {
    column<<<dim3(blocks(g.N, BN), blocks(g.M, BM)), THREADS>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
