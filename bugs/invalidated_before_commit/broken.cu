// The tensor core tells the producer through `empty` that it has read its tiles. Before the kernel
// ends, the barriers are invalidated; what the last commit will do to them is not waited for.
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
        ptx::tcgen05_commit(&empty);  // the tiles may be overwritten
        ptx::tcgen05_commit(&done);   // the product is there
    }
    if (threadIdx.x == 32) ptx::mbarrier_inval(&empty);
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    store(d, C);
    end(d);
}

int main() { return run(product); }
