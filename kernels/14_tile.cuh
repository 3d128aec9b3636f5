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

// Copy one chunk to shared memory; elements from number `inside` on become zero. ALIGN (16, 4 or
// 2 bytes) divides the global address and 2 · inside, so that each copy of ALIGN bytes is whole.
template <int ALIGN, bool ASYNC, class In>
__device__ void copy_chunk(char* shared, const In* global, int inside) {
    constexpr int COUNT = ALIGN / 2;  // elements in a copy
    if constexpr (ASYNC && ALIGN >= 4) {
        for (int i = 0; i < 8; i += COUNT)
            ptx::cp_async<ALIGN>(shared + i * 2, global + i, i >= inside);
    } else {  // cp.async copies no 2 bytes
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

// What one warp multiplies in a step of 16 along K: WM × 16 of A, 16 × WN of B.
template <class In, int WM, int WN> struct Fragments {
    unsigned a[WM / 16][4];
    unsigned b[WN / 8][2];

    // Load step `step` of a tile of A (…, BK) and one of B (BK, BN). `a_lane` and `b_lane` are
    // where this lane's row of the first piece lies: see lane_a and lane_b. Other pieces of the
    // same rows lie 2, 4, … chunks further, whose numbers the swizzle has exclusive-ored.
    template <int BK, int BN>
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

  private:
    template <class In, class Out>
    __device__ static Out scaled(const Gemm<In, Out>& g, float sum, Out old) {
        return Out(g.beta != 0 ? g.alpha * sum + g.beta * float(old) : g.alpha * sum);
    }
};
