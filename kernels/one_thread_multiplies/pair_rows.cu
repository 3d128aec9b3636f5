// One product of a pair of blocks, 128 or 256 rows: each block brings half of the rows of A and half
// of those of B, a thread of the first begins it, and both write every cell of their tensor memory.
#include "ptx_tensor_memory.cuh"
#include <cuda_bf16.h>

#ifndef HIGH
#define HIGH 256  // rows of the sum: 256 or 128
#endif

constexpr int PAIR = 2;                                    // blocks
constexpr int HELD = 32;                                   // columns of tensor memory, in each
constexpr int WIDE = HELD * 256 / HIGH;                    // of the sum: all lanes are used
constexpr int ROWS_A = HIGH / PAIR, ROWS_B = WIDE / PAIR;  // of a block; K is 16
constexpr int THREADS = 128;                               // 4 warps, one for each quarter

// Rows of 16 numbers, 32 bytes, as core matrices of 8 × 16 bytes: the left column of them, then the
// right one, ROWS · 16 bytes behind it.
template <int ROWS> __device__ void lay(uint4* tile, const __nv_bfloat16* from) {
    for (int i = threadIdx.x; i < ROWS * 2; i += THREADS)
        tile[i % 2 * ROWS + i / 2] = reinterpret_cast<const uint4*>(from)[i];
}

__global__ void __cluster_dims__(PAIR) __launch_bounds__(THREADS)
pair_rows(const __nv_bfloat16* A,  // (HIGH, 16), row-major
          const __nv_bfloat16* B,  // (WIDE, 16), row-major
          float* out)              // (2, 128, HELD): each block's lanes and columns
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) uint4 a[ROWS_A * 2], b[ROWS_B * 2];
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32, rank = blockIdx.x;
    lay<ROWS_A>(a, A + rank * ROWS_A * 16);
    lay<ROWS_B>(b, B + rank * ROWS_B * 16);
    if (t == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::fence_proxy_async_shared();  // the tensor core sees the tiles
    ptx::cluster_arrive();
    ptx::cluster_wait();  // both blocks run, and their tiles and barriers are there
    if (warp == 0) ptx::tcgen05_alloc<HELD, PAIR>(&address);
    ptx::tcgen05_fence_before_thread_sync();
    ptx::cluster_arrive();
    ptx::cluster_wait();  // both have allocated
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned sum = address;
    if (t == 0 && rank == 0) {
        ptx::tcgen05_mma_f16<PAIR>(sum, ptx::tcgen05_descriptor_none(a, ROWS_A * 16, 128),
                                   ptx::tcgen05_descriptor_none(b, ROWS_B * 16, 128),
                                   ptx::tcgen05_bf16_f32(HIGH, WIDE), false);
        ptx::tcgen05_commit_multicast(&done, 0b11);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    unsigned r[HELD];
    ptx::tcgen05_ld_32x32b_x32(r, sum + (warp * 32 << 16));
    ptx::tcgen05_wait_ld();
    for (int j = 0; j < HELD; ++j) out[(rank * THREADS + t) * HELD + j] = __uint_as_float(r[j]);
    ptx::tcgen05_fence_before_thread_sync();
    ptx::cluster_arrive();
    ptx::cluster_wait();  // all have fetched
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit<PAIR>();
        ptx::tcgen05_dealloc<HELD, PAIR>(sum);
    }
#endif
}
