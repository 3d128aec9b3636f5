// One product on Blackwell's tensor core, C = scale · A · Bᵀ, in steps that a bug can be put between.
#pragma once
#include "bug.cuh"
#include "ptx_tensor_memory.cuh"
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

constexpr int M = 128, N = 32, K = 64;  // one row of K is 128 bytes: one tile in shared memory

struct Operands {
    unsigned long long a, b;  // matrix descriptors of A (M, K) and B (N, K)
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

using ptx::tcgen05_st_32x32b_x32;

// The columns of D that this thread's warp may read, D (M, N) being at d.
__device__ inline unsigned mine(unsigned d) { return d + (threadIdx.x / 32 % 4 * 32 << 16); }

// All threads: A and B lie in shared memory, the barriers take one arrival a phase, and tensor
// memory is allocated, COLUMNS of it; its address is the result.
template <int COLUMNS = 32>
__device__ inline unsigned begin(Operands& operands, const bf16* A, const bf16* B,
                                 unsigned long long* empty, unsigned long long* done) {
    __shared__ alignas(1024) uint4 a[M * K / 8], b[N * K / 8];
    __shared__ unsigned address;
    if (threadIdx.x < 32) ptx::tcgen05_alloc<COLUMNS>(&address);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(empty, 1);
        ptx::mbarrier_init(done, 1);
        ptx::fence_mbarrier_init();
    }
    for (int i = threadIdx.x; i < M * K / 8; i += blockDim.x)
        a[i ^ i / 8 % 8] = reinterpret_cast<const uint4*>(A)[i];
    for (int i = threadIdx.x; i < N * K / 8; i += blockDim.x)
        b[i ^ i / 8 % 8] = reinterpret_cast<const uint4*>(B)[i];
    ptx::fence_proxy_async_shared();
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    operands = {ptx::tcgen05_descriptor_128B(a), ptx::tcgen05_descriptor_128B(b)};
    return address;
}

// One thread: begin the product, added to D or not. 16 columns of K are 32 bytes, which are 2 in a
// descriptor.
__device__ inline void multiply(unsigned d, Operands operands, bool add = false) {
    for (int s = 0; s < K / 16; ++s)
        ptx::tcgen05_mma_f16(d, operands.a + 2 * s, operands.b + 2 * s, ptx::tcgen05_bf16_f32(M, N),
                             add || s > 0);
}

// A warp group: fetch its rows of D, and wait for them.
__device__ inline void fetch(unsigned (&sums)[N], unsigned d) {
    ptx::tcgen05_ld_32x32b_x32(sums, mine(d));
    ptx::tcgen05_wait_ld();
}

// A warp group: D to memory.
__device__ inline void store(unsigned d, float* C) {
    unsigned sums[N];
    fetch(sums, d);
    for (int i = 0; i < N; ++i) C[threadIdx.x % 128 * N + i] = __uint_as_float(sums[i]);
}

// All threads: nobody reads D any more.
template <int COLUMNS = 32>
__device__ inline void end(unsigned d) {
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    if (threadIdx.x < 32) ptx::tcgen05_dealloc<COLUMNS>(d);
}

#endif

// Launch one block, and compare; the numbers are so small that bf16 holds every sum.
inline int run(void (*kernel)(const bf16*, const bf16*, float*), int threads = 128,
               float scale = 1) {
    std::vector<bf16> A(M * K), B(N * K);
    for (int i = 0; i < M * K; ++i) A[i] = __float2bfloat16(float(i % 3 - 1));
    for (int i = 0; i < N * K; ++i) B[i] = __float2bfloat16(float(i % 5 - 2));
    std::vector<float> wanted(M * N);
    for (int i = 0; i < M * N; ++i)
        for (int k = 0; k < K; ++k)
            wanted[i] += scale * __bfloat162float(A[i / N * K + k]) *
                         __bfloat162float(B[i % N * K + k]);
    float* C = poisoned<float>(M * N);
    kernel<<<1, threads>>>(to_device(A), to_device(B), C);
    return verdict(to_host(C, M * N), wanted);
}
