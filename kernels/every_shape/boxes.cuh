// C by the copy engine: a warp lays its 16 rows of a tile into boxes in shared memory, swizzled, and
// one of its threads has them stored. A part is as many columns as its COUNT boxes hold.
#pragma once
#include "every_shape/product.cuh"

// A thread's results of 64 rows and BN columns, two in a register.
template <int BN> using Results = unsigned[BN / 4];

template <int BN> __device__ void round(const float (&sums)[BN / 2], Results<BN>& results) {
    for (int i = 0; i < BN / 4; ++i) {
        const __nv_bfloat162 both = __floats2bfloat162_rn(sums[2 * i], sums[2 * i + 1]);
        results[i] = reinterpret_cast<const unsigned&>(both);
    }
}

template <int BN, int COUNT> struct alignas(1024) Boxes {
    static constexpr int ROWS = 16, COLS = BN % 64 == 0 ? 64 : BN % 32 == 0 ? 32 : 16;
    static constexpr int CHUNKS = COLS / 8;  // of 16 bytes in a row
    static constexpr int PARTS = over(BN / COLS, COUNT);
    alignas(512) bf16 box[COUNT][ROWS * COLS];

    static CUtensorMap map(bf16* C, int M, int N) {
        return tensor_map_2d(C, M, N, ROWS, COLS, CHUNKS == 8   ? CU_TENSOR_MAP_SWIZZLE_128B
                                                  : CHUNKS == 4 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                                : CU_TENSOR_MAP_SWIZZLE_32B);
    }

    // A warp stores a part of its rows of a tile of C, which begin at row `row` and column `col`.
    // (Registers have no index: each part has code of its own.)
    __device__ void store(const Results<BN>& results, int part, const CUtensorMap& C, int row,
                          int col) {
        const int lane = threadIdx.x % 32, at = lane % 16;
        if (lane == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the boxes have been read
        __syncwarp();
#pragma unroll
        for (int i = 0; i < BN / 16; ++i) {  // the lane's row, 16 bytes of it
            const int number = i * 16 / COLS, chunk = (2 * i + lane / 16) % CHUNKS;
            if (number / COUNT != part) continue;
            ptx::stmatrix_x4(box[number % COUNT] + at * COLS +
                             (chunk ^ at * CHUNKS / 8 % CHUNKS) * 8,
                             results[4 * i], results[4 * i + 1], results[4 * i + 2],
                             results[4 * i + 3]);
        }
        ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
        __syncwarp();                     // and the others
        if (lane == 0) {
            for (int i = 0; i < COUNT && part * COUNT + i < BN / COLS; ++i)
                ptx::cp_async_bulk_tensor_store(C, col + (part * COUNT + i) * COLS, row, box[i]);
            ptx::cp_async_bulk_commit_group();
        }
    }
};
