// Stream-K: the tiles of a wave that would not be full are cut along K, in equal shares for all
// pairs, before the others. Who begins a tile adds what others have of it.
#include "every_shape/boxes.cuh"
#include "every_shape/tiles.cuh"

constexpr int PAIR = 2, GROUPS = 2, BN = 256, SLOTS = 4, SUPER = 8;
constexpr int WAVES = 1;       // whole waves that are cut along K, beside the last
constexpr bool EARLY = true;   // a launch may begin before the one before it has ended
constexpr int BM = 64 * GROUPS, SHARE = BN / PAIR;  // rows of B that a block fetches
constexpr int CONSUMERS = 128 * GROUPS, THREADS = CONSUMERS + 128;

struct Ring {
    Stage<BM, BN> stage[SLOTS];
    Boxes<BN> boxes[CONSUMERS / 32];
    unsigned long long full[SLOTS], empty[SLOTS];
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

// A piece of a tile, steps `first` to `last` - 1 of its K.
struct Piece { int tile, first, last; };

// What a pair does: first its share of the `streamed` tiles, the tiles laid end to end along K and
// cut into equal shares, then whole tiles.
struct Walk {
    Tiles tiles;
    int streamed, pairs, at, end, whole;

    __device__ Walk(Tiles tiles, int streamed)
        : tiles(tiles), streamed(streamed), pairs(gridDim.x / PAIR), at(bound(blockIdx.x / PAIR)),
          end(bound(blockIdx.x / PAIR + 1)), whole(streamed + blockIdx.x / PAIR) {}
    __device__ int bound(int pair) const {
        return static_cast<long long>(streamed) * tiles.steps * pair / pairs;
    }
    __device__ bool next(Piece& piece) {
        if (at < end) {
            piece = {at / tiles.steps, at % tiles.steps, 0};
            piece.last = min(tiles.steps, piece.first + end - at);
            at += piece.last - piece.first;
        } else {
            piece = {whole, 0, tiles.steps};
            whole += pairs;
        }
        return piece.tile < tiles.count();
    }
};

// The producer, one thread. The ring knows nothing of where a tile of C ends.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Walk walk,
                        int rank) {
    int s = 0;
    bool phase = false;
    for (Piece piece; walk.next(piece);) {
        const auto [down, across] = walk.tiles.place(piece.tile);
        const int row = (down * PAIR + rank) * BM, col = across * BN;
        for (int k = piece.first; k < piece.last; ++k, advance<SLOTS>(s, phase)) {
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

// Sums of a part of K for whoever has begun the tile: each thread's where it finds them again.
__device__ void give(const float (&sums)[BN / 2], float4* partial, unsigned* ready, int group) {
    const int place = blockIdx.x * GROUPS + group, t = threadIdx.x % 128;
    for (int i = 0; i < BN / 8; ++i)
        __stcg(partial + (place * BN / 8 + i) * 128 + t,
               make_float4(sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]));
    ptx::bar_sync(1 + group, 128);  // all have written
    if (t == 0) ptx::store_release(ready + place, 1);
}

__device__ void take(float (&sums)[BN / 2], const float4* partial, unsigned* ready, int block,
                     int group) {
    const int place = block * GROUPS + group, t = threadIdx.x % 128;
    if (t == 0) {
        while (ptx::load_acquire(ready + place) == 0) {}
        ready[place] = 0;  // for the next launch
    }
    ptx::bar_sync(1 + group, 128);  // it is all there
    for (int i = 0; i < BN / 8; ++i) {
        const float4 other = __ldcg(partial + (place * BN / 8 + i) * 128 + t);
        sums[4 * i] += other.x, sums[4 * i + 1] += other.y;
        sums[4 * i + 2] += other.z, sums[4 * i + 3] += other.w;
    }
}

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, const CUtensorMap& C, Walk walk, float4* partial,
                        unsigned* ready, int group, int rank) {
    const Tiles tiles = walk.tiles;
    int s = 0, before = 0, turn = 0;
    bool phase = false;
    for (Piece piece; walk.next(piece);) {
        const auto [down, across] = walk.tiles.place(piece.tile);
        const int row = (down * PAIR + rank) * BM, col = across * BN;
        float sums[BN / 2];
#pragma unroll 1  // or ptxas lets no product overlap another
        for (int k = piece.first; k < piece.last; ++k, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.full[s], phase);
            ptx::wgmma_fence();
            begin_multiply<BN>(sums, ring.stage[s].a + group * 64 * BK, ring.stage[s].b,
                               k > piece.first);
            ptx::wgmma_wait_group<1>();
            if (k > piece.first) release(ring, before);
            before = s;
        }
        finish_multiply(sums);
        release(ring, before);
        const int warp = threadIdx.x / 32;
        if (piece.first > 0) give(sums, partial, ready, group);
        else {
            const int behind = (piece.tile + 1) * tiles.steps;  // the step after this tile's
            for (int pair = blockIdx.x / PAIR + 1; piece.last < tiles.steps; ++pair) {
                take(sums, partial, ready, pair * PAIR + rank, group);
                if (walk.bound(pair + 1) >= behind) break;
            }
            ring.boxes[warp].store(sums, C, row + warp * 16, col, turn);
        }
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of SHARE × BK
       const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of 16 rows
       Tiles tiles, int streamed,
       float4* partial,                       // GROUPS · 64 · BN f32 for each block
       unsigned* ready)                       // GROUPS flags for each block
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
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, Walk(tiles, streamed), rank);
        __syncwarp();
    } else {
        if constexpr (GROUPS > 1) ptx::setmaxnreg_inc<232>();
        consume(ring, C, Walk(tiles, streamed), partial, ready, threadIdx.x / 128, rank);
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
    const int pairs = std::min(tiles.count() * tiles.steps, most);
    const int rest = tiles.count() % pairs;  // tiles of a wave that is not full
    const int streamed = rest == 0 ? 0 : std::min(tiles.count(), rest + WAVES * pairs);
    start(matmul, pairs * PAIR, THREADS, sizeof(Ring), p.stream, EARLY,
          PAIR, operand(p.A, p.M, p.K, BM), operand(p.B, p.N, p.K, SHARE),
          Boxes<BN>::map(p.C, p.M, p.N), tiles, streamed,
          reinterpret_cast<float4*>(p.partial), p.ready);
}

#include "every_shape/harness.cuh"
