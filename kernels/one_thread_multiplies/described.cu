// One product, described from outside: the bytes of both tiles, both matrix descriptors and the
// instruction descriptor are arguments, so that each bit can be tried.
#include "ptx_sm100.cuh"

#ifndef KIND
#define KIND "f16"  // or tf32, f8f6f4, i8
#endif

constexpr int BYTES = 16384;  // of a tile: 128 rows of 128
constexpr int COLUMNS = 128;  // of the sum, allocated
constexpr int THREADS = 128;  // 4 warps, one for each quarter

__global__ void __launch_bounds__(THREADS)
described(const uint4* A, const uint4* B,    // (BYTES / 16): what the tiles hold, as it lies there
          unsigned long long a,              // their descriptors, as if the tiles began at 0
          unsigned long long b,
          unsigned instruction, int times,   // the product is added so many times
          unsigned* out, int columns)        // (128, columns): the bits of every cell
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) uint4 tile_a[BYTES / 16], tile_b[BYTES / 16];
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32;
    for (int i = t; i < BYTES / 16; i += THREADS) tile_a[i] = A[i], tile_b[i] = B[i];
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&address);
    if (t == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::fence_proxy_async_shared();  // the tensor core sees the tiles
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned sum = address;
    if (t == 0) {
        a += ptx::shared_address(tile_a) >> 4;
        b += ptx::shared_address(tile_b) >> 4;
        for (int i = 0; i < times; ++i)
            asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                         "tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, p; }"
                         :: "r"(sum), "l"(a), "l"(b), "r"(instruction), "r"(i) : "memory");
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int first = 0; first < columns; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, sum + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 32; ++j) out[t * columns + first + j] = r[j];
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all have fetched
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(sum);
    }
#endif
}
