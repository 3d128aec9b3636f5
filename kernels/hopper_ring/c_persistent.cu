// The ring, by persistent blocks: one on each multiprocessor, which computes tile after tile of C.
// While the consumers store a tile, the producer is already filling slots for the next. The order
// of the tiles is that of super-rows.
#include "hopper_ring/product.cuh"

constexpr int SLOTS = 4;
constexpr int CONSUMERS = GROUPS * 128, THREADS = CONSUMERS + 128;

struct Ring {
    Stage stage[SLOTS];
    unsigned long long full[SLOTS], empty[SLOTS];
};

// The producer, one thread. The ring knows nothing of where a tile of C ends.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Tiles tiles) {
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        for (int k = 0; k < tiles.K; k += BK, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.empty[s], !phase);
            ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage));
            ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k, row * BM, &ring.full[s]);
            ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k, col * BN, &ring.full[s]);
        }
    }
}

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, bf16* C, Tiles tiles, int group) {
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        Sums sums;
        for (int k = 0; k < tiles.K; k += BK, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.full[s], phase);
            ptx::wgmma_fence();
            begin_multiply(sums, ring.stage[s], group, k > 0);
            ptx::wgmma_wait_group<0>();
            if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);
        }
        store(sums, C, tiles.M, tiles.N, row * BM + group * 64, col * BN);
    }
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       bf16* C,                                // (M, N)
       Tiles tiles)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
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
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, tiles);
    } else {
        ptx::setmaxnreg_inc<232>();
        consume(ring, C, tiles, threadIdx.x / 128);
    }
}

void launch(const Product& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    const Tiles tiles{p.M, p.N, p.K, BM};
    const int blocks = std::min(tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Ring), p.stream>>>(map_a(p), map_b(p), p.C, tiles);
}

#include "hopper_ring/product_harness.cuh"
