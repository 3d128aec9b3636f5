// One slot, no asynchrony: each tile passes through registers on its way into shared memory.
#include "asynchronous_copies/filter.cuh"

constexpr int THREADS = 128;              // 4 warps
constexpr int TILE = 4 * THREADS;         // outputs of a tile: four a thread
constexpr int CHUNKS = TILE / 4 + 2;      // a tile and its neighbours, in pieces of 16 bytes

__global__ void __launch_bounds__(THREADS)
filter(const float* __restrict__ x,  // (n)
       float* __restrict__ y,        // (n): y[i] = Σ weights[j] · x[i + j - RADIUS]
       int n, Weights weights)
{
    __shared__ float4 slot[CHUNKS];  // 2 KiB and 32 bytes
    const int tiles = (n + TILE - 1) / TILE;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (int chunk = threadIdx.x; chunk < CHUNKS; chunk += THREADS)
            slot[chunk] = read_chunk(x, n, tile * TILE - RADIUS + 4 * chunk);
        __syncthreads();  // the tile is full
        weigh(slot, y, n, tile * TILE + 4 * threadIdx.x, weights);
        __syncthreads();  // the tile is empty again
    }
}

void launch(const float* x, float* y, int n, Weights weights, int blocks) {
    filter<<<blocks, THREADS>>>(x, y, n, weights);
}

#include "asynchronous_copies/filter_harness.cuh"
