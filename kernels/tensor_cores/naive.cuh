// Tensor cores fed straight from global memory: each warp makes 16 × 8 elements of C, and each
// lane fetches the elements of its fragments one by one.
#pragma once
#include "tensor_cores/warp.cuh"

template <class In>
__device__ unsigned two(const In* matrix, int rows, int cols, int stride, int row, int col,
                        int down, int right) {
    // Elements (row, col) and (row + down, col + right), in the halves of a register.
    auto bits = [&](int r, int c) -> unsigned {
        if (r >= rows || c >= cols) return 0;
        return reinterpret_cast<const unsigned short*>(matrix)[size_t(r) * stride + c];
    };
    return bits(row, col) | bits(row + down, col + right) << 16;
}

constexpr int NAIVE_THREADS = 128;  // four warps, side by side: 16 × 32 elements of C

template <class In, class Out>
__global__ void __launch_bounds__(NAIVE_THREADS) naive(Gemm<In, Out> g) {
    const int lane = threadIdx.x % 32, row0 = blockIdx.y * 16;
    const int col0 = (blockIdx.x * (NAIVE_THREADS / 32) + threadIdx.x / 32) * 8;
    const int group = lane / 4, pair = lane % 4 * 2;
    Accumulator<16, 8> sum;
    for (int k0 = 0; k0 < g.K; k0 += 16) {
        Fragments<In, 16, 8> f;
        for (int i = 0; i < 4; ++i)
            f.a[0][i] = two(g.A, g.M, g.K, g.lda, row0 + group + i % 2 * 8,
                            k0 + pair + i / 2 * 8, 0, 1);
        for (int i = 0; i < 2; ++i)
            f.b[0][i] = two(g.B, g.K, g.N, g.ldb, k0 + pair + i * 8, col0 + group, 1, 0);
        sum.multiply(f);
    }
    sum.store(g, row0, col0);
}

template <class In, class Out> void launch_naive(const Gemm<In, Out>& g) {
    const int wide = NAIVE_THREADS / 32 * 8;
    const dim3 grid((g.N + wide - 1) / wide, (g.M + 15) / 16);
    naive<<<grid, NAIVE_THREADS>>>(g);
}
