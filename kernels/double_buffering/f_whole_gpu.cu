// A block for every tile, all at once: each adds its products to C in global memory. The first
// block clears C meanwhile, so that one launch is enough.
#include <cuda/atomic>

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BK = 32;                   // depth of a tile
constexpr int BLOCKS = K / BK;           // one for each tile: 128
constexpr int THREADS = 256;             // 8 warps
constexpr int ROWS = M * N / THREADS;    // of C, for each thread: 4
static_assert(K % BK == 0, "K must be whole tiles");
static_assert(THREADS * 4 == M * BK && THREADS * 4 == BK * N, "four floats a thread and tile");

// Both are 0 before a launch and after it.
__device__ unsigned cleared;  // 1: C is zero, and sums may be added
__device__ unsigned passed;   // blocks that have seen it
using Shared = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

// Four neighbouring floats as one value; the first must be aligned to 16 bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* __restrict__ A,  // (M, K)
       const float* __restrict__ B,  // (K, N)
       float* C)                     // (M, N)
{
    __shared__ alignas(16) float a[M][BK];  // a tile of A
    __shared__ alignas(16) float b[BK][N];  // a tile of B
    const int t = threadIdx.x, k0 = blockIdx.x * BK;
    const float4 from_a = four(A[t / 8 * K + k0 + t % 8 * 4]), from_b = four(B[k0 * N + t * 4]);
    if (blockIdx.x == 0) {  // while the tile is on its way
        four(C[t * 4]) = float4{};
        __syncthreads();
        if (t == 0) Shared(cleared).store(1, cuda::memory_order_release);
    }
    four(a[t / 8][t % 8 * 4]) = from_a;
    four(b[t / 8][t % 8 * 4]) = from_b;
    __syncthreads();  // the tile is full

    const int x = t % 32, y = t / 32 * ROWS;  // this thread's column of C and its first row
    float c[ROWS] = {};
    for (int k = 0; k < BK; ++k)
        for (int i = 0; i < ROWS; ++i) c[i] += a[y + i][k] * b[k][x];

    if (t == 0) {
        while (!Shared(cleared).load(cuda::memory_order_acquire)) {}
        // The last to pass resets the flag; the count goes back to 0 by itself.
        if (atomicInc(&passed, BLOCKS - 1) == BLOCKS - 1)
            Shared(cleared).store(0, cuda::memory_order_relaxed);
    }
    __syncthreads();  // C is zero
    for (int i = 0; i < ROWS; ++i) atomicAdd(&C[(y + i) * N + x], c[i]);
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<BLOCKS, THREADS>>>(A, B, C);
}

#include "harness.cuh"
