// A worker is a warp: one producer warp fills a tile, one consumer warp drains it, and tiles go
// round among the warps of a role. So a barrier hears from one warp, a warp never waits for
// another of its role, and a lane has the same place in every tile: its addresses are constants.
#include "check.cuh"
#include "mbarrier.cuh"
#include <cuda_pipeline.h>

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 32;                   // depth of a tile
constexpr int TILES = K / BK;            // jobs to hand over
constexpr int SLOTS = 16;                // tiles that fit in the ring
constexpr int PRODUCERS = 4;             // warps
constexpr int CONSUMERS = 8;             // warps
constexpr int THREADS = 32 * (PRODUCERS + CONSUMERS);
constexpr int PAD = 4;                   // floats between the rows of a: no bank conflicts
static_assert(K % BK == 0, "K must be whole tiles");
static_assert(SLOTS % PRODUCERS == 0 && SLOTS % CONSUMERS == 0,
              "a slot must have one producer and one consumer: see the chapter");

struct Slot {
    float a[M][BK + PAD];  // a tile of A
    float b[BK][N];        // a tile of B
};

struct Ring {
    union {
        Slot slot[SLOTS];
        float sums[CONSUMERS][M][N];  // of each warp, once all tiles are done
    };
    barrier full[SLOTS];   // "the consumer may read the slot"
    barrier empty[SLOTS];  // "the producer may write the slot"
    barrier done;          // among the consumers
};

// Four neighbouring floats as one value; the first must be aligned to 16 bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}

__device__ void produce(Ring& ring, const float* __restrict__ A,
                        const float* __restrict__ B) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // This lane copies 16 bytes of rows y, y + A_ROWS, y + 2 · A_ROWS, … of each tile.
    const int x = lane % (BK / 4) * 4, y = lane / (BK / 4);  // in A
    const int u = lane % (N / 4) * 4, v = lane / (N / 4);    // in B
    constexpr int A_ROWS = 32 / (BK / 4), B_ROWS = 32 / (N / 4);
    for (int tile = warp; tile < TILES; tile += PRODUCERS) {
        const int s = tile % SLOTS;
        wait(ring.empty[s], ~(tile / SLOTS) & 1);  // the phase before the first is complete
        const float* a = &A[y * K + tile * BK + x];
        const float* b = &B[(tile * BK + v) * N + u];
#pragma unroll
        for (int i = 0; i < M; i += A_ROWS)
            __pipeline_memcpy_async(&ring.slot[s].a[y + i][x], a + i * K, 16);
#pragma unroll
        for (int i = 0; i < BK; i += B_ROWS)
            __pipeline_memcpy_async(&ring.slot[s].b[v + i][u], b + i * N, 16);
        arrive_when_copied(ring.full[s]);
    }
}

// Adds half of a tile's products to a thread's c: rows y, y + 4, … and columns
// x … x + 3, x + 16 … x + 19 of C. What the next step multiplies is on its way from shared
// memory while this step multiplies: two buffers again, of registers.
__device__ void multiply(const Slot& slot, int k0, int x, int y, float (&c)[8][8]) {
    constexpr int DEPTH = BK / 2;
    float a[2][8][4], b[2][8];
    for (int i = 0; i < 8; ++i) four(a[0][i][0]) = four(slot.a[y + 4 * i][k0]);
    for (int j = 0; j < 2; ++j) four(b[0][4 * j]) = four(slot.b[k0][x + 16 * j]);
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
        const int now = k / 4 % 2, d = k % 4;
        if (k + 1 < DEPTH)
            for (int j = 0; j < 2; ++j)
                four(b[(k + 1) % 2][4 * j]) = four(slot.b[k0 + k + 1][x + 16 * j]);
        if (k - d + 4 < DEPTH)
            for (int i = 2 * d; i < 2 * d + 2; ++i)
                four(a[1 - now][i][0]) = four(slot.a[y + 4 * i][k0 + k - d + 4]);
        for (int i = 0; i < 8; ++i)
            for (int j = 0; j < 8; ++j) c[i][j] += a[now][i][d] * b[k % 2][j];
    }
}

__device__ void consume(Ring& ring, float* __restrict__ C) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - PRODUCERS;
    // Lanes that differ in bit 0 share their rows, in bit 1 their columns: so shared memory
    // serves each load of sixteen bytes for half a warp in one wavefront.
    const int y = lane >> 1 & 3, x = ((lane & 1) | (lane >> 2 & 2)) * 4;
    float c[8][8] = {};
    for (int tile = warp; tile < TILES; tile += CONSUMERS) {
        const int s = tile % SLOTS;
        wait(ring.full[s], tile / SLOTS & 1);
        multiply(ring.slot[s], lane / 16 * (BK / 2), x, y, c);
        __syncwarp();  // all of the warp have read the slot
        if (lane == 0) (void)ring.empty[s].arrive();
    }
    // The two halves of a warp add their sums; each keeps four of the eight rows.
    const bool upper = lane >= 16;
    (void)ring.done.arrive();
    wait(ring.done, 0);  // nobody reads the slots any more
    for (int i = 0; i < 4; ++i) {
        float sum[8];
        for (int j = 0; j < 8; ++j) {
            const float mine = upper ? c[i + 4][j] : c[i][j], other = upper ? c[i][j] : c[i + 4][j];
            sum[j] = mine + __shfl_xor_sync(~0u, other, 16);
        }
        float(&row)[N] = ring.sums[warp][y + 4 * (i + upper * 4)];
        four(row[x]) = four(sum[0]);
        four(row[x + 16]) = four(sum[4]);
    }
    (void)ring.done.arrive();
    wait(ring.done, 1);  // the sums are written
    for (int i = warp * 32 + lane; i < M * N; i += CONSUMERS * 32) {
        float sum = 0;
        for (int w = 0; w < CONSUMERS; ++w) sum += ring.sums[w][i / N][i % N];
        C[i] = sum;
    }
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    extern __shared__ float4 memory[];  // as much as the launch asks for
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    if (threadIdx.x < SLOTS) {
        init(&ring.full[threadIdx.x], 32);
        init(&ring.empty[threadIdx.x], 1);
    }
    if (threadIdx.x == 0) init(&ring.done, CONSUMERS * 32);
    __syncthreads();  // nobody arrives before the barriers exist

    if (threadIdx.x < PRODUCERS * 32) produce(ring, A, B);
    else consume(ring, C);
}

void launch(const float* A, const float* B, float* C) {
    // More than 48 KiB of shared memory must be asked for.
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    matmul<<<1, THREADS, sizeof(Ring)>>>(A, B, C);
}

#include "harness.cuh"
