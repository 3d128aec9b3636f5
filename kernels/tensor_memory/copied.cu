// From shared to tensor memory without registers: one thread issues tcgen05.cp, in a shape that you
// choose, and commits; then each warp fetches what its quarter got.
#include "ptx_tensor_memory.cuh"

#ifndef SHAPE
#define SHAPE "128x128b"  // or 64x128b.warpx2::02_13, 64x128b.warpx2::01_23, 32x128b.warpx4;
#endif                    // 128x256b and 4x256b, whose rows have two pieces
#ifndef ISSUER
#define ISSUER 0  // the thread that issues it
#endif

constexpr int COLUMNS = 32;   // allocated; the copy writes four for each piece of a row
constexpr int THREADS = 128;  // 4 warps, one for each quarter

__global__ void __launch_bounds__(THREADS)
copied(int* out)  // (128, 8): what each lane got, 1000 · piece + row; -1 for none
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(128) uint4 pieces[2][128];  // of 16 bytes: the same number four times
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32;
    for (int p = 0; p < 2; ++p) {
        const unsigned x = 1000 * p + t;
        pieces[p][t] = make_uint4(x, x, x, x);
    }
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&address);
    if (t == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::fence_proxy_async_shared();  // the copy sees the rows
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned base = address, mine = base + (warp * 32 << 16);
    unsigned none[32];
    for (unsigned& x : none) x = ~0u;
    ptx::tcgen05_st_32x32b_x32(mine, none);
    ptx::tcgen05_wait_st();
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // every cell holds -1
    ptx::tcgen05_fence_after_thread_sync();
    if (t == ISSUER) {  // to a row's next piece 2048 bytes, to the next eight rows 128
        const unsigned long long rows = ptx::tcgen05_descriptor_none(pieces, 2048, 128);
        asm volatile("tcgen05.cp.cta_group::1." SHAPE " [%0], %1;"
                     :: "r"(base), "l"(rows) : "memory");
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    unsigned r[32];
    ptx::tcgen05_ld_32x32b_x32(r, mine);
    ptx::tcgen05_wait_ld();
    for (int column = 0; column < 8; ++column) out[t * 8 + column] = r[column];
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all have fetched
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(base);
    }
#endif
}
