// Two products take A from one slot of tensor memory. The warps that fill it wait for their stores,
// but not until the product before has read the slot.
#include "bug.cuh"
#include "bugs_sm100.cuh"

// This thread's row of A, times `factor`, to the slot: two numbers in a column.
__device__ inline void fill(unsigned slot, const bf16* A, float factor) {
    unsigned row[K / 2];
    for (int i = 0; i < K / 2; ++i) {
        const bf16* two = A + threadIdx.x * K + 2 * i;
        const __nv_bfloat162 pair{__float2bfloat16(factor * __bfloat162float(two[0])),
                                  __float2bfloat16(factor * __bfloat162float(two[1]))};
        row[i] = reinterpret_cast<const unsigned&>(pair);
    }
    tcgen05_st_32x32b_x32(mine(slot), row);
    ptx::tcgen05_wait_st();
}

__global__ void __launch_bounds__(160)
product(const bf16* A,  // (M, K)
        const bf16* B,  // (N, K)
        float* C)       // (M, N) = (A + 2 · A) · Bᵀ
{
    __shared__ unsigned long long full[2], empty, done;
    if (threadIdx.x < 2) ptx::mbarrier_init(&full[threadIdx.x], 128);
    Operands operands;
    const unsigned d = begin<64>(operands, A, B, &empty, &done), slot = d + N;
    if (threadIdx.x < 128)
        for (int round = 0; round < 2; ++round) {
            ptx::tcgen05_fence_after_thread_sync();
            fill(slot, A, 1 + round);
            ptx::tcgen05_fence_before_thread_sync();
            ptx::mbarrier_arrive(&full[round]);
        }
    if (threadIdx.x == 128)
        for (int round = 0; round < 2; ++round) {
            ptx::mbarrier_wait(&full[round], 0);
            ptx::tcgen05_fence_after_thread_sync();
            for (int s = 0; s < K / 16; ++s)
                ptx::tcgen05_mma_f16_from_tensor_memory(d, slot + 8 * s, operands.b + 2 * s,
                                                        ptx::tcgen05_bf16_f32(M, N), round + s > 0);
            ptx::tcgen05_commit(round == 0 ? &empty : &done);
        }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    if (threadIdx.x < 128) store(d, C);
    end<64>(d);
}

int main() { return run(product, 160, 3); }
