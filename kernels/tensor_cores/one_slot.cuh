// One tile at a time: all threads copy a tile of A and one of B into shared memory, wait, multiply,
// wait. With and without the swizzle.
#pragma once
#ifdef __HIP_PLATFORM_AMD__
#include "tensor_cores/cdna.cuh"
#else
#include "tensor_cores/warp.cuh"
#endif

template <int BM_, int BN_, int BK_, int WM_, int WN_> struct Tiling {
    static constexpr int BM = BM_, BN = BN_, BK = BK_;  // tile of a block
    static constexpr int WM = WM_, WN = WN_;            // part of it that a warp multiplies
    static constexpr int THREADS = BM / WM * (BN / WN) * WARP;
    static constexpr int A_BYTES = BM * BK * 2, B_BYTES = BK * BN * 2;
    static_assert(BM % WM == 0 && BN % WN == 0 && BK % 16 == 0, "whole warps, whole steps");
    static_assert(WM % 16 == 0 && WN % 16 == 0, "ldmatrix.x4 loads pieces of 16 × 16");
};

template <class T, bool SWIZZLE, int ALIGN, class In, class Out>
__global__ void __launch_bounds__(T::THREADS) one_slot(Gemm<In, Out> g) {
    alignas(128) __shared__ char a[T::A_BYTES];
    alignas(128) __shared__ char b[T::B_BYTES];
    const int m0 = blockIdx.y * T::BM, n0 = blockIdx.x * T::BN;
    const int warp = threadIdx.x / WARP;
    const int wm = warp / (T::BN / T::WN) * T::WM, wn = warp % (T::BN / T::WN) * T::WN;
    const int a_lane = lane_a<T::BK, SWIZZLE>(wm), b_lane = lane_b<T::BN, SWIZZLE>(wn);
    TileCopy<T::BM, T::BK, T::THREADS, ALIGN, false, SWIZZLE, In> a_copy(
        g.A, g.M, g.K, g.lda, m0, 0);
    TileCopy<T::BK, T::BN, T::THREADS, ALIGN, false, SWIZZLE, In> b_copy(
        g.B, g.K, g.N, g.ldb, 0, n0);
    Accumulator<T::WM, T::WN> sum;
    for (int k0 = 0; k0 < g.K; k0 += T::BK) {
        a_copy(a), a_copy.right();
        b_copy(b), b_copy.down();
        __syncthreads();  // the tiles are full
        for (int step = 0; step < T::BK / 16; ++step) {
            Fragments<In, T::WM, T::WN> f;
            f.template load<T::BK, T::BN, SWIZZLE>(a, b, a_lane, b_lane, step);
            sum.multiply(f);
        }
        __syncthreads();  // the tiles are empty again
    }
    sum.store(g, m0 + wm, n0 + wn);
}

template <class T, bool SWIZZLE, int ALIGN, class In, class Out>
void launch_one_slot(const Gemm<In, Out>& g) {
    const dim3 grid((g.N + T::BN - 1) / T::BN, (g.M + T::BM - 1) / T::BM);
    one_slot<T, SWIZZLE, ALIGN><<<grid, T::THREADS>>>(g);
}
