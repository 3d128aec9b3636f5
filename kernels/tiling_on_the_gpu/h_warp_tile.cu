// Rung h. Warp tiles: the 32 lanes of a warp stand 4 × 8 on a part of C of their own, 32 × 64, so
// that a warp asks for 24 different float4 for each k, and no longer for 36.
#include "tiling_on_the_gpu/product.cuh"
constexpr int BM = 128, BN = 128, BK = 8;     // a block's part of C, and how deep its tiles are
constexpr int WM = 32, WN = 64;               // a warp's part
constexpr int T = 8;                          // rows and columns of a thread, in groups of four
constexpr int THREADS = BM / T * (BN / T);    // 256: one float4 of each tile
constexpr int STRIDE = BM + 4;                // of a row of A's tile: no bank conflicts

// Where a lane stands in its warp: in row 0 to 3, and column 0 to 7.
__device__ int lane_row(int lane) { return lane / 8; }
__device__ int lane_column(int lane) { return lane % 8; }

template <bool ALIGNED>
__global__ void __launch_bounds__(THREADS) warp_tile(Product g) {
    __shared__ __align__(16) float a[BK][STRIDE], b[BK][BN];  // (k, m) and (k, n)
    const int row0 = blockIdx.y * BM, col0 = blockIdx.x * BN, t = threadIdx.x;
    const int warp = t / 32, lane = t % 32;
    const int y = warp % (BM / WM) * WM + lane_row(lane) * 4;     // of the first group of four rows
    const int x = warp / (BM / WM) * WN + lane_column(lane) * 4;  // and columns
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
            for (int i = 0; i < 2; ++i) {
                *reinterpret_cast<float4*>(left + i * 4) =
                    *reinterpret_cast<float4*>(&a[k][y + i * WM / 2]);
                *reinterpret_cast<float4*>(right + i * 4) =
                    *reinterpret_cast<float4*>(&b[k][x + i * WN / 2]);
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
            store_four<ALIGNED>(g, row0 + y + i / 4 * (WM / 2) + i % 4, col0 + x + j / 4 * (WN / 2),
                                sum[i] + j);
}

void launch(const Product& g) {
    auto kernel = aligned(g) ? warp_tile<true> : warp_tile<false>;
    kernel<<<dim3(blocks(g.N, BN), blocks(g.M, BM)), THREADS>>>(g);
}

#ifndef OWN_MAIN
#include "gemm.cuh"
#endif
