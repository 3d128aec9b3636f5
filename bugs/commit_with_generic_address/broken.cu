// tcgen05.commit without a state space takes a generic address. It is given the 32-bit address of
// the shared window instead, widened to 64 bits: as a generic address that is another place.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__device__ void commit(unsigned long long* barrier) {
    const unsigned long long address = __cvta_generic_to_shared(barrier);
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%0];" :: "l"(address)
                 : "memory");
}

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
        commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    store(d, C);
    end(d);
}

int main() { return run(product); }
