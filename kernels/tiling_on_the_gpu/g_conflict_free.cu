// Rung g. Without bank conflicts. Two places had them: the transposed tile of A, written down its
// columns; and the reads of B, where the lanes' float4 lie 32 bytes apart. The first is cured by
// padding (four numbers more in a row) or by a swizzle (PADDED false); the second by giving a
// thread two groups of four columns that lie half a tile apart, instead of eight neighbours.
#include "tiling_on_the_gpu/product.cuh"
constexpr bool PADDED = true;
constexpr int BM = 128, BN = 128, BK = 8;     // a block's part of C, and how deep its tiles are
constexpr int T = 8;                          // rows and columns of a thread
constexpr int THREADS = BM / T * (BN / T);    // 256: one float4 of each tile
constexpr int STRIDE = BM + (PADDED ? 4 : 0);  // of a row of A's tile

// Where (k, m) of A's tile lies. The swizzle moves whole groups of four rows.
__device__ __forceinline__ int place(int k, int m) {
    return k * STRIDE + (PADDED ? m : m ^ (k / 4 * 16));
}

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) conflict_free(Product g) {
    __shared__ __align__(16) float a[BK * STRIDE], b[BK][BN];  // (k, m) and (k, n)
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, t = threadIdx.x;
    const int x = t % (BN / T) * 4, y = t / (BN / T) * 4;  // of the first group of four
    const int am = t / (BK / 4), ak = t % (BK / 4) * 4;    // what this thread copies of A: (m, k)
    const int bk = t / (BN / 4), bn = t % (BN / 4) * 4;    // and of B: (k, n)
    float sum[T][T] = {};
    for (int k0 = 0; k0 < g.K; k0 += BK) {
        const float4 left = four<ALIGNED>(g.A, g.M, g.K, g.lda, row0 + am, k0 + ak);
        a[place(ak, am)] = left.x, a[place(ak + 1, am)] = left.y;
        a[place(ak + 2, am)] = left.z, a[place(ak + 3, am)] = left.w;
        *reinterpret_cast<float4*>(&b[bk][bn]) =
            four<ALIGNED>(g.B, g.K, g.N, g.ldb, k0 + bk, col0 + bn);
        __syncthreads();  // the tiles are there
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            float left[T], right[T];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                *reinterpret_cast<float4*>(left + i * 4) =
                    *reinterpret_cast<float4*>(&a[place(k, y + i * BM / 2)]);
                *reinterpret_cast<float4*>(right + i * 4) =
                    *reinterpret_cast<float4*>(&b[k][x + i * BN / 2]);
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
            store_four<ALIGNED>(g, row0 + y + i / 4 * (BM / 2) + i % 4,
                                col0 + x + j / 4 * (BN / 2), sum[i] + j);
}

void launch(const Product& g) {
    auto kernel = aligned(g) ? conflict_free<true> : conflict_free<false>;
    kernel<<<dim3(blocks(g.N, BN), blocks(g.M, BM)), THREADS>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
