// The two blocks of a pair allocate tensor memory together, each when it comes to it. Nothing says
// that the other block runs by then.
#include "bug.cuh"
#include "ptx_sm100.cuh"

constexpr int THREADS = 128;

__global__ void __cluster_dims__(2) __launch_bounds__(THREADS) allocate(unsigned* out) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ unsigned address;
    ptx::cluster_arrive();
    ptx::cluster_wait();
    if (threadIdx.x < 32) ptx::tcgen05_alloc<64, 2>(&address);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    out[blockIdx.x * THREADS + threadIdx.x] = (address & 0xffff) < 512;
    ptx::tcgen05_fence_before_thread_sync();
    ptx::cluster_arrive();
    ptx::cluster_wait();
    ptx::tcgen05_fence_after_thread_sync();
    if (threadIdx.x < 32) {
        ptx::tcgen05_relinquish_alloc_permit<2>();
        ptx::tcgen05_dealloc<64, 2>(address);
    }
#endif
}

int main() {
    unsigned* out = poisoned<unsigned>(2 * THREADS);
    allocate<<<2, THREADS>>>(out);
    return verdict(to_host(out, 2 * THREADS), std::vector<unsigned>(2 * THREADS, 1));
}
