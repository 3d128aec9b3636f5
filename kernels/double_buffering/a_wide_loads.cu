// Two slots, two roles, and a producer that asks for its whole share of a tile before it waits
// for any of it: one load of sixteen bytes from A, one from B.
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 32;                   // depth of a tile
constexpr int TILES = K / BK;            // jobs to hand over
constexpr int SLOTS = 2;                 // tiles that fit in the ring
constexpr int PRODUCERS = 256;           // threads: 8 warps
constexpr int CONSUMERS = 256;           // threads: 8 warps
constexpr int THREADS = PRODUCERS + CONSUMERS;
constexpr int ROWS = CONSUMERS / N;      // rows that the consumers cover at once: 8
static_assert(K % BK == 0, "K must be whole tiles");
static_assert(PRODUCERS * 4 == M * BK && PRODUCERS * 4 == BK * N, "four floats a thread and tile");

struct Ring {
    float a[SLOTS][M][BK];  // tiles of A, 4 KiB a slot
    float b[SLOTS][BK][N];  // tiles of B, 4 KiB a slot
    barrier full[SLOTS];    // "the consumers may read the slot"
    barrier empty[SLOTS];   // "the producers may write the slot"
};

__device__ int advance(int slot) { return slot + 1 == SLOTS ? 0 : slot + 1; }

// Four neighbouring floats as one value; the first must be aligned to 16 bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}

__device__ void produce(Ring& ring, const float* __restrict__ A,
                        const float* __restrict__ B) {
    const int x = threadIdx.x % 8 * 4, y = threadIdx.x / 8;  // its first column; its row
    for (int tile = 0, slot = 0; tile < TILES; ++tile, slot = advance(slot)) {
        ring.empty[slot].arrive_and_wait();
        const int k0 = tile * BK;
        const float4 a = four(A[y * K + k0 + x]), b = four(B[(k0 + y) * N + x]);
        four(ring.a[slot][y][x]) = a;
        four(ring.b[slot][y][x]) = b;
        (void)ring.full[slot].arrive();
    }
}

__device__ void consume(Ring& ring, float* __restrict__ C) {
    const int x = threadIdx.x % 32, y = threadIdx.x / 32 - PRODUCERS / 32;
    float c[M / ROWS] = {};  // this thread's column x of rows y, y + 8, …
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
    __shared__ alignas(16) char memory[sizeof(Ring)];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    if (threadIdx.x < SLOTS) {
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
