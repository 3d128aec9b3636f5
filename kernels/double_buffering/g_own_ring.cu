// A warp keeps its own ring: it starts the copies of a tile some tiles ahead of its own
// multiplying, and waits for its own copies only. No roles, no barriers, until the sums are added.
#include "check.cuh"
#include <cuda_pipeline.h>

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 32;                   // depth of a tile
constexpr int TILES = K / BK;            // tile i is warp i % WARPS's
constexpr int SLOTS = 2;                 // tiles in a warp's ring
constexpr int WARPS = 8;
constexpr int THREADS = 32 * WARPS;
constexpr int PAD = 8;                   // floats between the rows of a: no bank conflicts
static_assert(K % BK == 0, "K must be whole tiles");
static_assert(SLOTS > 1 && THREADS >= M * N / 4, "copies run ahead; four sums a thread at most");

struct Slot {
    float a[M][BK + PAD];  // a tile of A
    float b[BK][N];        // a tile of B
};

union Ring {
    Slot slot[SLOTS];
    float sum[M][N + PAD];  // of the warp, once all of its tiles are done
};

// Four neighbouring floats as one value; the first must be aligned to 16 bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}

// Starts a warp's copies of a tile. A lane copies 16 bytes of rows y, y + A_ROWS, y + 2 · A_ROWS, …
__device__ void start_copies(Slot& slot, int tile, const float* __restrict__ A,
                             const float* __restrict__ B) {
    const int lane = threadIdx.x % 32;
    const int x = lane % (BK / 4) * 4, y = lane / (BK / 4);  // in A
    const int u = lane % (N / 4) * 4, v = lane / (N / 4);    // in B
    constexpr int A_ROWS = 32 / (BK / 4), B_ROWS = 32 / (N / 4);
    const float* a = &A[y * K + tile * BK + x];
    const float* b = &B[(tile * BK + v) * N + u];
#pragma unroll
    for (int i = 0; i < M; i += A_ROWS)
        __pipeline_memcpy_async(&slot.a[y + i][x], a + i * K, 16);
#pragma unroll
    for (int i = 0; i < BK; i += B_ROWS)
        __pipeline_memcpy_async(&slot.b[v + i][u], b + i * N, 16);
}

// Adds half of a tile's products to a thread's c, that of the steps 8i + 4 · half … + 3:
// rows y, y + 4, … and columns x … x + 3 and x + 16 … x + 19 (the upper half of a warp has them
// the other way round). What the next step multiplies is on its way from shared memory.
__device__ void multiply(const Slot& slot, int half, int x, int y, float (&c)[8][8]) {
    const float* a_of = &slot.a[y][4 * half];
    const float* b_of[2] = {&slot.b[4 * half][x + 16 * half],
                            &slot.b[4 * half][x + 16 - 16 * half]};
    float a[2][8][4], b[2][8];
    for (int i = 0; i < 8; ++i) four(a[0][i][0]) = four(a_of[4 * i * (BK + PAD)]);
    for (int j = 0; j < 2; ++j) four(b[0][4 * j]) = four(b_of[j][0]);
#pragma unroll
    for (int k = 0; k < BK / 2; ++k) {
        const int now = k / 4 % 2, d = k % 4, next = (k + 1) / 4 * 8 + (k + 1) % 4;
        if (k + 1 < BK / 2)
            for (int j = 0; j < 2; ++j) four(b[(k + 1) % 2][4 * j]) = four(b_of[j][next * N]);
        if (k - d + 4 < BK / 2)
            for (int i = 2 * d; i < 2 * d + 2; ++i)
                four(a[1 - now][i][0]) = four(a_of[4 * i * (BK + PAD) + (k / 4 + 1) * 8]);
        for (int i = 0; i < 8; ++i)
            for (int n = 0; n < 8; ++n) {
                const int j = i % 2 ? 7 - n : n;  // there and back, as the ox ploughs
                c[i][j] += a[now][i][d] * b[k % 2][j];
            }
    }
}

__global__ void __launch_bounds__(THREADS, 1)  // one block: more registers for each thread
matmul(const float* __restrict__ A,  // (M, K)
       const float* __restrict__ B,  // (K, N)
       float* __restrict__ C)        // (M, N)
{
    extern __shared__ float4 memory[];  // as much as the launch asks for
    Ring* rings = reinterpret_cast<Ring*>(memory);  // one a warp
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Ring& ring = rings[warp];
    // Lanes that differ in bit 0 share their rows, in bit 1 their columns: so shared memory
    // serves each load of sixteen bytes for half a warp in one wavefront.
    const int y = lane >> 1 & 3, x = ((lane & 1) | (lane >> 2 & 2)) * 4, half = lane / 16;

    int ahead = warp, fill = 0;  // the next tile to copy, and its slot
    auto copy_next = [&] {
        if (ahead < TILES) start_copies(ring.slot[fill], ahead, A, B);
        __pipeline_commit();  // a group even where nothing is left to copy: groups are counted
        ahead += WARPS;
        if (++fill == SLOTS) fill = 0;
    };
    for (int s = 0; s < SLOTS - 1; ++s) copy_next();

    float c[8][8] = {};
    int s = 0;
    for (int tile = warp; tile < TILES; tile += WARPS) {
        __pipeline_wait_prior(SLOTS - 2);  // this lane's copies of the tile have landed
        __syncwarp();  // those of the other lanes, too; and all have read the slot that is next
        copy_next();
        multiply(ring.slot[s], half, x, y, c);
        if (++s == SLOTS) s = 0;
    }
    __syncwarp();  // nobody reads the warp's slots any more
    // The two halves of a warp add their sums; each keeps four of its eight columns.
    for (int i = 0; i < 8; ++i) {
        for (int j = 0; j < 4; ++j) c[i][j] += __shfl_xor_sync(~0u, c[i][j + 4], 16);
        four(ring.sum[y + 4 * i][x + 16 * half]) = four(c[i][0]);
    }
    __syncthreads();  // the sums are written
    if (threadIdx.x >= M * N / 4) return;
    const int row = threadIdx.x / (N / 4), column = threadIdx.x % (N / 4) * 4;
    float4 total = four(rings[0].sum[row][column]);
    for (int w = 1; w < WARPS; ++w) {
        const float4 sum = four(rings[w].sum[row][column]);
        total.x += sum.x, total.y += sum.y, total.z += sum.z, total.w += sum.w;
    }
    reinterpret_cast<float4&>(C[row * N + column]) = total;
}

void launch(const float* A, const float* B, float* C) {
    constexpr int BYTES = WARPS * sizeof(Ring);
    // More than 48 KiB of shared memory must be asked for.
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    matmul<<<1, THREADS, BYTES>>>(A, B, C);
}

#include "harness.cuh"
