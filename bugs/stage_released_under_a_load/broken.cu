// The epilogue fetches a sum and releases its stage; the wait for the load comes after. The next
// product may write the cells while they are read.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(160)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = A · Bᵀ, computed twice
{
    __shared__ unsigned long long empty, full;
    Operands operands;
    const unsigned d = begin(operands, A, B, &empty, &full);
    if (threadIdx.x == 128)  // the product
        for (int round = 0; round < 2; ++round) {
            if (round > 0) ptx::mbarrier_wait(&empty, 0);
            ptx::tcgen05_fence_after_thread_sync();
            multiply(d, operands);
            ptx::tcgen05_commit(&full);
        }
    if (threadIdx.x < 128)  // the epilogue
        for (int round = 0; round < 2; ++round) {
            ptx::mbarrier_wait(&full, round);
            ptx::tcgen05_fence_after_thread_sync();
            unsigned sums[N];
            ptx::tcgen05_ld_32x32b_x32(sums, mine(d));
            ptx::tcgen05_fence_before_thread_sync();
            asm volatile("bar.sync 1, 128;" ::: "memory");
            if (threadIdx.x == 0) ptx::mbarrier_arrive(&empty);
            ptx::tcgen05_wait_ld();
            for (int i = 0; i < N; ++i) C[threadIdx.x * N + i] = __uint_as_float(sums[i]);
        }
    end(d);
}

int main() { return run(product, 160); }
