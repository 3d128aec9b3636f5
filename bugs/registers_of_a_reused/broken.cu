// A product takes A from registers: they are fetched for the next slice while the tensor core still
// reads those of this one. The wait comes after the fetch.
#include "bug.cuh"
#include "ptx_sm90.cuh"
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

constexpr int THREADS = 128, M = 64, N = 8, K = 64, PIECES = K / 8;  // 16 bytes each, a row

// Begin sums (M, N) = a · b + sums, a in registers. As ptx::wgmma_a, but a is not copied.
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], unsigned long long b,
                                bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %9, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, p, 1, 1, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}

// This thread's part of A (M, K) for 16 columns from `k` on.
__device__ inline void fetch(unsigned (&a)[4], const unsigned* A, int k) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = k / 2 + threadIdx.x % 4;
    for (int i = 0; i < 4; ++i) a[i] = A[(row + i % 2 * 8) * K / 2 + column + i / 2 * 4];
}

__global__ void __launch_bounds__(THREADS)
product(const unsigned* A,  // (M, K), two numbers each
        const uint4* B,     // (N, K), eight
        float* C)           // (M, N) = A · Bᵀ
{
    __shared__ alignas(1024) uint4 b[N * PIECES];
    for (int i = threadIdx.x; i < N * PIECES; i += THREADS) b[i ^ i / PIECES % 8] = B[i];
    ptx::fence_proxy_async_shared();
    __syncthreads();
    float sums[N / 2];
    unsigned a[4];
    fetch(a, A, 0);
#pragma unroll 1
    for (int k = 0; k < K; k += 16) {
        ptx::wgmma_fence();
        multiply(sums, a, ptx::descriptor_128B(b) + k / 8, k > 0);
        ptx::wgmma_commit_group();
        if (k + 16 < K) fetch(a, A, k + 16);
        ptx::wgmma_wait_group<0>();
    }
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
    for (int i = 0; i < N / 2; ++i) C[(row + i / 2 * 8) * N + column + i % 2] = sums[i];
}

int main() {
    std::vector<bf16> A(M * K), B(N * K);
    for (int i = 0; i < M * K; ++i) A[i] = __float2bfloat16(float(i % 3 - 1));
    for (int i = 0; i < N * K; ++i) B[i] = __float2bfloat16(float(i % 5 - 2));
    std::vector<float> wanted(M * N);
    for (int i = 0; i < M * N; ++i)
        for (int k = 0; k < K; ++k)
            wanted[i] += __bfloat162float(A[i / N * K + k]) * __bfloat162float(B[i % N * K + k]);
    float* C = poisoned<float>(M * N);
    product<<<1, THREADS>>>(reinterpret_cast<unsigned*>(to_device(A)),
                            reinterpret_cast<uint4*>(to_device(B)), C);
    return verdict(to_host(C, M * N), wanted);
}
