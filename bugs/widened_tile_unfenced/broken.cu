// A tile of whole numbers is widened in place, in shared memory, and then multiplied. The threads
// meet after that; for the tensor core, which reads through another proxy, it is not enough.
#include "bug.cuh"
#include "bugs_sm100.cuh"

__global__ void __launch_bounds__(128)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = 2 · A · Bᵀ
{
    __shared__ unsigned long long empty, done;
    __shared__ alignas(1024) uint4 wide[M * K / 8];
    Operands operands;
    const unsigned d = begin(operands, A, B, &empty, &done);
    for (int i = threadIdx.x; i < M * K / 8; i += blockDim.x) {
        uint4 piece = reinterpret_cast<const uint4*>(A)[i];
        bf16* number = reinterpret_cast<bf16*>(&piece);
        for (int j = 0; j < 8; ++j) number[j] = number[j] + number[j];
        wide[i ^ i / 8 % 8] = piece;
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    operands.a = ptx::tcgen05_descriptor_128B(wide);
    if (threadIdx.x == 0) {
        multiply(d, operands);
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    store(d, C);
    end(d);
}

int main() { return run(product, 128, 2); }
