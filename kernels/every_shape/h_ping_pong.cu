// Ping-pong: a tile belongs to one warp group, and the two groups of a block multiply by turns.
// While one stores its tile of C, or hands over sums, the other has the tensor cores.
#include "every_shape/product.cuh"

constexpr int PAIR = 2, HALVES = 2, BN = 128, SLOTS = 6, SUPER = 8, BOXES = 2;
constexpr int WAVES = 0;      // that are cut along K, the last among them
constexpr bool EARLY = true;  // a launch may begin before the one before it has ended
constexpr int BM = 64 * HALVES, CONSUMERS = 256, READERS = 4;
#include "every_shape/pairs.cuh"
#include "every_shape/stream_k.cuh"

// A thread's sums of a tile, of 64 rows and of the 64 below.
using Sums = float[HALVES * BN / 2];
__device__ float (&rows_of(Sums& sums, int h))[BN / 2] {
    return *reinterpret_cast<float (*)[BN / 2]>(sums + h * BN / 2);
}

// A group multiplies a piece, whose first slot is number `at` of the block. It begins when the
// other has got its last slot: a barrier's parity is one bit, so nobody may wait for a phase that
// is not the slot's next.
__device__ void multiply(Ring& ring, Sums& sums, int group, int made, int at, int steps) {
    ptx::mbarrier_wait(&ring.turn[group], (made / 2 + group + 1) % 2);
    int s = at % SLOTS, before = s;
    bool phase = at / SLOTS % 2;
#pragma unroll 1  // or ptxas lets no product overlap another
    for (int k = 0; k < steps; ++k, advance<SLOTS>(s, phase)) {
        ptx::mbarrier_wait(&ring.full[s], phase);
        if (k == steps - 1) {
            __syncwarp();  // no lane still waits for the phase of `turn` before this one
            if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.turn[1 - group]);
        }
        ptx::wgmma_fence();
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
            begin_multiply<BN>(rows_of(sums, h), ring.stage[s].a + h * 64 * BK, ring.stage[s].b,
                               k > 0);
        ptx::wgmma_wait_group<HALVES>();
        if (k > 0) release(ring, before);
        before = s;
    }
    finish_multiply(sums);
    release(ring, before);
}

// A consumer, one warp group: every other piece.
__device__ void consume(Ring& ring, const CUtensorMap& C, Walk walk, float4* partial,
                        unsigned* ready, int group, int rank) {
    int at = 0, made = 0;  // slots and pieces of the block
    Leaving leaving{ring.boxes[threadIdx.x / 32], C};
    for (Piece piece; walk.next(piece); at += piece.last - piece.first, ++made) {
        if (made % 2 != group) continue;
        Sums sums;
        multiply(ring, sums, group, made, at, piece.last - piece.first);
        if (piece.first > 0) {
            give(sums, partial, ready, blockIdx.x, group);
            continue;
        }
        const int behind = (piece.tile + 1) * walk.tiles.steps;  // the step after this tile's
        for (int pair = blockIdx.x / PAIR + 1; piece.last < walk.tiles.steps; ++pair) {
            take(sums, partial, ready, pair * PAIR + rank, group);
            if (walk.bound(pair + 1) >= behind) break;
        }
        const Corner corner = corner_of(walk.tiles, piece.tile, rank);
#pragma unroll
        for (int h = 0; h < HALVES; ++h)
            leaving.begin(rows_of(sums, h), corner.row + h * 64 + threadIdx.x % 128 / 32 * 16,
                          corner.col);
        leaving.all();
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of SHARE × BK
       const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of 16 rows
       Tiles tiles, int streamed,
       float4* partial,                       // BM · BN f32 for each block
       unsigned* ready)                       // a flag for each block
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
        ptx::setmaxnreg_dec<40>();  // registers for the sums
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, Walk(tiles, streamed), rank, filled);
    } else {
        ptx::setmaxnreg_inc<232>();
        consume(ring, C, Walk(tiles, streamed), partial, ready, threadIdx.x / 128, rank);
    }
}

void launch(const Product& p) {
    static const int most = at_once(matmul, p.multiprocessors);
    const Tiles tiles{over(p.M, PAIR * BM), over(p.N, BN), over(p.K, BK), SUPER};
    const int pairs = std::min(WAVES ? tiles.count() * tiles.steps : tiles.count(), most);
    start(matmul, pairs * PAIR, THREADS, sizeof(Ring), p.stream, EARLY, PAIR,
          operand<ACROSS_A>(p.A, p.M, p.K, BM), operand<ACROSS_B>(p.B, p.N, p.K, SHARE),
          Boxes<BN, BOXES>::map(p.C, p.M, p.N), tiles, streamed(tiles, pairs),
          reinterpret_cast<float4*>(p.partial), p.ready);
}

#include "every_shape/harness.cuh"
