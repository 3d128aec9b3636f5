// How fast is tensor memory? Four warps fetch the same 16 KiB again and again, in a shape that you
// choose, or store to them.
#include "ptx_tensor_memory.cuh"

#ifndef SHAPE
#define SHAPE 0  // 0: ld 32x32b.x32; 1: ld 16x256b.x8, half of the lanes, 64 columns; 2: st
#endif

constexpr int COLUMNS = 64;
constexpr int THREADS = 128;  // 4 warps, one for each quarter

__global__ void __launch_bounds__(THREADS)
rate(unsigned* out,  // (blocks, THREADS, 32): what each thread fetched last, or stored
     int times)      // how often
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32;
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&address);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all see the address
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned mine = address + (warp * 32 << 16);  // of its own quarter: no warp needs another
    unsigned r[32];
    for (int column = 0; column < 32; ++column) r[column] = 1000 * t + column;
    for (int first = 0; first < COLUMNS; first += 32) ptx::tcgen05_st_32x32b_x32(mine + first, r);
    ptx::tcgen05_wait_st();
    for (int i = 0; i < times; ++i) {
        if (SHAPE == 0) ptx::tcgen05_ld_32x32b_x32(r, mine);
        if (SHAPE == 1) ptx::tcgen05_ld_16x256b_x8(r, mine);
        if (SHAPE == 2) ptx::tcgen05_st_32x32b_x32(mine, r);
    }
    ptx::tcgen05_wait_ld();
    ptx::tcgen05_wait_st();
    for (int j = 0; j < 32; ++j) out[(blockIdx.x * THREADS + t) * 32 + j] = r[j];
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all are done
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(address);
    }
#endif
}
