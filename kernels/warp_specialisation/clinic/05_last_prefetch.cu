// The tile after the last one.
#include "warp_specialisation/ring.cuh"

constexpr int M = 32, N = 32, K = 256;  // C = A · B, row-major f32
constexpr int BK = 32;                  // depth of a tile
constexpr int TILES = K / BK;
constexpr int THREADS = 128;

__shared__ float a[M][BK], b[BK][N];

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    float c[8] = {};  // column x of rows y, y + 4, …
    float next_a[8], next_b[8];
    for (int i = 0; i < 8; ++i) {
        next_a[i] = A[(y + 4 * i) * K + x];
        next_b[i] = B[(y + 4 * i) * N + x];
    }
    for (int tile = 0; tile < TILES; ++tile) {
        for (int i = 0; i < 8; ++i) {
            a[y + 4 * i][x] = next_a[i];
            b[y + 4 * i][x] = next_b[i];
        }
        __syncthreads();
#ifndef REPAIRED
        for (int i = 0; i < 8; ++i) {  // the next tile, while this one is used
#else
        for (int i = 0; i < 8 && tile + 1 < TILES; ++i) {  // fetch the next, if there is one
#endif
            next_a[i] = A[(y + 4 * i) * K + (tile + 1) * BK + x];    // <- fault
            next_b[i] = B[((tile + 1) * BK + y + 4 * i) * N + x];  // <- fault
        }
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 8; ++i) c[i] += a[y + 4 * i][k] * b[k][x];
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) C[(y + 4 * i) * N + x] = c[i];
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
