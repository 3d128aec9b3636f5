// What the products of *Eight bits* share: what they are asked for, their tiles, and C's way out.
#pragma once
#include "eight_bits/wgmma_eight_bits.cuh"
#include "tensor_map.cuh"
#include <algorithm>
#include <cuda_fp8.h>

#define NUMBER_(FORMAT) __nv_fp8_##FORMAT
#define NUMBER(FORMAT) NUMBER_(FORMAT)
using a8 = NUMBER(A_FORMAT);
using b8 = NUMBER(B_FORMAT);
using bf16 = __nv_bfloat16;

constexpr int BLOCK = 128;  // numbers along K that share a scale

// C (M, N) = A (M, K) · B (N, K)ᵀ, row-major without gaps: K, the innermost, is a multiple of 16
// and N of 8, so that every row begins at a multiple of 16 bytes, as the copy engine demands.
// What a number stands for is the number times its scale:
// - one scale a tensor: a_scales and b_scales point at one f32 each;
// - scales for blocks: a_scales (K / 128, pitch), one for each row of A and 128 along K, rows of A
//   innermost; b_scales (N / 128, K / 128), one for 128 × 128 of B. Both rounded up.
struct Product {
    const a8* A;
    const b8* B;
    bf16* C;
    const float* a_scales;
    const float* b_scales;
    int M, N, K;
    int multiprocessors;  // as many blocks as run at the same time
    cudaStream_t stream;
    int pitch() const { return (M + 3) / 4 * 4; }  // rows of 16 bytes here, too
    __host__ __device__ static int blocks(int length) { return (length + BLOCK - 1) / BLOCK; }
};

constexpr int BM = 128;          // rows of a tile of C; its columns are the kernel's choice, BN
constexpr int BK = 128;          // its depth: 128 bytes, a row of the swizzle, a block of scales
constexpr int GROUPS = BM / 64;  // warp groups that multiply, 64 rows of the tile each
constexpr int CONSUMERS = GROUPS * 128, THREADS = CONSUMERS + 128;

// The tiles of A and B that are multiplied together, as the copy engine leaves them.
template <int BN> struct Stage {
    alignas(1024) a8 a[BM * BK];  // the swizzle looks at the address: its pattern has 1024 bytes
    alignas(1024) b8 b[BN * BK];
};

// The copy engine moves bytes and knows no eight bits: to it, two numbers are one of 16 bits.
inline CUtensorMap map_of(const void* matrix, int rows, int K, int box_rows) {
    return tensor_map_2d(static_cast<const bf16*>(matrix), rows, K / 2, box_rows, BK / 2,
                         CU_TENSOR_MAP_SWIZZLE_128B);
}

constexpr int BOX_ROWS = 16, BOX_COLS = 64;  // of C

// Boxes of a warp: some are being stored while another is filled. A store fills n · COUNT of them.
template <int COUNT> struct alignas(1024) Boxes {
    bf16 box[COUNT][BOX_ROWS * BOX_COLS];
};

inline CUtensorMap map_c(const Product& p) {
    return tensor_map_2d(p.C, p.M, p.N, BOX_ROWS, BOX_COLS, CU_TENSOR_MAP_SWIZZLE_128B);
}

__device__ inline unsigned pack(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(both);
}

// A warp stores 16 rows and COLS columns of C, from row `row` and column `col` on: COLS / 2 sums a
// thread, each times `scale`.
template <int COLS, int COUNT>
__device__ void store(const float (&sums)[COLS / 2], float scale, Boxes<COUNT>& boxes,
                      const CUtensorMap& C, int row, int col) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < COLS / BOX_COLS; ++part) {
        bf16* box = boxes.box[part % COUNT];
        if (lane == 0) ptx::cp_async_bulk_wait_group_read<COUNT - 1>();  // it has read this box
        __syncwarp();
#pragma unroll
        for (int j = 0; j < BOX_COLS / 16; ++j) {  // the lane's row, 16 bytes of it
            const float* d = sums + part * 32 + j * 8;
            ptx::stmatrix_x4(box + lane % 16 * BOX_COLS + ((2 * j + lane / 16) ^ lane % 8) * 8,
                             pack(scale * d[0], scale * d[1]), pack(scale * d[2], scale * d[3]),
                             pack(scale * d[4], scale * d[5]), pack(scale * d[6], scale * d[7]));
        }
        ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
        __syncwarp();                     // and the others
        if (lane == 0) {
            ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row, box);
            ptx::cp_async_bulk_commit_group();
        }
    }
}

// The next slot of a ring; each time around, the phases' parity flips.
template <int SLOTS> __device__ void advance(int& slot, bool& phase) {
    if (++slot == SLOTS) slot = 0, phase = !phase;
}

// The tiles of C (M, N), numbered in super-rows: SUPER rows of tiles are walked column by column,
// so that tiles with neighbouring numbers lie in a compact patch of C and share tiles of A and B.
struct Tiles {
    int M, N, K;
    int width;  // columns of C in a tile; BM rows
    struct Place { int row, col; };  // in tiles

    __host__ __device__ int rows() const { return (M + BM - 1) / BM; }
    __host__ __device__ int cols() const { return (N + width - 1) / width; }
    __host__ __device__ int count() const { return rows() * cols(); }
    template <int SUPER = 16> __device__ Place place(int number) const {
        const int first = number / (SUPER * cols()) * SUPER, within = number % (SUPER * cols());
        const int high = rows() - first < SUPER ? rows() - first : SUPER;
        return {first + within % high, within / high};
    }
};
