// A product with half of A left out: of each four numbers of a row the first two are kept. Threads
// store the tiles, and meet; the tensor core, sparse or not, reads them through another proxy.
#include "bug.cuh"
#include "ptx_sm90.cuh"
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

constexpr int THREADS = 128, M = 64, N = 8, K = 32;  // A has K / 2 numbers a row: 32 bytes

// A matrix descriptor without a swizzle: pieces of 8 rows of 16 bytes, one after another along the
// row, then the next 8 rows, `stride` bytes on.
__device__ inline unsigned long long described(const void* tile, int stride) {
    return (ptx::shared_address(tile) & 0x3ffff) >> 4 | 8ull << 16 |
           (unsigned long long)(stride >> 4) << 32;
}

// Begin d (M, N) = a · b. Each four bits of the metadata say which two of four are kept: 0 and 1.
__device__ inline void multiply(float (&d)[N / 2], unsigned long long a, unsigned long long b) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.bf16.bf16 "
                 "{%0, %1, %2, %3}, %4, %5, %6, 0, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(a), "l"(b), "r"(0x44444444));
}

// A tile to shared memory, rows of so many 16-byte pieces.
__device__ void put(uint4* tile, const uint4* from, int rows, int pieces) {
    for (int i = threadIdx.x; i < rows * pieces; i += THREADS) {
        const int row = i / pieces, piece = i % pieces;
        tile[row / 8 * 8 * pieces + piece * 8 + row % 8] = from[i];
    }
}

__global__ void __launch_bounds__(THREADS)
product(const uint4* A,  // (M, K / 2): what is kept
        const uint4* B,  // (N, K)
        float* C)        // (M, N)
{
    __shared__ alignas(128) uint4 a[M * K / 16], b[N * K / 8];
    put(a, A, M, K / 16);
    put(b, B, N, K / 8);
    __syncthreads();
    float sums[N / 2];
    ptx::wgmma_fence();
    multiply(sums, described(a, 8 * 32), described(b, 8 * 64));
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<0>();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
    for (int i = 0; i < N / 2; ++i) C[(row + i / 2 * 8) * N + column + i % 2] = sums[i];
}

int main() {
    std::vector<bf16> A(M * K / 2), B(N * K);
    for (int i = 0; i < M * K / 2; ++i) A[i] = __float2bfloat16(float(i % 3 - 1));
    for (int i = 0; i < N * K; ++i) B[i] = __float2bfloat16(float(i % 5 - 2));
    std::vector<float> wanted(M * N);
    for (int i = 0; i < M * N; ++i)
        for (int k = 0; k < K / 2; ++k)
            wanted[i] += __bfloat162float(A[i / N * K / 2 + k]) *
                         __bfloat162float(B[i % N * K + k / 2 * 4 + k % 2]);
    float* C = poisoned<float>(M * N);
    product<<<1, THREADS>>>(reinterpret_cast<uint4*>(to_device(A)),
                            reinterpret_cast<uint4*>(to_device(B)), C);
    return verdict(to_host(C, M * N), wanted);
}
