// One warp group has fetched its results from tensor memory and gives the columns back. Another is
// still fetching; the barrier between the two counts the first group only.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(256)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = A · Bᵀ
{
    __shared__ unsigned long long empty, done;
    Operands operands;
    const unsigned d = begin(operands, A, B, &empty, &done);
    if (threadIdx.x == 0) {
        multiply(d, operands);
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    if (threadIdx.x >= 128) store(d, C);  // the second group
    ptx::tcgen05_fence_before_thread_sync();
    if (threadIdx.x < 128) asm volatile("bar.sync 1, 128;" ::: "memory");
    if (threadIdx.x < 32) ptx::tcgen05_dealloc<32>(d);
}

int main() { return run(product, 256); }
