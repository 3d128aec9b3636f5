// Columns are the multiprocessor's: a block allocates FIRST of them, then MORE, and gives
// them back. Blocks that share a multiprocessor wait for each other's.
#include "ptx_sm100.cuh"

#ifndef FIRST
#define FIRST 256
#define MORE 256
#endif

constexpr int THREADS = 32;  // one warp

__global__ void __launch_bounds__(THREADS)
columns(int* out)  // (blocks, 2): the addresses that each block got
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ unsigned address[2];
    ptx::tcgen05_alloc<FIRST>(&address[0]);
    __syncwarp();
    const unsigned first = address[0];
    ptx::tcgen05_alloc<MORE>(&address[1]);
    __syncwarp();
    const unsigned more = address[1];
    ptx::tcgen05_relinquish_alloc_permit();
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = first;
        out[2 * blockIdx.x + 1] = more;
    }
    ptx::tcgen05_dealloc<FIRST>(first);
    ptx::tcgen05_dealloc<MORE>(more);
#endif
}
