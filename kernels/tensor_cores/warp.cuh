// A warp's fragments and sums for mma.sync: 32 lanes, pieces of 16 × 16 of A, 16 × 8 of B and C.
#pragma once
#include "tensor_cores/tile.cuh"

constexpr int WARP = 32;

// What one warp multiplies in a step of 16 along K: WM × 16 of A, 16 × WN of B.
template <class In, int WM, int WN> struct Fragments {
    unsigned a[WM / 16][4];
    unsigned b[WN / 8][2];

    // Load step `step` of a tile of A (…, BK) and one of B (BK, BN). `a_lane` and `b_lane` are
    // where this lane's row of the first piece lies: see lane_a and lane_b. Other pieces of the
    // same rows lie 2, 4, … chunks further, whose numbers the swizzle has exclusive-ored.
    template <int BK, int BN, bool SWIZZLE>
    __device__ void load(const char* a_tile, const char* b_tile, int a_lane, int b_lane, int step) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
            ptx::ldmatrix_x4(a[i][0], a[i][1], a[i][2], a[i][3],
                             a_tile + (a_lane ^ step * 32) + i * 16 * BK * 2);
#pragma unroll
        for (int j = 0; j < WN / 16; ++j)
            ptx::ldmatrix_x4_trans(b[2 * j][0], b[2 * j][1], b[2 * j + 1][0], b[2 * j + 1][1],
                                   b_tile + (b_lane ^ j * 32) + step * 16 * BN * 2);
    }
};

// Lane l names row l % 16 and chunk l / 16 of a 16 × 16 piece: of A at row wm, of B at column wn.
template <int BK, bool SWIZZLE> __device__ int lane_a(int wm) {
    return place<BK, SWIZZLE>(wm + threadIdx.x % 16, threadIdx.x / 16 % 2);
}
template <int BN, bool SWIZZLE> __device__ int lane_b(int wn) {
    return place<BN, SWIZZLE>(threadIdx.x % 16, wn / 8 + threadIdx.x / 16 % 2);
}

// The warp's part of C, WM × WN, as it lies in registers: for each 16 × 8 piece, lane l has two
// neighbours of row l / 4, from column 2(l % 4) on, and two of row l / 4 + 8.
template <int WM, int WN> struct Accumulator {
    float c[WM / 16][WN / 8][4] = {};

    template <class In> __device__ void multiply(const Fragments<In, WM, WN>& f) {
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j) {
                if constexpr (CP_ASYNC) {  // sm_80 also has the deeper mma
                    ptx::mma_16x8x16(c[i][j], f.a[i], f.b[j], In());
                } else {
                    ptx::mma_16x8x8(c[i][j], f.a[i][0], f.a[i][1], f.b[j][0], In());
                    ptx::mma_16x8x8(c[i][j], f.a[i][2], f.a[i][3], f.b[j][1], In());
                }
            }
    }

    // C = alpha · sum + beta · C for the part whose first element is (row0, col0).
    template <class In, class Out>
    __device__ void store(const Gemm<In, Out>& g, int row0, int col0) const {
        const int lane = threadIdx.x % 32;
        // Two neighbours in one access, where all their addresses allow it.
        const bool pairs = g.ldc % 2 == 0 && size_t(g.C) % (2 * sizeof(Out)) == 0;
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
#pragma unroll
            for (int j = 0; j < WN / 8; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int row = row0 + i * 16 + lane / 4 + half * 8;
                    const int col = col0 + j * 8 + lane % 4 * 2;
                    if (row >= g.M || col >= g.N) continue;
                    Out* to = g.C + size_t(row) * g.ldc + col;
                    const float* sum = &c[i][j][half * 2];
                    if (pairs && col + 1 < g.N) {
                        struct alignas(2 * sizeof(Out)) Pair { Out x, y; };
                        Pair pair = {};
                        if (g.beta != 0) pair = *reinterpret_cast<Pair*>(to);
                        pair = {scaled(g, sum[0], pair.x), scaled(g, sum[1], pair.y)};
                        *reinterpret_cast<Pair*>(to) = pair;
                    } else {
                        for (int k = 0; k < 2 && col + k < g.N; ++k)
                            to[k] = scaled(g, sum[k], g.beta != 0 ? to[k] : Out());
                    }
                }
    }
};
