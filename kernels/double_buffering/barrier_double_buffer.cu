// Two slots, two roles: eight warps fill one slot while eight warps multiply
// what is in the other.
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 32;                   // depth of a tile
constexpr int TILES = K / BK;            // jobs to hand over
constexpr int SLOTS = 2;                 // tiles that fit in the ring
constexpr int PRODUCERS = 256;           // threads: 8 warps
constexpr int CONSUMERS = 256;           // threads: 8 warps
constexpr int THREADS = PRODUCERS + CONSUMERS;
constexpr int ROWS = CONSUMERS / N;      // rows that one role covers at once: 8
static_assert(K % BK == 0 && PRODUCERS == CONSUMERS,
              "whole tiles; the roles share ROWS");

struct Ring {
    float a[SLOTS][M][BK];  // tiles of A, 4 KiB a slot
    float b[SLOTS][BK][N];  // tiles of B, 4 KiB a slot
    barrier full[SLOTS];    // "the consumers may read the slot"
    barrier empty[SLOTS];   // "the producers may write the slot"
};

// One slot further, as in *Barriers*. There is no phase bit to flip: the
// barrier's token carries it.
__device__ int advance(int slot) { return slot + 1 == SLOTS ? 0 : slot + 1; }

__device__ void produce(Ring& ring, const float* __restrict__ A,
                        const float* __restrict__ B) {
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (int tile = 0, slot = 0; tile < TILES; ++tile, slot = advance(slot)) {
        ring.empty[slot].arrive_and_wait();
        const int k0 = tile * BK;
        for (int row = y; row < M; row += ROWS)
            ring.a[slot][row][x] = A[row * K + k0 + x];
        for (int k = y; k < BK; k += ROWS)
            ring.b[slot][k][x] = B[(k0 + k) * N + x];
        (void)ring.full[slot].arrive();
    }
}

__device__ void consume(Ring& ring, float* __restrict__ C) {
    const int x = threadIdx.x % 32, y = threadIdx.x / 32 - PRODUCERS / 32;
    float c[M / ROWS] = {};  // this thread's column x of rows y, y + 8, …
    // Before the first tile: there is nothing in the slots.
    for (int slot = 0; slot < SLOTS; ++slot) (void)ring.empty[slot].arrive();
    for (int tile = 0, slot = 0; tile < TILES; ++tile, slot = advance(slot)) {
        ring.full[slot].arrive_and_wait();
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < M / ROWS; ++i)
                c[i] += ring.a[slot][y + i * ROWS][k] * ring.b[slot][k][x];
        (void)ring.empty[slot].arrive();
    }
    for (int i = 0; i < M / ROWS; ++i) C[(y + i * ROWS) * N + x] = c[i];
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    // Raw memory, since a shared variable may have no constructor to run.
    __shared__ alignas(Ring) char memory[sizeof(Ring)];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    if (threadIdx.x < SLOTS) {
        // Both roles arrive at each barrier: one to signal, one to wait.
        init(&ring.full[threadIdx.x], THREADS);
        init(&ring.empty[threadIdx.x], THREADS);
    }
    __syncthreads();  // nobody arrives before the barriers exist

    if (threadIdx.x < PRODUCERS) produce(ring, A, B);
    else consume(ring, C);
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
