// What the kernels of *Tensor cores without Hopper* share: where a chunk lies in a tile, and how
// tiles are copied. Nothing here depends on the size of a warp.
//
// Elements have 16 bits (f16 or bf16), and sums are f32. A chunk is 8 elements, 16 bytes: what one
// lane copies at a time, and what ldmatrix takes as one row of an 8 × 8 matrix.
#pragma once
#ifdef __HIP_PLATFORM_AMD__
#include <hip/hip_fp16.h>
#else
#include "ptx.cuh"
#endif

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

// What the target decides, alike for the host's code and the device's: from sm_80 on tiles are
// copied by cp.async, and tensor cores know bf16.
#if defined(__HIP_PLATFORM_AMD__) || __CUDA_ARCH_LIST__ < 800
constexpr bool CP_ASYNC = false;
using Element = __half;
#else
constexpr bool CP_ASYNC = true;
using Element = __nv_bfloat16;
#endif

// Where chunk `chunk` of row `row` lies in a tile of COLS columns: bytes from its beginning. Eight
// chunks fill the 32 banks once. The swizzle gives the eight rows that one ldmatrix matrix takes
// from a column of chunks eight different places among those eight.
template <int COLS, bool SWIZZLE> __device__ int place(int row, int chunk) {
    constexpr int CHUNKS = COLS / 8;  // in a row
    static_assert(CHUNKS == 4 || CHUNKS % 8 == 0, "a row has 32 columns or a multiple of 64");
    if (SWIZZLE) chunk ^= CHUNKS == 4 ? row / 2 % 4 : row % 8;
    return (row * CHUNKS + chunk) * 16;
}

// Copy one chunk to shared memory; elements from number `inside` on become zero. ALIGN (16, 4 or
// 2 bytes) divides the global address and 2 · inside, so that each copy of ALIGN bytes is whole.
template <int ALIGN, bool ASYNC, class In>
__device__ void copy_chunk(char* shared, const In* global, int inside) {
    constexpr int COUNT = ALIGN / 2;  // elements in a copy
    if constexpr (ASYNC && ALIGN >= 4) {  // cp.async copies no 2 bytes
#ifndef __HIP_PLATFORM_AMD__
        for (int i = 0; i < 8; i += COUNT)
            ptx::cp_async<ALIGN>(shared + i * 2, global + i, i >= inside);
#endif
    } else {
        struct alignas(ALIGN) Some { In elements[COUNT]; };
        for (int i = 0; i < 8; i += COUNT) {
            Some some = {};
            if (i < inside) some = *reinterpret_cast<const Some*>(global + i);
            *reinterpret_cast<Some*>(shared + i * 2) = some;
        }
    }
}

// A thread's part in copying tiles of ROWS × COLS out of a row-major matrix. What lies outside the
// matrix becomes zero, and adds nothing to a product.
template <int ROWS, int COLS, int THREADS, int ALIGN, bool ASYNC, bool SWIZZLE, class In>
struct TileCopy {
    static constexpr int CHUNKS = COLS / 8;        // in a row
    static constexpr int STEP = THREADS / CHUNKS;  // rows that all threads cover at once
    static constexpr int COUNT = ROWS / STEP;      // chunks of a thread
    static_assert(THREADS % CHUNKS == 0 && ROWS % STEP == 0, "every thread copies as much");
    const In* from;  // this thread's first chunk
    int rows, cols;  // of the matrix, from there on
    int stride;
    int to;          // where the chunk goes: bytes from the beginning of the tile

    // The first tile begins at (row0, col0) of a matrix of rows × cols.
    __device__ TileCopy(const In* matrix, int rows, int cols, int stride, int row0, int col0)
        : stride(stride) {
        const int row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
        from = matrix + size_t(row0 + row) * stride + (col0 + chunk * 8);
        this->rows = rows - (row0 + row);
        this->cols = cols - (col0 + chunk * 8);
        to = place<COLS, SWIZZLE>(row, chunk);
    }

    // Copy this tile, or part `part` of `parts` of it.
    __device__ void operator()(char* tile, int part = 0, int parts = 1) const {
        static_assert(!SWIZZLE || STEP % 8 == 0 || CHUNKS < 8, "rows of one swizzle");
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (i * parts / COUNT == part)
                copy_chunk<ALIGN, ASYNC>(tile + to + i * STEP * CHUNKS * 16,
                                         from + size_t(i) * (STEP * stride),
                                         i * STEP < rows ? cols : 0);
    }

    // The next tile is the one below, or the one to the right.
    __device__ void down() { from += size_t(ROWS) * stride, rows -= ROWS; }
    __device__ void right() { from += COLS, cols -= COLS; }
};

// An element of C from its sum and what was there before.
template <class In, class Out>
__device__ Out scaled(const Gemm<In, Out>& g, float sum, Out old) {
    return Out(g.beta != 0 ? g.alpha * sum + g.beta * float(old) : g.alpha * sum);
}
