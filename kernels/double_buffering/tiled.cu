// One tile at a time: everyone loads, everyone waits, everyone multiplies,
// everyone waits.
constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 32;                   // depth of a tile
constexpr int THREADS = 512;             // 16 warps, one block
constexpr int ROWS = THREADS / N;        // rows that all threads cover at once: 16
static_assert(K % BK == 0, "K must be whole tiles");

__global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A,  // (M, K)
       const float* __restrict__ B,  // (K, N)
       float* __restrict__ C)        // (M, N)
{
    __shared__ float a[M][BK];  // one tile of A, 4 KiB
    __shared__ float b[BK][N];  // one tile of B, 4 KiB
    const int x = threadIdx.x % 32;  // column of C; lane of the warp
    const int y = threadIdx.x / 32;  // first row of C; number of the warp
    float c[M / ROWS] = {};          // this thread's C[y][x] and C[y + 16][x]

    for (int k0 = 0; k0 < K; k0 += BK) {
        // Fixed counts, so that the compiler starts all loads of a tile
        // before it waits for the first.
        for (int i = 0; i < M / ROWS; ++i)
            a[y + i * ROWS][x] = A[(y + i * ROWS) * K + k0 + x];
        for (int i = 0; i < BK / ROWS; ++i)
            b[y + i * ROWS][x] = B[(k0 + y + i * ROWS) * N + x];
        __syncthreads();  // the tile is full

        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < M / ROWS; ++i)
                c[i] += a[y + i * ROWS][k] * b[k][x];
        __syncthreads();  // the tile is empty again
    }
    for (int i = 0; i < M / ROWS; ++i) C[(y + i * ROWS) * N + x] = c[i];
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
