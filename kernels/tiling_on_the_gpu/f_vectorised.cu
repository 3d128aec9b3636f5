// Rung f. Vectorised: every load and store moves four numbers. For that the tile of A lies
// transposed in shared memory, so that the eight rows of a thread are neighbours.
#include "tiling_on_the_gpu/product.cuh"
constexpr int BM = 128, BN = 128, BK = 8;     // a block's part of C, and how deep its tiles are
constexpr int T = 8;                          // rows and columns of a thread
constexpr int THREADS = BM / T * (BN / T);    // 256: one float4 of each tile

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) vectorised(Product g) {
    __shared__ __align__(16) float a[BK][BM], b[BK][BN];  // (k, m) and (k, n)
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, t = threadIdx.x;
    const int x = t % (BN / T) * T, y = t / (BN / T) * T;
    const int am = t / (BK / 4), ak = t % (BK / 4) * 4;  // what this thread copies of A: (m, k)
    const int bk = t / (BN / 4), bn = t % (BN / 4) * 4;  // and of B: (k, n)
    float sum[T][T] = {};
    for (int k0 = 0; k0 < g.K; k0 += BK) {
        const float4 left = four<ALIGNED>(g.A, g.M, g.K, g.lda, row0 + am, k0 + ak);
        a[ak][am] = left.x, a[ak + 1][am] = left.y, a[ak + 2][am] = left.z, a[ak + 3][am] = left.w;
        *reinterpret_cast<float4*>(&b[bk][bn]) =
            four<ALIGNED>(g.B, g.K, g.N, g.ldb, k0 + bk, col0 + bn);
        __syncthreads();  // the tiles are there
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float left[T], right[T];
#pragma unroll
            for (int i = 0; i < T; i += 4) {
                *reinterpret_cast<float4*>(left + i) = *reinterpret_cast<float4*>(&a[k][y + i]);
                *reinterpret_cast<float4*>(right + i) = *reinterpret_cast<float4*>(&b[k][x + i]);
            }
#pragma unroll
            for (int i = 0; i < T; ++i)
#pragma unroll
                for (int j = 0; j < T; ++j) sum[i][j] += left[i] * right[j];
        }
        __syncthreads();  // nobody needs them any more
    }
    for (int i = 0; i < T; ++i)
        for (int j = 0; j < T; j += 4)
            store_four<ALIGNED>(g, row0 + y + i, col0 + x + j, sum[i] + j);
}

void launch(const Product& g) {
    auto kernel = aligned(g) ? vectorised<true> : vectorised<false>;
    kernel<<<dim3(blocks(g.N, BN), blocks(g.M, BM)), THREADS>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
