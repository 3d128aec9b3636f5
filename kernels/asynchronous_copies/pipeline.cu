// The same ring as a cuda::pipeline: acquire, copy, commit; wait, read, release.
#include "asynchronous_copies/filter.cuh"
#include <cooperative_groups.h>
#include <cuda/pipeline>

constexpr int THREADS = 128;              // 4 warps
constexpr int TILE = 4 * THREADS;         // outputs of a tile: four a thread
constexpr int CHUNKS = TILE / 4 + 2;      // a tile and its neighbours, in pieces of 16 bytes
constexpr int STAGES = 4;                 // slots of the ring; 2 KiB and 32 bytes each
constexpr auto BLOCK = cuda::thread_scope_block;

// Start this thread's copies of a tile; a tile at an end of x goes through registers.
__device__ void fetch(cuda::pipeline<BLOCK>& pipe, float4* slot, const float* x, int n, int tile) {
    const int first = tile * TILE - RADIUS;
    const bool whole = first >= 0 && first + 4 * CHUNKS <= n;
    for (int chunk = threadIdx.x; chunk < CHUNKS; chunk += THREADS)
        if (whole)
            cuda::memcpy_async(&slot[chunk], reinterpret_cast<const float4*>(x + first) + chunk,
                               cuda::aligned_size_t<16>(16), pipe);
        else slot[chunk] = read_chunk(x, n, first + 4 * chunk);
}

__global__ void __launch_bounds__(THREADS)
filter(const float* __restrict__ x,  // (n)
       float* __restrict__ y,        // (n): y[i] = Σ weights[j] · x[i + j - RADIUS]
       int n, Weights weights)
{
    __shared__ float4 ring[STAGES][CHUNKS];
    // Raw memory, since a shared variable may have no constructor to run.
    using State = cuda::pipeline_shared_state<BLOCK, STAGES>;
    __shared__ alignas(State) char memory[sizeof(State)];
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(),
                                    reinterpret_cast<State*>(memory));
    const int tiles = (n + TILE - 1) / TILE;
    int next = blockIdx.x, free = 0, slot = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        for (; next < tiles && next < tile + STAGES * int(gridDim.x); next += gridDim.x) {
            pipe.producer_acquire();  // the slot is empty
            fetch(pipe, ring[free], x, n, next);
            pipe.producer_commit();
            free = free + 1 == STAGES ? 0 : free + 1;
        }
        pipe.consumer_wait();  // the slot is full
        weigh(ring[slot], y, n, tile * TILE + 4 * threadIdx.x, weights);
        pipe.consumer_release();
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
}

void launch(const float* x, float* y, int n, Weights weights, int blocks) {
    filter<<<blocks, THREADS>>>(x, y, n, weights);
}

#include "asynchronous_copies/filter_harness.cuh"
