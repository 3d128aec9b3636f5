// One thread of each producing warp loads; the consumers have a barrier at the end.
#include "warp_specialisation/ring.cuh"

constexpr int M = 32, N = 32, K = 256;  // C = A · B, row-major f32
constexpr int BK = 32;                  // depth of a tile
constexpr int TILES = K / BK;           // jobs to hand over
constexpr int SLOTS = 2;                // tiles that fit in the ring
constexpr int PRODUCERS = 128, CONSUMERS = 128, THREADS = PRODUCERS + CONSUMERS;

__shared__ float a[SLOTS][M][BK];              // tiles of A
__shared__ float b[SLOTS][BK][N];              // tiles of B
__shared__ float out[M][N];                    // the result
__shared__ Barrier full[SLOTS], empty[SLOTS];  // may be read, may be written

__device__ void produce(const float* A, const float* B) {
    const int y = threadIdx.x / 32;  // warp
    Place at;
    for (int tile = 0; tile < TILES; ++tile, at = advance(at, SLOTS)) {
        wait(empty[at.slot], at.phase ^ 1);
        for (int row = y; row < 32; row += 4) {
            for (int x = 0; x < 32; ++x) {
                a[at.slot][row][x] = A[row * K + tile * BK + x];
                b[at.slot][row][x] = B[(tile * BK + row) * N + x];
            }
        }
        arrive(full[at.slot]);
    }
}

__device__ void consume(float* C) {
    const int x = threadIdx.x % 32, y = (threadIdx.x - PRODUCERS) / 32;
    float c[8] = {};  // column x of rows y, y + 4, …
    Place at;
    for (int tile = 0; tile < TILES; ++tile, at = advance(at, SLOTS)) {
        wait(full[at.slot], at.phase);
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 8; ++i)
                c[i] += a[at.slot][y + 4 * i][k] * b[at.slot][k][x];
        arrive(empty[at.slot]);
    }
    for (int i = 0; i < 8; ++i) out[y + 4 * i][x] = c[i];
#ifndef REPAIRED
    __syncthreads();  // <- see
#else
    sync(1, CONSUMERS);
#endif
    if (y == 0)
        for (int row = 0; row < M; ++row) C[row * N + x] = out[row][x];
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    if (threadIdx.x < SLOTS) {
        init(full[threadIdx.x], PRODUCERS / 32);
        init(empty[threadIdx.x], CONSUMERS);
    }
    __syncthreads();  // nobody arrives before the barriers exist
    if (threadIdx.x >= PRODUCERS) consume(C);
    else if (threadIdx.x % 32 == 0) produce(A, B);
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
