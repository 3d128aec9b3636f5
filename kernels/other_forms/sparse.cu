// Half of A is zero and left out: a product of K = 32 takes as many bytes of A as a dense one
// of K = 16. Metadata, copied to tensor memory before, say where the stored half belongs.
#include "ptx_tensor_memory.cuh"
#include <cuda_bf16.h>

constexpr int M = 128, N = 64, K = 128;  // the product; A is stored as (M, K / 2)
constexpr int STEP = 32;                 // what one instruction takes along k, 16 numbers of A
constexpr int THREADS = 128;             // 4 warps, one for each quarter
constexpr int SUM = 0, METADATA = N;     // columns: the sum, and four of metadata

// tcgen05.cp.128x128b, 9.7.16.9.2: 16 bytes of each of 128 rows to four columns of 128 lanes.
__device__ void copy_metadata(unsigned address, unsigned long long rows) {
    asm volatile("tcgen05.cp.cta_group::1.128x128b [%0], %1;" :: "r"(address), "l"(rows)
                 : "memory");
}

// tcgen05.mma.sp.kind::f16, 9.7.16.10.9.2: d += a · b with a sparse a. The selector, bits 0-1 of
// `instruction`, says which column of the pair at `metadata` has the metadata.
__device__ void multiply_sparse(unsigned d, unsigned long long a, unsigned long long b,
                                unsigned metadata, unsigned instruction, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0;\n"
                 "tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, p; }"
                 :: "r"(d), "l"(a), "l"(b), "r"(metadata), "r"(instruction), "r"(int(accumulate))
                 : "memory");
}

// Rows of `pieces` · 16 bytes as boxes of lines of 128 bytes, one behind the other, swizzled.
__device__ void lay(uint4* tile, const __nv_bfloat16* from, int rows, int pieces) {
    for (int i = threadIdx.x; i < rows * pieces; i += THREADS) {
        const int r = i / pieces, p = i % pieces;
        tile[(p / 8 * rows + r) * 8 + (p % 8 ^ r % 8)] = reinterpret_cast<const uint4*>(from)[i];
    }
}

__global__ void __launch_bounds__(THREADS)
sparse(const __nv_bfloat16* A,  // (M, K / 2), row-major: two numbers of each four
       const uint4* E,          // (M): what lane r of the four columns of metadata holds
       const __nv_bfloat16* B,  // (N, K), row-major
       float* C,                // (M, N): times · A · Bᵀ
       int times)
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) uint4 a[M * 8], b[N * 16], e[M];
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32;
    lay(a, A, M, 8);
    lay(b, B, N, 16);
    e[t] = E[t];
    if (warp == 0) ptx::tcgen05_alloc<128>(&address);
    if (t == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::fence_proxy_async_shared();  // copy and products see the tiles and the metadata
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned base = address;
    if (t == 0) {
        copy_metadata(base + METADATA, ptx::tcgen05_descriptor_none(e, 16, 128));
        constexpr unsigned SPARSE = ptx::tcgen05_bf16_f32(M, N) | 1 << 2;
        for (int step = 0; step < times * K / STEP; ++step) {
            const int i = step % (K / STEP);
            const uint4* right = b + i / 2 * N * 8;  // a box holds 64 numbers along k: two steps
            multiply_sparse(base + SUM, ptx::tcgen05_descriptor_128B(a) + i * 2,
                            ptx::tcgen05_descriptor_128B(right) + i % 2 * 4,
                            base + METADATA + i / 2 * 2, SPARSE | i % 2, step > 0);
        }
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int column = 0; column < N; column += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, base + (warp * 32 << 16) + SUM + column);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 32; ++j) C[t * N + column + j] = __uint_as_float(r[j]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all have fetched
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<128>(base);
    }
#endif
}
