// The same interface as warp.cuh for AMD's CDNA: a wavefront of 64 lanes, and MFMA on pieces of
// 16 × 16 of A, B and C, f16 only. Lane l holds four neighbours along K: of A in row l % 16, of B
// in column l % 16, from K = 4 (l / 16) on; of C four rows, from 4 (l / 16) on, of column l % 16.
//
// Compiled, and never run by us: see *Tensor cores without Hopper*. Source of the layouts: AMD,
// "CDNA2 instruction set architecture", section 7.3 (MFMA), and AMD's matrix instruction calculator.
#pragma once
#include "tensor_cores/tile.cuh"
#include <hip/hip_runtime.h>

constexpr int WARP = 64;
using half4 = _Float16 __attribute__((ext_vector_type(4)));
using float4_ = float __attribute__((ext_vector_type(4)));

template <class In, int WM, int WN> struct Fragments {
    half4 a[WM / 16], b[WN / 16];

    // There is no ldmatrix: A's four neighbours are one read of 8 bytes, B's four reads of 2.
    template <int BK, int BN, bool SWIZZLE>
    __device__ void load(const char* a_tile, const char* b_tile, int a_lane, int b_lane, int step) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
            a[i] = *reinterpret_cast<const half4*>(a_tile + (a_lane ^ step * 32) + i * 16 * BK * 2);
#pragma unroll
        for (int j = 0; j < WN / 16; ++j)
#pragma unroll
            for (int k = 0; k < 4; ++k) {  // row k further down: the swizzle flips chunk bits by k
                const int at = (b_lane ^ j * 32 ^ (SWIZZLE ? k * 16 : 0)) + k * BN * 2;
                b[j][k] = *reinterpret_cast<const _Float16*>(b_tile + at + step * 16 * BN * 2);
            }
    }
};

template <int BK, bool SWIZZLE> __device__ int lane_a(int wm) {
    static_assert(BK >= 64, "the swizzle of rows of 8 chunks");
    const int k = threadIdx.x / 16 % 4 * 4;
    return place<BK, SWIZZLE>(wm + threadIdx.x % 16, k / 8) + k % 8 * 2;
}
template <int BN, bool SWIZZLE> __device__ int lane_b(int wn) {
    static_assert(BN >= 64, "the swizzle of rows of 8 chunks");
    const int col = threadIdx.x % 16;
    return place<BN, SWIZZLE>(threadIdx.x / 16 % 4 * 4, (wn + col) / 8) + col % 8 * 2;
}

template <int WM, int WN> struct Accumulator {
    float4_ c[WM / 16][WN / 16] = {};

    template <class In> __device__ void multiply(const Fragments<In, WM, WN>& f) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 16; ++j)
                c[i][j] = __builtin_amdgcn_mfma_f32_16x16x16f16(f.a[i], f.b[j], c[i][j], 0, 0, 0);
    }

    template <class In, class Out>
    __device__ void store(const Gemm<In, Out>& g, int row0, int col0) const {
        const int lane = threadIdx.x % WARP;
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 16; ++j)
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const int row = row0 + i * 16 + lane / 16 * 4 + k;
                    const int col = col0 + j * 16 + lane % 16;
                    if (row >= g.M || col >= g.N) continue;
                    Out* to = g.C + size_t(row) * g.ldc + col;
                    *to = scaled(g, c[i][j][k], g.beta != 0 ? *to : Out());
                }
    }
};
