// C by the copy engine: a warp lays its 16 rows of a tile, some columns at a time, into boxes in
// shared memory, swizzled, and one of its threads has them stored. Two boxes: one is being stored
// while the other is filled.
#pragma once
#include "every_shape/product.cuh"

template <int BN> struct alignas(1024) Boxes {
    static constexpr int ROWS = 16, COLS = BN % 64 == 0 ? 64 : BN % 32 == 0 ? 32 : 16;
    static constexpr int CHUNKS = COLS / 8;  // of 16 bytes in a row
    alignas(512) bf16 box[2][ROWS * COLS];

    static CUtensorMap map(bf16* C, int M, int N) {
        return tensor_map_2d(C, M, N, ROWS, COLS, CHUNKS == 8   ? CU_TENSOR_MAP_SWIZZLE_128B
                                                  : CHUNKS == 4 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                                : CU_TENSOR_MAP_SWIZZLE_32B);
    }
    __device__ static unsigned pack(float low, float high) {
        const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
        return reinterpret_cast<const unsigned&>(both);
    }

    // A warp stores its rows of a tile of C, from row `row` and column `col` on. `turn` counts the
    // boxes of all tiles: a tile may have an odd number of them.
    __device__ void store(const float (&sums)[BN / 2], const CUtensorMap& C, int row, int col,
                          int& turn) {
        const int lane = threadIdx.x % 32, at = lane % 16;
#pragma unroll
        for (int part = 0; part < BN / COLS; ++part) {
            bf16* to = box[turn++ % 2];
            if (lane == 0) ptx::cp_async_bulk_wait_group_read<1>();  // the engine has read this box
            __syncwarp();
#pragma unroll
            for (int j = 0; j < COLS / 16; ++j) {  // the lane's row, 16 bytes of it
                const float* d = sums + part * COLS / 2 + j * 8;
                const int chunk = (2 * j + lane / 16) ^ at * CHUNKS / 8 % CHUNKS;
                ptx::stmatrix_x4(to + at * COLS + chunk * 8, pack(d[0], d[1]), pack(d[2], d[3]),
                                 pack(d[4], d[5]), pack(d[6], d[7]));
            }
            ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
            __syncwarp();                     // and the others
            if (lane == 0) {
                ptx::cp_async_bulk_tensor_store(C, col + part * COLS, row, to);
                ptx::cp_async_bulk_commit_group();
            }
        }
    }
};
