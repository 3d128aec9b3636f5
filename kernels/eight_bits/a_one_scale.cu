// A product of eight bits with one scale a tensor: the persistent ring of bf16, whose slots hold
// twice as much of K. The tensor core adds up all of K; the scales are multiplied in at the end.
#include "eight_bits/product.cuh"

constexpr int SCALES = 1;  // a tensor
constexpr int BN = 256;  // columns of a tile of C
constexpr int SLOTS = 4;

struct Ring {
    Stage<BN> stage[SLOTS];
    Boxes<2> boxes[CONSUMERS / 32];
    unsigned long long full[SLOTS], empty[SLOTS];
};

using Sums = float[BN / 2];  // of one thread, in the registers of a warp group: 64 × BN

// Begin sums = (without `add`) or += rows 64 · group to 64 · group + 63 of a, times all of b.
__device__ inline void begin_multiply(Sums& sums, const Stage<BN>& stage, int group, bool add) {
    const auto a = ptx::descriptor_128B(stage.a + group * 64 * BK);
    const auto b = ptx::descriptor_128B(stage.b);
    for (int k = 0; k < BK / 32; ++k)  // 32 along K are 32 bytes
        ptx::wgmma_m64n256k32(sums, a + 2 * k, b + 2 * k, add || k > 0);
    ptx::wgmma_commit_group();
}

// The producer, one thread.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Tiles tiles) {
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        for (int k = 0; k < tiles.K; k += BK, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.empty[s], !phase);
            ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage<BN>));
            ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k / 2, row * BM, &ring.full[s]);
            ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k / 2, col * BN, &ring.full[s]);
        }
    }
}

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, const CUtensorMap& C, float scale, Tiles tiles, int group) {
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
        const int warp = threadIdx.x / 32;
        store<BN>(sums, scale, ring.boxes[warp], C, row * BM + warp * BOX_ROWS, col * BN);
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of BOX_ROWS × BOX_COLS
       const float* a_scale, const float* b_scale,  // one each
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
        consume(ring, C, *a_scale * *b_scale, tiles, threadIdx.x / 128);
    }
}

void launch(const Product& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    const Tiles tiles{p.M, p.N, p.K, BN};
    const int blocks = std::min(tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Ring), p.stream>>>(map_of(p.A, p.M, p.K, BM),
                                                        map_of(p.B, p.N, p.K, BN), map_c(p),
                                                        p.a_scales, p.b_scales, tiles);
}

#include "eight_bits/product_harness.cuh"
