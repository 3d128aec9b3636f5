// The result leaves by a bulk copy.
#include "warp_specialisation/ring.cuh"

constexpr int M = 32, N = 32, K = 256;  // C = A · B, row-major f32
constexpr int BK = 32;                  // depth of a tile
constexpr int THREADS = 128;

__shared__ float a[M][BK], b[BK][N];
__shared__ alignas(128) float out[M][N];  // the product, before it leaves

// Copy shared memory to global memory by the copy engine, and wait until it has read it
// (PTX ISA 9.7.9.25.5). It reads through the async proxy.
__device__ void bulk_store(float* to, const float* from, int bytes) {  // <- see
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n\t"
                 "cp.async.bulk.commit_group;\n\t"
                 "cp.async.bulk.wait_group 0;"
                 :: "l"(to), "r"(shared(from)), "r"(bytes) : "memory");  // <- proxy
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    float c[8] = {};  // column x of rows y, y + 4, …
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int row = y; row < 32; row += 4) {
            a[row][x] = A[row * K + k0 + x];
            b[row][x] = B[(k0 + row) * N + x];
        }
        __syncthreads();
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 8; ++i) c[i] += a[y + 4 * i][k] * b[k][x];
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) out[y + 4 * i][x] = c[i];  // <- proxy
#ifdef REPAIRED
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
    __syncthreads();
    if (threadIdx.x == 0) bulk_store(C, &out[0][0], sizeof(out));
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
