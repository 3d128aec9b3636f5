// The warp that multiplies allocates tensor memory after the only barrier of the block. The
// address goes to shared memory by a weak store, and the epilogue reads it with nothing between.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(160)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = A · Bᵀ
{
    __shared__ unsigned long long empty, done;
    __shared__ unsigned address;
    Operands operands;
    const unsigned first = begin(operands, A, B, &empty, &done);
    if (threadIdx.x >= 128) {
        ptx::tcgen05_alloc<32>(&address);
        if (threadIdx.x == 128) {
            multiply(address, operands);
            ptx::tcgen05_commit(&done);
        }
        __syncwarp();
    } else {
        const unsigned d = address;
        ptx::mbarrier_wait(&done, 0);
        ptx::tcgen05_fence_after_thread_sync();
        store(d, C);
    }
    end(first);
    if (threadIdx.x >= 128) ptx::tcgen05_dealloc<32>(address);
}

int main() { return run(product, 160); }
