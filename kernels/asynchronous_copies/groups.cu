// Copies in groups: STAGES tiles are under way, one group a tile, and nobody carries a float.
#include "asynchronous_copies/filter.cuh"
#include <cuda_pipeline_primitives.h>

constexpr int THREADS = 128;              // 4 warps
constexpr int TILE = 4 * THREADS;         // outputs of a tile: four a thread
constexpr int CHUNKS = TILE / 4 + 2;      // a tile and its neighbours, in pieces of 16 bytes
constexpr int STAGES = 4;                 // slots of the ring; 2 KiB and 32 bytes each

// Start this thread's copies of a tile; a tile at an end of x goes through registers.
__device__ void fetch(float4* slot, const float* x, int n, int tile) {
    const int first = tile * TILE - RADIUS;
    const bool whole = first >= 0 && first + 4 * CHUNKS <= n;
    for (int chunk = threadIdx.x; chunk < CHUNKS; chunk += THREADS)
        if (whole) __pipeline_memcpy_async(&slot[chunk], x + first + 4 * chunk, 16);
        else slot[chunk] = read_chunk(x, n, first + 4 * chunk);
}

__global__ void __launch_bounds__(THREADS)
filter(const float* __restrict__ x,  // (n)
       float* __restrict__ y,        // (n): y[i] = Σ weights[j] · x[i + j - RADIUS]
       int n, Weights weights)
{
    __shared__ float4 ring[STAGES][CHUNKS];
    const int tiles = (n + TILE - 1) / TILE;
    int next = blockIdx.x;  // the tile to fetch next
    for (int stage = 0; stage < STAGES - 1; ++stage, next += gridDim.x) {
        if (next < tiles) fetch(ring[stage], x, n, next);
        __pipeline_commit();
    }
    int slot = 0, free = STAGES - 1;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, next += gridDim.x) {
        if (next < tiles) fetch(ring[free], x, n, next);
        __pipeline_commit();  // a group a tile, also when there is nothing left to fetch
        __pipeline_wait_prior(STAGES - 1);  // my copies of this tile have arrived
        __syncthreads();                    // and everybody's: the slot is full
        weigh(ring[slot], y, n, tile * TILE + 4 * threadIdx.x, weights);
        __syncthreads();                    // the slot is empty again
        free = slot;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
}

void launch(const float* x, float* y, int n, Weights weights, int blocks) {
    filter<<<blocks, THREADS>>>(x, y, n, weights);
}

#include "asynchronous_copies/filter_harness.cuh"
