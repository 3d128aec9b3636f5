// The queue of the tensor core: a copy brings A and a product reads it, its rows move up by one and
// a second product reads them, with a wait only where the order asks for one.
#include "ptx_tensor_memory.cuh"
#include <cuda_bf16.h>

constexpr int M = 128, N = 32;  // of each product; K is 16
constexpr int THREADS = 128;    // 4 warps, one for each quarter
constexpr int SUM = 0, MOVED = N, A_AT = 2 * N;  // columns: two sums, and A with 8

// Rows of 16 numbers, 32 bytes, as core matrices of 8 × 16 bytes: the left column of them, then the
// right one, ROWS · 16 bytes behind it.
template <int ROWS> __device__ void lay(uint4* tile, const __nv_bfloat16* from) {
    const uint4* pieces = reinterpret_cast<const uint4*>(from);
    for (int i = threadIdx.x; i < 2 * ROWS; i += THREADS) tile[i % 2 * ROWS + i / 2] = pieces[i];
}

__global__ void __launch_bounds__(THREADS)
queue(const __nv_bfloat16* A,  // (M, 16), row-major
      const __nv_bfloat16* B,  // (N, 16), row-major
      float* out)              // (M, 2 * N): A · Bᵀ, and the same with A's rows moved
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(128) uint4 a[2 * M], b[2 * N];
    __shared__ unsigned long long first, done;
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32;
    lay<M>(a, A);
    lay<N>(b, B);
    if (warp == 0) ptx::tcgen05_alloc<128>(&address);
    if (t == 0) {
        ptx::mbarrier_init(&first, 1);
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::fence_proxy_async_shared();  // copy and product see the tiles
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned base = address;
    if (t == 0) {
        const unsigned long long rows = ptx::tcgen05_descriptor_none(a, M * 16, 128);
        const unsigned long long right = ptx::tcgen05_descriptor_none(b, N * 16, 128);
        constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(M, N);
        ptx::tcgen05_cp_128x256b(base + A_AT, rows);
        ptx::tcgen05_mma_f16_from_tensor_memory(base + SUM, base + A_AT, right, INSTRUCTION, false);
        ptx::tcgen05_commit(&first);
        ptx::mbarrier_wait(&first, 0);  // copy before shift: no pair that is ordered
        ptx::tcgen05_fence_after_thread_sync();
        for (int quarter = 0; quarter < 4; ++quarter)
            ptx::tcgen05_shift_down(base + A_AT + (quarter * 32 << 16));
        ptx::tcgen05_mma_f16_from_tensor_memory(base + MOVED, base + A_AT, right, INSTRUCTION,
                                                false);
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int column = 0; column < 2 * N; column += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, base + (warp * 32 << 16) + column);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 32; ++j) out[t * 2 * N + column + j] = __uint_as_float(r[j]);
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
