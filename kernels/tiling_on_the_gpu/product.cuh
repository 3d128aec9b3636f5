// What the rungs of *Tiling on the GPU* share: the problem, and loads that know where it ends.
#pragma once
#include "check.cuh"
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// C (M, N) = alpha · A (M, K) · B (K, N) + beta · C, all row-major. A leading dimension is the
// number of elements from one row to the next. With beta 0, C is not read.
template <class In, class Out> struct Gemm {
    const In* A;
    const In* B;
    Out* C;
    int M, N, K;
    int lda, ldb, ldc;
    float alpha, beta;
};
using In = float;
using Out = float;
using Product = Gemm<float, float>;

__host__ __device__ constexpr int blocks(int size, int tile) { return (size + tile - 1) / tile; }

// Element (row, col) of a matrix of rows × cols, and zero outside: it adds nothing to a product.
__device__ __forceinline__ float element(const float* matrix, int rows, int cols, int stride,
                                         int row, int col) {
    return row < rows && col < cols ? matrix[size_t(row) * stride + col] : 0;
}

// Elements (row, col) to (row, col + 3), with zeros outside. ALIGNED: every row begins at a
// multiple of 16 bytes, so that four elements inside the matrix are one load.
template <bool ALIGNED>
__device__ __forceinline__ float4 four(const float* matrix, int rows, int cols, int stride,
                                       int row, int col) {
    if (ALIGNED && row < rows && col + 3 < cols)
        return *reinterpret_cast<const float4*>(matrix + size_t(row) * stride + col);
    auto one = [&](int i) { return element(matrix, rows, cols, stride, row, col + i); };
    return make_float4(one(0), one(1), one(2), one(3));
}

// Whether rows of A, B and C begin at multiples of 16 bytes.
inline bool aligned(const Product& g) {
    auto whole = [](const void* pointer, int stride) {
        return reinterpret_cast<size_t>(pointer) % 16 == 0 && stride % 4 == 0;
    };
    return whole(g.A, g.lda) && whole(g.B, g.ldb) && whole(g.C, g.ldc);
}

// C at (row, col) from its sum; nothing outside.
__device__ __forceinline__ void store(const Product& g, int row, int col, float sum) {
    if (row >= g.M || col >= g.N) return;
    float* c = g.C + size_t(row) * g.ldc + col;
    *c = g.beta != 0 ? g.alpha * sum + g.beta * *c : g.alpha * sum;
}

// Four neighbouring elements of C, from (row, col) on.
template <bool ALIGNED>
__device__ __forceinline__ void store_four(const Product& g, int row, int col, const float* sum) {
    if (ALIGNED && g.beta == 0 && row < g.M && col + 3 < g.N) {
        *reinterpret_cast<float4*>(g.C + size_t(row) * g.ldc + col) =
            make_float4(g.alpha * sum[0], g.alpha * sum[1], g.alpha * sum[2], g.alpha * sum[3]);
        return;
    }
    for (int i = 0; i < 4; ++i) store(g, row, col + i, sum[i]);
}
