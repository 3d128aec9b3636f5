// A warp that only starts copies; the copies themselves arrive at the full barrier.
#include "asynchronous_copies/filter.cuh"
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline_primitives.h>

constexpr int CONSUMERS = 128;            // threads: 4 warps
constexpr int PRODUCERS = 32;             // threads: 1 warp, behind the consumers
constexpr int THREADS = CONSUMERS + PRODUCERS;
constexpr int TILE = 4 * CONSUMERS;       // outputs of a tile: four a consumer
constexpr int CHUNKS = TILE / 4 + 2;      // a tile and its neighbours, in pieces of 16 bytes
constexpr int STAGES = 4;                 // slots of the ring; 2 KiB and 32 bytes each

struct Ring {
    float4 slot[STAGES][CHUNKS];
    __mbarrier_t full[STAGES];   // "the consumers may read the slot"
    __mbarrier_t empty[STAGES];  // "the producers may write the slot"
};

__device__ void wait(__mbarrier_t& barrier, bool parity) {
    while (!__mbarrier_try_wait_parity(&barrier, parity, 1000)) continue;  // ns a try
}

__device__ void produce(Ring& ring, const float* x, int n, int tiles) {
    int slot = 0, phase = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int first = tile * TILE - RADIUS;
        const bool whole = first >= 0 && first + 4 * CHUNKS <= n;
        wait(ring.empty[slot], phase ^ 1);
        for (int chunk = threadIdx.x - CONSUMERS; chunk < CHUNKS; chunk += PRODUCERS) {
            float4* there = &ring.slot[slot][chunk];
            if (whole) __pipeline_memcpy_async(there, x + first + 4 * chunk, 16);
            else *there = read_chunk(x, n, first + 4 * chunk);
        }
        __pipeline_arrive_on(&ring.full[slot]);  // one arrival more, when my copies are done
        __mbarrier_arrive(&ring.full[slot]);     // I have started them all
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
}

__device__ void consume(Ring& ring, float* y, int n, int tiles, const Weights& weights) {
    int slot = 0, phase = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        wait(ring.full[slot], phase);
        weigh(ring.slot[slot], y, n, tile * TILE + 4 * threadIdx.x, weights);
        __mbarrier_arrive(&ring.empty[slot]);
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
}

__global__ void __launch_bounds__(THREADS)
filter(const float* __restrict__ x,  // (n)
       float* __restrict__ y,        // (n): y[i] = Σ weights[j] · x[i + j - RADIUS]
       int n, Weights weights)
{
    __shared__ Ring ring;
    if (threadIdx.x < STAGES) {
        __mbarrier_init(&ring.full[threadIdx.x], PRODUCERS);
        __mbarrier_init(&ring.empty[threadIdx.x], CONSUMERS);
    }
    __syncthreads();  // nobody arrives before the barriers exist
    const int tiles = (n + TILE - 1) / TILE;
    if (threadIdx.x < CONSUMERS) consume(ring, y, n, tiles, weights);
    else produce(ring, x, n, tiles);
}

void launch(const float* x, float* y, int n, Weights weights, int blocks) {
    filter<<<blocks, THREADS>>>(x, y, n, weights);
}

#include "asynchronous_copies/filter_harness.cuh"
