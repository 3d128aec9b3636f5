// The softmax of attention puts factors into tensor memory and tells the warps that correct the
// sums. That it has begun to store them does not say that they are there.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(256)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = 3 · A · Bᵀ
{
    __shared__ unsigned long long told, empty, done;
    if (threadIdx.x == 0) ptx::mbarrier_init(&told, 128);
    Operands operands;
    const unsigned d = begin<64>(operands, A, B, &empty, &done), factors = d + N;
    if (threadIdx.x == 0) {
        multiply(d, operands);
        ptx::tcgen05_commit(&done);
    }
    if (threadIdx.x < 128) {  // the softmax
        unsigned factor[N];
        for (int i = 0; i < N; ++i) factor[i] = __float_as_uint(3);
        tcgen05_st_32x32b_x32(mine(factors), factor);
        ptx::tcgen05_wait_st();
        ptx::tcgen05_fence_before_thread_sync();
        ptx::mbarrier_arrive(&told);
    } else {  // the correction
        ptx::mbarrier_wait(&done, 0);
        ptx::mbarrier_wait(&told, 0);
        ptx::tcgen05_fence_after_thread_sync();
        unsigned sums[N], factor[N];
        fetch(factor, factors);
        fetch(sums, d);
        for (int i = 0; i < N; ++i)
            C[threadIdx.x % 128 * N + i] = __uint_as_float(sums[i]) * __uint_as_float(factor[i]);
    }
    end<64>(d);
}

int main() { return run(product, 256, 3); }
