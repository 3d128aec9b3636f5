// Many tiles: pairs of blocks that stay, two tiles of C one below the other from the same tile of
// B, half of which each fetches for both. C leaves under the next tile's copies.
#include "every_shape/boxes.cuh"
#include "every_shape/tiles.cuh"

constexpr int PAIR = 2, GROUPS = 2, BN = 256, SLOTS = 4, SUPER = 8;
constexpr bool EARLY = true;   // a launch may begin before the one before it has ended
constexpr int BM = 64 * GROUPS, SHARE = BN / PAIR;  // rows of B that a block fetches
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 128;

struct Ring {
    Stage<BM, BN> stage[SLOTS];
    Boxes<BN> boxes[CONSUMERS / 32];
    unsigned long long full[SLOTS], empty[SLOTS];
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

// The producer, one thread. The ring knows nothing of where a tile of C ends.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Tiles tiles,
                        int rank) {
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x / PAIR; n < tiles.count(); n += gridDim.x / PAIR) {
        const auto [down, across] = tiles.place(n);
        const int row = (down * PAIR + rank) * BM, col = across * BN;
        for (int k = 0; k < tiles.steps; ++k, advance<SLOTS>(s, phase)) {
            unsigned long long* full = &ring.full[s];
            ptx::mbarrier_wait(&ring.empty[s], !phase);  // here and there
            ptx::mbarrier_arrive_expect_tx(full, (BM + BN) * BK * sizeof(bf16));
            ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k * BK, row, full);
            bf16* b = ring.stage[s].b + rank * SHARE * BK;
            if (PAIR == 1) ptx::cp_async_bulk_tensor_load(b, B, k * BK, col, full);
            else ptx::cp_async_bulk_tensor_multicast(b, B, k * BK, col + rank * SHARE, full,
                                                     (1 << PAIR) - 1);
        }
    }
}

// Give a slot back, in both blocks: both producers write into both.
__device__ void release(Ring& ring, int s) {
    if (threadIdx.x % 32 < PAIR) {
        if (PAIR == 1) ptx::mbarrier_arrive(&ring.empty[s]);
        else ptx::mbarrier_arrive_at_after_reads(&ring.empty[s], threadIdx.x % 32);
    }
}

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, const CUtensorMap& C, Tiles tiles, int group, int rank) {
    int s = 0, before = 0, turn = 0;
    bool phase = false;
    for (int n = blockIdx.x / PAIR; n < tiles.count(); n += gridDim.x / PAIR) {
        const auto [down, across] = tiles.place(n);
        const int row = (down * PAIR + rank) * BM, col = across * BN;
        float sums[BN / 2];
#pragma unroll 1  // or ptxas lets no product overlap another
        for (int k = 0; k < tiles.steps; ++k, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.full[s], phase);
            ptx::wgmma_fence();
            begin_multiply<BN>(sums, ring.stage[s].a + group * 64 * BK, ring.stage[s].b, k > 0);
            ptx::wgmma_wait_group<1>();
            if (k > 0) release(ring, before);
            before = s;
        }
        finish_multiply(sums);
        release(ring, before);
        const int warp = threadIdx.x / 32;
        ring.boxes[warp].store(sums, C, row + warp * 16, col, turn);
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of SHARE × BK
       const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of 16 rows
       Tiles tiles)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    const int rank = blockIdx.x % PAIR;
    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], PAIR * CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();  // the other block, too, sees the barriers
    ptx::cluster_wait();
    ptx::griddepcontrol_wait();               // the launch before has ended
    ptx::griddepcontrol_launch_dependents();  // the next may come
    if (threadIdx.x >= CONSUMERS) {
        if constexpr (GROUPS > 1) ptx::setmaxnreg_dec<40>();  // registers for the sums
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, tiles, rank);
        __syncwarp();
    } else {
        if constexpr (GROUPS > 1) ptx::setmaxnreg_inc<232>();
        consume(ring, C, tiles, threadIdx.x / 128, rank);
    }
    ptx::cluster_arrive();  // a block stays while the other may write into it
    ptx::cluster_wait();
}

// Pairs that run at the same time: fewer than half of the multiprocessors where some have no
// partner, since a pair must lie in one part of the GPU.
int at_once(int multiprocessors) {
    cudaLaunchAttribute pair;
    pair.id = cudaLaunchAttributeClusterDimension;
    pair.val.clusterDim = {PAIR, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = PAIR, config.blockDim = THREADS, config.dynamicSmemBytes = sizeof(Ring);
    config.attrs = &pair, config.numAttrs = 1;
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    int count;
    CHECK(cudaOccupancyMaxActiveClusters(&count, matmul, &config));
    return std::min(count, multiprocessors / PAIR);
}

void launch(const Product& p) {
    static const int most = at_once(p.multiprocessors);
    const Tiles tiles{over(p.M, PAIR * BM), over(p.N, BN), over(p.K, BK), SUPER};
    start(matmul, std::min(tiles.count(), most) * PAIR, THREADS, sizeof(Ring), p.stream, EARLY,
          PAIR, operand(p.A, p.M, p.K, BM), operand(p.B, p.N, p.K, SHARE),
          Boxes<BN>::map(p.C, p.M, p.N), tiles);
}

#include "every_shape/harness.cuh"
