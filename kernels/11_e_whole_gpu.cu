// Many blocks, each with a slice of the long sum: they add their results up in global memory, and
// the last one to finish writes C. One launch, with nothing to clear before it.
#include <cuda_pipeline.h>

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int DEPTH = 4;                 // products of a group of sixteen threads, for each element
constexpr int THREADS = 128;             // 4 warps, 8 groups
constexpr int SLICE = DEPTH * THREADS / 16;  // products of a block: 32
constexpr int BLOCKS = K / SLICE;        // 128
static_assert(K % SLICE == 0 && DEPTH % 4 == 0, "K must be whole tiles");

__device__ float total[M * N];     // zero before the launch, and again after it
__device__ unsigned int finished;  // blocks that have added their sums; likewise

// Four neighbouring floats as one value; the first must be aligned to 16 bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}

// What a group of sixteen threads multiplies; nobody else reads or writes it.
struct Slice {
    float a[M][DEPTH];
    float b[DEPTH][N];
};

__device__ void load(Slice& slice, const float* __restrict__ A, const float* __restrict__ B,
                     int k0) {
    const int t = threadIdx.x % 16;
    for (int n = t * 4; n < M * DEPTH; n += 16 * 4)
        __pipeline_memcpy_async(&slice.a[n / DEPTH][n % DEPTH],
                                &A[n / DEPTH * K + k0 + n % DEPTH], 16);
    for (int n = t * 4; n < DEPTH * N; n += 16 * 4)
        __pipeline_memcpy_async(&slice.b[n / N][n % N], &B[k0 * N + n], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
}

// A thread's 8 × 8 elements: rows y, y + 4, … and columns x … x + 3, x + 16 … x + 19 of C.
__device__ void multiply(const Slice& slice, int x, int y, float (&c)[8][8]) {
    for (int k = 0; k < DEPTH; k += 4) {
        float a[8][4], b[8];
        for (int i = 0; i < 8; ++i) four(a[i][0]) = four(slice.a[y + 4 * i][k]);
        for (int d = 0; d < 4; ++d) {
            four(b[0]) = four(slice.b[k + d][x]);
            four(b[4]) = four(slice.b[k + d][x + 16]);
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) c[i][j] += a[i][d] * b[j];
        }
    }
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A,  // (M, K)
       const float* __restrict__ B,  // (K, N)
       float* __restrict__ C)        // (M, N)
{
    __shared__ alignas(16) Slice slices[THREADS / 16];
    __shared__ alignas(16) float sums[THREADS / 32][M][N];  // of each warp
    __shared__ bool last;
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int y = lane >> 1 & 3, x = ((lane & 1) | (lane >> 2 & 2)) * 4;
    float c[8][8] = {};
    load(slices[t / 16], A, B, blockIdx.x * SLICE + t / 16 * DEPTH);
    multiply(slices[t / 16], x, y, c);

    // The two groups of a warp add their sums; each keeps four of the eight rows.
    const bool upper = lane >= 16;
    for (int i = 0; i < 4; ++i) {
        float sum[8];
        for (int j = 0; j < 8; ++j) {
            const float mine = upper ? c[i + 4][j] : c[i][j], other = upper ? c[i][j] : c[i + 4][j];
            sum[j] = mine + __shfl_xor_sync(~0u, other, 16);
        }
        float(&row)[N] = sums[warp][y + 4 * (i + upper * 4)];
        four(row[x]) = four(sum[0]);
        four(row[x + 16]) = four(sum[4]);
    }
    __syncthreads();
    for (int i = t; i < M * N; i += THREADS) {
        float sum = 0;
        for (int w = 0; w < THREADS / 32; ++w) sum += sums[w][i / N][i % N];
        atomicAdd(&total[i], sum);
    }

    // Before a block counts itself, its sums must be there for everybody.
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(&finished, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int i = t; i < M * N; i += THREADS) C[i] = atomicExch(&total[i], 0.0f);
    if (t == 0) finished = 0;
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<BLOCKS, THREADS>>>(A, B, C);
}

#include "harness.cuh"
