// Stream-K: the tiles of a wave that would not be full are cut along K, in equal shares for all
// pairs, before the others. Who begins a tile adds what others have of it.
#include "every_shape/product.cuh"

constexpr int PAIR = 2, GROUPS = 2, BN = 256, SLOTS = 4, SUPER = 8, BOXES = 2;
constexpr int WAVES = 2;      // that are cut along K, the last among them
constexpr bool EARLY = true;  // a launch may begin before the one before it has ended
constexpr bool LATER = true;  // C leaves while the next tile's first products run
constexpr int BM = 64 * GROUPS, CONSUMERS = 128 * GROUPS, READERS = CONSUMERS / 32;
#include "every_shape/pairs.cuh"
#include "every_shape/stream_k.cuh"

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, const CUtensorMap& C, Walk walk, float4* partial,
                        unsigned* ready, int group, int rank) {
    int s = 0, before = 0;
    bool phase = false;
    Leaving leaving{ring.boxes[threadIdx.x / 32], C};
    for (Piece piece; walk.next(piece);) {
        Corner corner;
        float sums[BN / 2];
#pragma unroll 1  // or ptxas lets no product overlap another
        for (int k = piece.first; k < piece.last; ++k, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.full[s], phase);
            ptx::wgmma_fence();
            begin_multiply<BN>(sums, ring.stage[s].a + group * 64 * BK, ring.stage[s].b,
                               k > piece.first);
            if (k == piece.first) corner = corner_of(walk.tiles, piece.tile, rank);
            leaving.part();
            ptx::wgmma_wait_group<1>();
            if (k > piece.first) release(ring, before);
            before = s;
        }
        finish_multiply(sums);
        release(ring, before);
        if (piece.first > 0) {
            give(sums, partial, ready, blockIdx.x * GROUPS + group, group);
            continue;
        }
        const int behind = (piece.tile + 1) * walk.tiles.steps;  // the step after this tile's
        for (int pair = blockIdx.x / PAIR + 1; piece.last < walk.tiles.steps; ++pair) {
            take(sums, partial, ready, (pair * PAIR + rank) * GROUPS + group, group);
            if (walk.bound(pair + 1) >= behind) break;
        }
        leaving.begin(sums, corner.row + threadIdx.x / 32 * 16, corner.col);
        if (!LATER) leaving.all();
    }
    leaving.all();
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)
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
    int filled = 0;
    if (threadIdx.x == CONSUMERS) filled = begin(ring, A, B, C, Walk(tiles, streamed));
    ptx::cluster_arrive();  // the other block, too, sees the barriers
    ptx::cluster_wait();
    ptx::griddepcontrol_wait();               // the launch before has ended
    ptx::griddepcontrol_launch_dependents();  // the next may come
    if (threadIdx.x >= CONSUMERS) {
        if constexpr (GROUPS > 1) ptx::setmaxnreg_dec<40>();  // registers for the sums
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, Walk(tiles, streamed), rank, filled);
    } else {
        if constexpr (GROUPS > 1) ptx::setmaxnreg_inc<232>();
        consume(ring, C, Walk(tiles, streamed), partial, ready, threadIdx.x / 128, rank);
    }
}

void launch(const Product& p) {
    static const int most = at_once(matmul, p.multiprocessors);
    const Tiles tiles{over(p.M, PAIR * BM), over(p.N, BN), over(p.K, BK), SUPER};
    const int pairs = std::min(tiles.count() * tiles.steps, most);
    start(matmul, pairs * PAIR, THREADS, sizeof(Ring), p.stream, EARLY, PAIR,
          operand<ACROSS_A>(p.A, p.M, p.K, BM), operand<ACROSS_B>(p.B, p.N, p.K, SHARE),
          Boxes<BN, BOXES>::map(p.C, p.M, p.N), tiles, streamed(tiles, pairs),
          reinterpret_cast<float4*>(p.partial), p.ready);
}

#include "every_shape/harness.cuh"
