// The ring of Part I: one thread, the producer, keeps the copy engine busy; two warp groups, the
// consumers, keep the tensor cores busy. Slots are handed over by barriers: `full` completes with
// the bytes of both tiles, `empty` when every consumer warp has read them.
#include "hopper_ring/product.cuh"

constexpr int SLOTS = 4;
constexpr int CONSUMERS = GROUPS * 128, THREADS = CONSUMERS + 128;

struct Ring {
    Stage stage[SLOTS];
    unsigned long long full[SLOTS], empty[SLOTS];
};

// The producer, one thread: tiles of A from row `row` and of B from row `col`.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                        int tiles) {
    int s = 0;
    bool phase = false;
    for (int tile = 0; tile < tiles; ++tile, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.empty[s], !phase);
        ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage));
        ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, tile * BK, row, &ring.full[s]);
        ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, tile * BK, col, &ring.full[s]);
    }
}

// A consumer, one warp group: the sums of its 64 rows.
__device__ void consume(Ring& ring, Sums& sums, int group, int tiles) {
    int s = 0;
    bool phase = false;
    for (int tile = 0; tile < tiles; ++tile, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.full[s], phase);
        ptx::wgmma_fence();
        begin_multiply(sums, ring.stage[s], group, tile > 0);
        ptx::wgmma_wait_group<0>();
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);  // the warp has read it
    }
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       bf16* C,                                // (M, N)
       int M, int N, int K)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    const int row = blockIdx.y * BM, col = blockIdx.x * BN, tiles = (K + BK - 1) / BK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();  // the others see the barriers
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, row, col, tiles);
    } else {
        ptx::setmaxnreg_inc<232>();
        const int group = threadIdx.x / 128;
        Sums sums;
        consume(ring, sums, group, tiles);
        store(sums, C, M, N, row + group * 64, col);
    }
}

void launch(const Product& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    const dim3 grid((p.N + BN - 1) / BN, (p.M + BM - 1) / BM);
    matmul<<<grid, THREADS, sizeof(Ring), p.stream>>>(map_a(p), map_b(p), p.C, p.M, p.N, p.K);
}

#include "hopper_ring/product_harness.cuh"
