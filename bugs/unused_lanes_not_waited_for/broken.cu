// Only the first half of each warp has rows that count; the others fetch theirs too, as the
// instruction wants it, and use nothing. Nobody waits for their load before the columns are freed.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(128)
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
    store(d, C);
    unsigned sums[N];
    ptx::tcgen05_ld_32x32b_x32(sums, mine(d));
    if (threadIdx.x % 32 < 16)
        for (int i = 0; i < N; ++i) C[threadIdx.x * N + i] = __uint_as_float(sums[i]);
    end(d);
}

int main() { return run(product); }
