// The correction of attention: fetch a sum from tensor memory, multiply it, put it back. Using a
// register waits for its value; it does not say that the cells have been read.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(128)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = 2 · A · Bᵀ
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
    unsigned sums[N];
    ptx::tcgen05_ld_32x32b_x32(sums, mine(d));
    for (int i = 0; i < N; ++i) sums[i] = __float_as_uint(2 * __uint_as_float(sums[i]));
    tcgen05_st_32x32b_x32(mine(d), sums);
    ptx::tcgen05_wait_st();
    store(d, C);
    end(d);
}

int main() { return run(product, 128, 2); }
