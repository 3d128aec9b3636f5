// C = A · Bᵀ by the copy engine and the tensor cores, in turn: one thread asks for a tile of A and
// one of B, everybody waits for them; two warp groups multiply, everybody waits for that.
#include "hopper_ring/product.cuh"

constexpr int THREADS = GROUPS * 128;

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       bf16* C,                                // (M, N)
       int M, int N, int K)
{
    extern __shared__ __align__(1024) char memory[];
    Stage& stage = *reinterpret_cast<Stage*>(memory);
    __shared__ unsigned long long full;  // completes when both tiles have come
    const int row = blockIdx.y * BM, col = blockIdx.x * BN, group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();  // the others see the barrier

    Sums sums;
    for (int tile = 0; tile * BK < K; ++tile) {
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expect_tx(&full, sizeof stage);  // at the edges too
            ptx::cp_async_bulk_tensor_load(stage.a, A, tile * BK, row, &full);
            ptx::cp_async_bulk_tensor_load(stage.b, B, tile * BK, col, &full);
        }
        ptx::mbarrier_wait(&full, tile & 1);
        ptx::wgmma_fence();
        begin_multiply(sums, stage, group, tile > 0);
        ptx::wgmma_wait_group<0>();
        __syncthreads();  // all warps have read the stage
    }
    store(sums, C, M, N, row + group * 64, col);
}

void launch(const Product& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Stage)));
    const dim3 grid((p.N + BN - 1) / BN, (p.M + BM - 1) / BM);
    matmul<<<grid, THREADS, sizeof(Stage), p.stream>>>(map_a(p), map_b(p), p.C, p.M, p.N, p.K);
}

#include "hopper_ring/product_harness.cuh"
