// What the products of *The ring at full width* share: what they are asked for, and their tiles.
#pragma once
#include "ptx_sm90.cuh"
#include "tensor_map.cuh"
#include <algorithm>

using bf16 = __nv_bfloat16;

// C (M, N) = A (M, K) · B (N, K)ᵀ, all row-major without gaps; N and K are multiples of 8, so that
// every row begins at a multiple of 16 bytes, as the copy engine demands.
struct Product {
    const bf16* A;
    const bf16* B;
    bf16* C;
    int M, N, K;
    int multiprocessors;  // as many blocks as run at the same time
    cudaStream_t stream;
};

constexpr int BM = 128, BN = 256;  // a tile of C
constexpr int BK = 64;             // its depth: 128 bytes, a row of the swizzle
constexpr int GROUPS = BM / 64;    // warp groups that multiply, 64 rows of the tile each

// The tiles of A and B that are multiplied together, as the copy engine leaves them.
struct Stage {
    alignas(1024) bf16 a[BM * BK];  // the swizzle looks at the address: its pattern has 1024 bytes
    alignas(1024) bf16 b[BN * BK];
};

inline CUtensorMap map_a(const Product& p) {
    return tensor_map_2d(p.A, p.M, p.K, BM, BK, CU_TENSOR_MAP_SWIZZLE_128B);
}
inline CUtensorMap map_b(const Product& p) {
    return tensor_map_2d(p.B, p.N, p.K, BN, BK, CU_TENSOR_MAP_SWIZZLE_128B);
}

using Sums = float[BN / 2];  // of one thread, in the registers of a warp group: 64 × BN

// Begin sums = (without `add`) or += rows 64 · group to 64 · group + 63 of a, times all of b.
__device__ inline void begin_multiply(Sums& sums, const Stage& stage, int group, bool add) {
    const auto a = ptx::descriptor_128B(stage.a + group * 64 * BK);
    const auto b = ptx::descriptor_128B(stage.b);
    for (int k = 0; k < BK / 16; ++k)  // 16 along K are 32 bytes
        ptx::wgmma_m64n256k16(sums, a + 2 * k, b + 2 * k, add || k > 0);
    ptx::wgmma_commit_group();
}

// Store a warp group's sums at row `row` and column `col` of C (M, N).
__device__ inline void store(const Sums& sums, bf16* C, int M, int N, int row, int col) {
    const int t = threadIdx.x % 128;
    for (int i = 0; i < BN / 2; i += 2) {  // sums[i] and sums[i + 1] are neighbours in a row
        const int r = row + 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
        const int c = col + 8 * (i / 4) + 2 * (t % 4);
        if (r < M && c < N)
            *reinterpret_cast<__nv_bfloat162*>(C + size_t(r) * N + c) =
                __floats2bfloat162_rn(sums[i], sums[i + 1]);
    }
}

// The next slot of a ring; each time around, the phases' parity flips.
template <int SLOTS> __device__ void advance(int& slot, bool& phase) {
    if (++slot == SLOTS) slot = 0, phase = !phase;
}

// The tiles of C (M, N), numbered in super-rows: SUPER rows of tiles are walked column by column, so
// that tiles with neighbouring numbers lie in a compact patch of C and share tiles of A and B.
constexpr int SUPER = 16;
struct Tiles {
    int M, N, K;
    int height;  // rows of C in a tile; BN columns
    struct Place { int row, col; };  // in tiles

    __host__ __device__ int rows() const { return (M + height - 1) / height; }
    __host__ __device__ int cols() const { return (N + BN - 1) / BN; }
    __host__ __device__ int count() const { return rows() * cols(); }
    __device__ Place place(int number) const {
        const int first = number / (SUPER * cols()) * SUPER, within = number % (SUPER * cols());
        const int high = rows() - first < SUPER ? rows() - first : SUPER;
        return {first + within % high, within / high};
    }
};
