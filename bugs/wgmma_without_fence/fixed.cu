// The running sum of attention: a product, all of it times 2, a product more. The second one takes
// the sums as its accumulators, and no wgmma.fence says that they have changed.
#include "bug.cuh"
#include "ptx_wgmma.cuh"
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

constexpr int THREADS = 128, M = 64, N = 32, K = 64, PIECES = K / 8;  // 16 bytes each, a row

// A tile (rows, K) to shared memory, its 16-byte pieces swizzled as the tensor core wants them.
__device__ void put(uint4* tile, const uint4* from, int rows) {
    for (int i = threadIdx.x; i < rows * PIECES; i += THREADS) tile[i ^ i / PIECES % 8] = from[i];
}

// Begin sums (M, N) += p · vᵀ.
__device__ void multiply(float (&sums)[N / 2], const uint4* p, const uint4* v, int add) {
    for (int s = 0; s < K / 16; ++s)
        ptx::wgmma(sums, ptx::descriptor_128B(p) + 2 * s, ptx::descriptor_128B(v) + 2 * s, add | s);
    ptx::wgmma_commit_group();
}

__global__ void __launch_bounds__(THREADS)
attend(const uint4* weights,  // (M, K)
       const uint4* V,        // (N, K)
       float* out)            // (M, N) = 3 · weights · Vᵀ
{
    __shared__ alignas(1024) uint4 p[M * PIECES], v[N * PIECES];
    put(p, weights, M);
    put(v, V, N);
    ptx::fence_proxy_async_shared();
    __syncthreads();
    float sums[N / 2];
    ptx::wgmma_fence();
    multiply(sums, p, v, 0);
    ptx::wgmma_wait_group<0>();
    for (int i = 0; i < N / 2; ++i) sums[i] *= 2;
    ptx::wgmma_fence();
    multiply(sums, p, v, 1);
    ptx::wgmma_wait_group<0>();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
    for (int i = 0; i < N / 2; ++i)
        out[(row + 8 * (i / 2 % 2)) * N + 8 * (i / 4) + column + i % 2] = sums[i];
}

int main() {
    std::vector<bf16> weights(M * K), V(N * K);
    for (int i = 0; i < M * K; ++i) weights[i] = __float2bfloat16(float(i % 3 - 1));
    for (int i = 0; i < N * K; ++i) V[i] = __float2bfloat16(float(i % 5 - 2));
    std::vector<float> wanted(M * N);
    for (int i = 0; i < M * N; ++i)
        for (int k = 0; k < K; ++k)
            wanted[i] += 3 * __bfloat162float(weights[i / N * K + k]) *
                         __bfloat162float(V[i % N * K + k]);
    float* out = poisoned<float>(M * N);
    attend<<<1, THREADS>>>(reinterpret_cast<uint4*>(to_device(weights)),
                           reinterpret_cast<uint4*>(to_device(V)), out);
    return verdict(to_host(out, M * N), wanted);
}
