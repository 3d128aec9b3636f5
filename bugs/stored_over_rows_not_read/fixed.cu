// Two warp groups share the scores: each fetches half of the columns. The second stores its weights
// where the first half of the scores is, and does not know that the first group has fetched them.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(256)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = 3 · A · Bᵀ: the first half, and twice the second
{
    __shared__ unsigned long long empty, done;
    Operands operands;
    const unsigned d = begin<64>(operands, A, B, &empty, &done);
    if (threadIdx.x == 0) {
        multiply(d, operands);
        multiply(d + N, operands);
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    unsigned scores[N], weights[N];
    fetch(scores, threadIdx.x < 128 ? d : d + N);
    ptx::tcgen05_fence_before_thread_sync();
    asm volatile("bar.sync 1, 256;" ::: "memory");
    ptx::tcgen05_fence_after_thread_sync();
    if (threadIdx.x >= 128) {
        for (int i = 0; i < N; ++i) weights[i] = __float_as_uint(2 * __uint_as_float(scores[i]));
        tcgen05_st_32x32b_x32(mine(d), weights);
        ptx::tcgen05_wait_st();
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    if (threadIdx.x < 128) {
        fetch(weights, d);
        for (int i = 0; i < N; ++i)
            C[threadIdx.x * N + i] = __uint_as_float(scores[i]) + __uint_as_float(weights[i]);
    }
    end<64>(d);
}

int main() { return run(product, 256, 3); }
