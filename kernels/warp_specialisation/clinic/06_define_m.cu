// A macro with a short name.
#include "warp_specialisation/ring.cuh"

#ifndef REPAIRED
#define M 32
#define N 32
#define K 256
#else
constexpr int M = 32, N = 32, K = 256;  // C = A · B, row-major f32
#endif
constexpr int BK = 32;  // depth of a tile
constexpr int THREADS = 128;

__shared__ float a[32][BK], b[BK][32];

// Rows 0 to M - 1 of a tile, four warps.
__device__ void load(float (*to)[32], const float* from, int M, int stride) {  // <- compile
    for (int row = threadIdx.x / 32; row < M; row += 4)
        to[row][threadIdx.x % 32] = from[row * stride + threadIdx.x % 32];
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    float c[8] = {};  // column x of rows y, y + 4, …
    for (int k0 = 0; k0 < K; k0 += BK) {
        load(a, A + k0, 32, K);
        load(b, B + k0 * N, BK, N);
        __syncthreads();
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
