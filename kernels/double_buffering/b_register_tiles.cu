// The consumers hold C in registers, 8 × 8 elements a thread: sixteen threads hold all of it,
// so each group of sixteen takes a slice of the tile's depth, and their sums are added at the end.
#include <cuda/barrier>
using barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 64;                   // depth of a tile
constexpr int TILES = K / BK;            // jobs to hand over
constexpr int SLOTS = 2;                 // tiles that fit in the ring
constexpr int PRODUCERS = 256;           // threads: 8 warps
constexpr int CONSUMERS = 256;           // threads: 8 warps, 16 groups
constexpr int THREADS = PRODUCERS + CONSUMERS;
constexpr int DEPTH = BK / (CONSUMERS / 16);  // a group's slice of a tile: 4
constexpr int PAD = 4;                   // floats between the rows of a: no bank conflicts
static_assert(K % BK == 0, "K must be whole tiles");
static_assert(DEPTH % 4 == 0, "a group reads four elements of a row of A at once");

struct Slot {
    float a[M][BK + PAD];  // a tile of A
    float b[BK][N];        // a tile of B
};

struct Ring {
    union {
        Slot slot[SLOTS];
        float sums[CONSUMERS / 32][M][N];  // of each warp, once all tiles are done
    };
    barrier full[SLOTS];   // "the consumers may read the slot"
    barrier empty[SLOTS];  // "the producers may write the slot"
    barrier done;          // among the consumers
};

__device__ int advance(int slot) { return slot + 1 == SLOTS ? 0 : slot + 1; }

// Four neighbouring floats as one value; the first must be aligned to 16 bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}

__device__ void produce(Ring& ring, const float* __restrict__ A,
                        const float* __restrict__ B) {
    constexpr int LOADS = M * BK / 4 / PRODUCERS;  // a thread's share of a tile of A, and of B
    const int t = threadIdx.x;
    for (int tile = 0, s = 0; tile < TILES; ++tile, s = advance(s)) {
        ring.empty[s].arrive_and_wait();
        Slot& slot = ring.slot[s];
        const int k0 = tile * BK;
        float4 a[LOADS], b[LOADS];
        for (int i = 0; i < LOADS; ++i) {
            const int n = t + i * PRODUCERS;  // number of the four floats in the tile
            a[i] = four(A[n / (BK / 4) * K + k0 + n % (BK / 4) * 4]);
            b[i] = four(B[k0 * N + n * 4]);
        }
        for (int i = 0; i < LOADS; ++i) {
            const int n = t + i * PRODUCERS;
            four(slot.a[n / (BK / 4)][n % (BK / 4) * 4]) = a[i];
            four(slot.b[n / (N / 4)][n % (N / 4) * 4]) = b[i];
        }
        (void)ring.full[s].arrive();
    }
}

// Adds a slice of the tile's products to a thread's c: rows y, y + 4, … and columns
// x … x + 3, x + 16 … x + 19 of C.
__device__ void multiply(const Slot& slot, int k0, int x, int y, float (&c)[8][8]) {
    for (int k = k0; k < k0 + DEPTH; k += 4) {
        float a[8][4], b[8];
        for (int i = 0; i < 8; ++i) four(a[i][0]) = four(slot.a[y + 4 * i][k]);
        for (int d = 0; d < 4; ++d) {
            four(b[0]) = four(slot.b[k + d][x]);
            four(b[4]) = four(slot.b[k + d][x + 16]);
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) c[i][j] += a[i][d] * b[j];
        }
    }
}

__device__ void consume(Ring& ring, float* __restrict__ C) {
    const int t = threadIdx.x - PRODUCERS, lane = t % 32, warp = t / 32;
    // Lanes that differ in bit 0 share their rows, in bit 1 their columns: so shared memory
    // serves each load of sixteen bytes for half a warp in one wavefront.
    const int y = lane >> 1 & 3, x = ((lane & 1) | (lane >> 2 & 2)) * 4;
    float c[8][8] = {};
    for (int s = 0; s < SLOTS; ++s) (void)ring.empty[s].arrive();
    for (int tile = 0, s = 0; tile < TILES; ++tile, s = advance(s)) {
        ring.full[s].arrive_and_wait();
        multiply(ring.slot[s], t / 16 * DEPTH, x, y, c);
        (void)ring.empty[s].arrive();
    }
    // The two groups of a warp add their sums; each keeps four of the eight rows.
    const bool upper = lane >= 16;
    ring.done.arrive_and_wait();  // nobody reads the slots any more
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
    ring.done.arrive_and_wait();  // the sums are written
    for (int i = t; i < M * N; i += CONSUMERS) {
        float sum = 0;
        for (int w = 0; w < CONSUMERS / 32; ++w) sum += ring.sums[w][i / N][i % N];
        C[i] = sum;
    }
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
    if (threadIdx.x == 0) init(&ring.done, CONSUMERS);
    __syncthreads();  // nobody arrives before the barriers exist

    if (threadIdx.x < PRODUCERS) produce(ring, A, B);
    else consume(ring, C);
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
