// Two slots, no roles: every thread starts its loads of the next tile, multiplies this one, and
// then stores what it loaded into the other slot. One barrier a tile.
constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 32;                   // depth of a tile
constexpr int TILES = K / BK;            // tiles of A, and of B
constexpr int THREADS = 256;             // 8 warps, one block; each multiplies as the ring's do
constexpr int ROWS = THREADS / N;        // rows that all threads cover at once: 8
static_assert(K % BK == 0, "K must be whole tiles");

__global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A,  // (M, K)
       const float* __restrict__ B,  // (K, N)
       float* __restrict__ C)        // (M, N)
{
    __shared__ float a[2][M][BK];  // two tiles of A, 4 KiB each
    __shared__ float b[2][BK][N];  // two tiles of B, 4 KiB each
    const int x = threadIdx.x % 32;  // column of C; lane of the warp
    const int y = threadIdx.x / 32;  // first row of C; number of the warp
    float c[M / ROWS] = {};          // this thread's column x of rows y, y + 8, …
    float next_a[M / ROWS], next_b[BK / ROWS];  // its share of the next tile, on its way

    auto load = [&](int tile) {
        for (int i = 0; i < M / ROWS; ++i) next_a[i] = A[(y + i * ROWS) * K + tile * BK + x];
        for (int i = 0; i < BK / ROWS; ++i) next_b[i] = B[(tile * BK + y + i * ROWS) * N + x];
    };
    auto store = [&](int slot) {
        for (int i = 0; i < M / ROWS; ++i) a[slot][y + i * ROWS][x] = next_a[i];
        for (int i = 0; i < BK / ROWS; ++i) b[slot][y + i * ROWS][x] = next_b[i];
    };

    load(0);
    store(0);
    __syncthreads();  // the first tile is full
    for (int tile = 0, slot = 0; tile < TILES; ++tile, slot = 1 - slot) {
        if (tile + 1 < TILES) load(tile + 1);  // nobody waits for it yet
#pragma unroll 8  // written out in full, the compiler may move loads behind the products
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < M / ROWS; ++i)
                c[i] += a[slot][y + i * ROWS][k] * b[slot][k][x];
        if (tile + 1 < TILES) store(1 - slot);  // here a thread waits for its loads
        __syncthreads();  // the other slot is full, and this one is empty
    }
    for (int i = 0; i < M / ROWS; ++i) C[(y + i * ROWS) * N + x] = c[i];
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
