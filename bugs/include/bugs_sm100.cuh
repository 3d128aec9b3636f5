// One product on Blackwell's tensor core, C = scale · A · Bᵀ, in steps that a bug can be put between.
#pragma once
#include "bug.cuh"
#include "ptx_sm100.cuh"
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

constexpr int M = 128, N = 32, K = 64;  // one row of K is 128 bytes: one tile in shared memory

struct Operands {
    unsigned long long a, b;  // matrix descriptors of A (M, K) and B (N, K)
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// tcgen05.st.32x32b.x32, 9.7.16.8.4: the counterpart of ptx::tcgen05_ld_32x32b_x32. sm_100a.
__device__ inline void tcgen05_st_32x32b_x32(unsigned address, const unsigned (&r)[32]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%0], "
                 "{%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, "
                 "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32};"
                 :: "r"(address), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]),
                    "r"(r[6]), "r"(r[7]), "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]),
                    "r"(r[13]), "r"(r[14]), "r"(r[15]), "r"(r[16]), "r"(r[17]), "r"(r[18]),
                    "r"(r[19]), "r"(r[20]), "r"(r[21]), "r"(r[22]), "r"(r[23]), "r"(r[24]),
                    "r"(r[25]), "r"(r[26]), "r"(r[27]), "r"(r[28]), "r"(r[29]), "r"(r[30]),
                    "r"(r[31])
                 : "memory");
}

// The columns of D that this thread's warp may read, D (M, N) being at d.
__device__ inline unsigned mine(unsigned d) { return d + (threadIdx.x / 32 % 4 * 32 << 16); }

// All threads: A and B lie in shared memory, the barriers take one arrival a phase, and tensor
// memory for D is allocated; its address is the result.
__device__ inline unsigned begin(Operands& operands, const bf16* A, const bf16* B,
                                 unsigned long long* empty, unsigned long long* done) {
    __shared__ alignas(1024) uint4 a[M * K / 8], b[N * K / 8];
    __shared__ unsigned address;
    if (threadIdx.x < 32) ptx::tcgen05_alloc<32>(&address);
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

// One thread: begin the product. 16 columns of K are 32 bytes, which are 2 in a descriptor.
__device__ inline void multiply(unsigned d, Operands operands) {
    for (int s = 0; s < K / 16; ++s)
        ptx::tcgen05_mma_f16(d, operands.a + 2 * s, operands.b + 2 * s, ptx::tcgen05_bf16_f32(M, N),
                             s > 0);
}

// A warp group: D to memory.
__device__ inline void store(unsigned d, float* C) {
    unsigned sums[N];
    ptx::tcgen05_ld_32x32b_x32(sums, mine(d));
    ptx::tcgen05_wait_ld();
    for (int i = 0; i < N; ++i) C[threadIdx.x % 128 * N + i] = __uint_as_float(sums[i]);
}

// All threads: nobody reads D any more.
__device__ inline void end(unsigned d) {
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    if (threadIdx.x < 32) ptx::tcgen05_dealloc<32>(d);
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
