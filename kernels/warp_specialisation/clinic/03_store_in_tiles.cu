// An index that counts tiles, used to count elements.
#include "warp_specialisation/ring.cuh"

constexpr int M = 64, N = 64, K = 64;  // C = A · B, row-major f32
constexpr int T = 32;                  // a block computes a tile of C, T × T
constexpr int THREADS = 128;

__shared__ float a[T][T], b[T][T];

// Where a tile of C begins.
__device__ float* corner(float* C, int row, int col) { return C + row * N + col; }  // <- see

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    const int tile_row = blockIdx.x / (N / T), tile_col = blockIdx.x % (N / T);
    float c[8] = {};  // column x of rows y, y + 4, … of the tile
    for (int k0 = 0; k0 < K; k0 += T) {
        for (int row = y; row < T; row += 4) {
            a[row][x] = A[(tile_row * T + row) * K + k0 + x];
            b[row][x] = B[(k0 + row) * N + tile_col * T + x];
        }
        __syncthreads();
        for (int k = 0; k < T; ++k)
            for (int i = 0; i < 8; ++i) c[i] += a[y + 4 * i][k] * b[k][x];
        __syncthreads();
    }
#ifndef REPAIRED
    float* tile = corner(C, tile_row, tile_col);
#else
    float* tile = corner(C, tile_row * T, tile_col * T);
#endif
    for (int i = 0; i < 8; ++i) tile[(y + 4 * i) * N + x] = c[i];  // <- race
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<(M / T) * (N / T), THREADS>>>(A, B, C);
}

#include "harness.cuh"
