// The sums are declared at the top of the kernel, before the roles part.
#include "warp_specialisation/ring.cuh"

constexpr int M = 256, N = 192, K = 1024;  // C = A · B, row-major f32
constexpr int BK = 8;                      // depth of a tile
constexpr int TILES = K / BK, SLOTS = 2;
constexpr int GROUP = 128;                 // threads of a warp group
constexpr int THREADS = 3 * GROUP;         // one group loads, two multiply
constexpr int ROWS = 16, COLS = 12;        // of C, for each consumer

__shared__ float a[SLOTS][BK][M + 4];  // tiles of A, transposed, padded
__shared__ float b[SLOTS][BK][N];      // tiles of B
__shared__ Barrier full[SLOTS], empty[SLOTS];

__device__ inline void produce(const float* A, const float* B) {
    Place at;
    for (int tile = 0; tile < TILES; ++tile, at = advance(at, SLOTS)) {
        wait(empty[at.slot], at.phase ^ 1);
        for (int i = threadIdx.x; i < M * BK; i += GROUP)
            a[at.slot][i % BK][i / BK] = A[i / BK * K + tile * BK + i % BK];
        for (int i = threadIdx.x; i < BK * N; i += GROUP)
            b[at.slot][i / N][i % N] = B[tile * BK * N + i];
        arrive(full[at.slot]);
    }
}

__device__ inline void consume(float* C, float (&c)[ROWS][COLS]) {
    const int row = (threadIdx.x - GROUP) / 16 * ROWS, col = threadIdx.x % 16 * 4;
    Place at;
    for (int tile = 0; tile < TILES; ++tile, at = advance(at, SLOTS)) {
        wait(full[at.slot], at.phase);
#pragma unroll 1
        for (int k = 0; k < BK; ++k) {
            float x[ROWS], y[COLS];
            for (int i = 0; i < ROWS; ++i) x[i] = a[at.slot][k][row + i];
            for (int j = 0; j < COLS; ++j)
                y[j] = b[at.slot][k][j / 4 * 64 + col + j % 4];
            for (int i = 0; i < ROWS; ++i)
                for (int j = 0; j < COLS; ++j) c[i][j] += x[i] * y[j];
        }
        arrive(empty[at.slot]);
    }
    for (int i = 0; i < ROWS; ++i)
        for (int j = 0; j < COLS; ++j)
            C[(row + i) * N + j / 4 * 64 + col + j % 4] = c[i][j];
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    float c[ROWS][COLS] = {};  // 192 registers
    if (threadIdx.x < SLOTS) {
        init(full[threadIdx.x], GROUP);
        init(empty[threadIdx.x], 2 * GROUP);
    }
    __syncthreads();
    if (threadIdx.x < GROUP) produce(A, B);
    else consume(C, c);
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
