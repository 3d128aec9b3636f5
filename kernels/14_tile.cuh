// What the tensor-core kernels of chapter 14 share: where a chunk lies in a tile, how tiles are
// copied, how a warp's fragments are loaded and multiplied, and how C is written.
//
// Elements have 16 bits (f16 or bf16), and sums are f32. A chunk is 8 elements, 16 bytes: what one
// lane copies at a time, and what ldmatrix takes as one row of an 8 × 8 matrix.
#pragma once
#include "ptx.cuh"

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

// Whether tiles are copied by cp.async: from sm_80 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool CP_ASYNC = false;
#else
constexpr bool CP_ASYNC = true;
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

// Copy one chunk to shared memory; past its first `inside` elements it becomes zero. ALIGN is what
// the global address is a multiple of, in bytes: 16, 4 or 2.
template <int ALIGN, bool ASYNC, class In>
__device__ void copy_chunk(char* shared, const In* global, int inside) {
    if constexpr (ASYNC && ALIGN == 16) {
        ptx::cp_async<16>(shared, global, inside * 2);
    } else if constexpr (ASYNC && ALIGN == 4) {
        for (int at = 0; at < 16; at += ALIGN)
            ptx::cp_async<ALIGN>(shared + at, global + at / 2, max(0, min(ALIGN, inside * 2 - at)));
    } else if (ALIGN == 16 && inside == 8) {
        *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(global);
    } else {  // cp.async copies no 2 bytes
        for (int i = 0; i < 8; ++i)
            reinterpret_cast<In*>(shared)[i] = i < inside ? global[i] : In(0.0f);
    }
}

// All threads of the block copy a tile of ROWS × COLS that begins at (row0, col0) of a matrix of
// rows × cols, or part `part` of PARTS of it. What lies outside the matrix becomes zero, and adds
// nothing to a product.
template <int ROWS, int COLS, int THREADS, int ALIGN, bool ASYNC, bool SWIZZLE, int PARTS = 1,
          class In>
__device__ void copy_tile(char* tile, const In* matrix, int rows, int cols, int stride, int row0,
                          int col0, int part = 0) {
    constexpr int CHUNKS = COLS / 8;        // in a row
    constexpr int STEP = THREADS / CHUNKS;  // rows that all threads cover at once
    constexpr int COUNT = ROWS / STEP;      // chunks of a thread
    static_assert(THREADS % CHUNKS == 0 && ROWS % STEP == 0, "every thread copies as much");
    const int chunk = threadIdx.x % CHUNKS, first = threadIdx.x / CHUNKS;
    const int inside = max(0, min(8, cols - (col0 + chunk * 8)));
    const In* from = matrix + size_t(row0 + first) * stride + (col0 + chunk * 8);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        if (i * PARTS / COUNT != part) continue;
        const int row = first + i * STEP;
        copy_chunk<ALIGN, ASYNC>(tile + place<COLS, SWIZZLE>(row, chunk),
                                 from + size_t(i * STEP) * stride,
                                 row0 + row < rows ? inside : 0);
    }
}

// What one warp multiplies in a step of 16 along K: WM × 16 of A, 16 × WN of B.
template <class In, int WM, int WN> struct Fragments {
    unsigned a[WM / 16][4];
    unsigned b[WN / 8][2];

    // Load step `step` of a tile of A (…, BK) and of B (BK, BN); the warp's part begins at row wm
    // of A and column wn of B. Lane l names row l % 16 and chunk l / 16 of each 16 × 16 piece.
    template <int BK, int BN, bool SWIZZLE>
    __device__ void load(const char* a_tile, const char* b_tile, int wm, int wn, int step) {
        const int row = threadIdx.x % 16, chunk = threadIdx.x / 16 % 2;
#pragma unroll
        for (int i = 0; i < WM / 16; ++i)
            ptx::ldmatrix_x4(a[i][0], a[i][1], a[i][2], a[i][3],
                             a_tile + place<BK, SWIZZLE>(wm + i * 16 + row, step * 2 + chunk));
#pragma unroll
        for (int j = 0; j < WN / 8; j += 2)
            ptx::ldmatrix_x4_trans(b[j][0], b[j][1], b[j + 1][0], b[j + 1][1],
                                   b_tile + place<BN, SWIZZLE>(step * 16 + row, wn / 8 + j + chunk));
    }
};

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

  private:
    template <class In, class Out>
    __device__ static Out scaled(const Gemm<In, Out>& g, float sum, Out old) {
        return Out(g.beta != 0 ? g.alpha * sum + g.beta * float(old) : g.alpha * sum);
    }
};
