// The last tile of a pipeline of copies.
#include "warp_specialisation/ring.cuh"

constexpr int M = 32, N = 32, K = 256;  // C = A · B, row-major f32
constexpr int BK = 32;                  // depth of a tile
constexpr int TILES = K / BK;
constexpr int SLOTS = 2;                // one is multiplied, one is under way
constexpr int THREADS = 256;

__shared__ alignas(16) float a[SLOTS][M][BK], b[SLOTS][BK][N];

// Start the copies of a tile, 16 bytes of A and of B a thread, as one group.
__device__ void fetch(const float* A, const float* B, int tile) {  // <- see
    const int row = threadIdx.x / 8, x = threadIdx.x % 8 * 4, slot = tile % SLOTS;
    copy16(&a[slot][row][x], A + row * K + tile * BK + x);
    copy16(&b[slot][row][x], B + (tile * BK + row) * N + x);
    commit();
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    float c[4] = {};  // column x of rows y, y + 8, …
    fetch(A, B, 0);
    for (int tile = 0; tile < TILES; ++tile) {
        if (tile + 1 < TILES) fetch(A, B, tile + 1);
#ifndef REPAIRED
        wait_copies<1>();  // all but the newest: the next tile's
#else
        if (tile + 1 < TILES) wait_copies<1>();  // the newest group is the next tile's
        else wait_copies<0>();                   // there is no next tile
#endif
        __syncthreads();
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 4; ++i)
                c[i] += a[tile % SLOTS][y + 8 * i][k] * b[tile % SLOTS][k][x];  // <- async
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) C[(y + 8 * i) * N + x] = c[i];
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
