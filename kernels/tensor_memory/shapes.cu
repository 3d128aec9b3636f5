// Tensor memory without a product: four warps store the number of each cell, lane and column, and
// warps that you choose fetch four registers a thread in a shape that you choose.
#include "ptx_tensor_memory.cuh"

#ifndef SHAPE
#define SHAPE "16x256b.x1"  // four registers in each shape: 32x32b.x4, 16x64b.x4, 16x128b.x2
#define APART ""            // ", 8" for 16x32bx2.x4 alone: its second half begins 8 columns on
#endif

constexpr int COLUMNS = 32;   // allocated
constexpr int THREADS = 192;  // 6 warps

__global__ void __launch_bounds__(THREADS)
shapes(int* out,     // (THREADS, 4): 1000 · lane + column of what each thread fetched
       int who,      // the warp that fetches; 6: warps 0 to 3, each from its own quarter
       int quarter)  // of the lanes, from which it does
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ unsigned address;
    const int t = threadIdx.x, warp = t / 32;
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&address);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all see the address
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned base = address;
    if (warp < 4) {
        unsigned cells[32];
        for (int column = 0; column < 32; ++column) cells[column] = 1000 * t + column;
        ptx::tcgen05_st_32x32b_x32(base + (warp * 32 << 16), cells);  // thread t: lane t
        ptx::tcgen05_wait_st();
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all cells are written
    ptx::tcgen05_fence_after_thread_sync();
    if (who == 6 ? warp < 4 : warp == who) {
        const unsigned from = base + ((who == 6 ? warp : quarter) * 32 << 16);
        unsigned r[4];
        asm volatile("tcgen05.ld.sync.aligned." SHAPE ".b32 {%0, %1, %2, %3}, [%4]" APART ";"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from));
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 4; ++j) out[t * 4 + j] = r[j];
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all have fetched
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(base);
    }
#endif
}
