// A warp group fetches two accumulators from tensor memory, one after the other. One barrier stands
// for both, and tells after the first of them that they may be written.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(160)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = 6 · A · Bᵀ: two accumulators, after one product and after two
{
    __shared__ unsigned long long empty, full;
    Operands operands;
    const unsigned d = begin<64>(operands, A, B, &empty, &full);
    if (threadIdx.x == 128)
        for (int round = 0; round < 2; ++round) {
            if (round > 0) ptx::mbarrier_wait(&empty, 0);
            ptx::tcgen05_fence_after_thread_sync();
            multiply(d, operands, round > 0);
            multiply(d + N, operands, round > 0);
            ptx::tcgen05_commit(&full);
        }
    if (threadIdx.x < 128) {
        float total[N] = {};
        for (int round = 0; round < 2; ++round) {
            ptx::mbarrier_wait(&full, round);
            ptx::tcgen05_fence_after_thread_sync();
            unsigned one[N], other[N];
            fetch(one, d);
            fetch(other, d + N);
            ptx::tcgen05_fence_before_thread_sync();
            asm volatile("bar.sync 1, 128;" ::: "memory");
            if (threadIdx.x == 0) ptx::mbarrier_arrive(&empty);
            for (int i = 0; i < N; ++i)
                total[i] += __uint_as_float(one[i]) + __uint_as_float(other[i]);
        }
        for (int i = 0; i < N; ++i) C[threadIdx.x * N + i] = total[i];
    }
    end<64>(d);
}

int main() { return run(product, 160, 6); }
