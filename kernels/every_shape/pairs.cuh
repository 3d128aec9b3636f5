// What kernels share whose blocks stay: a ring of slots that the blocks of a pair fill for each
// other, its producer and its consumers, and how many pairs run at a time. Include it after these:
//     PAIR, BM, BN, SLOTS   blocks of a pair; rows and columns of a block's tile; slots
//     CONSUMERS, READERS    threads that multiply; warps of a block that read a slot
//     BOXES                 boxes of C that each warp has
#pragma once
#include "every_shape/boxes.cuh"
#include "every_shape/tiles.cuh"

constexpr int SHARE = BN / PAIR;  // rows of B that a block fetches
constexpr int THREADS = CONSUMERS + 128;

struct Ring {
    Stage<BM, BN> stage[SLOTS];
    Boxes<BN, BOXES> boxes[CONSUMERS / 32];
    unsigned long long full[SLOTS], empty[SLOTS];
    unsigned long long turn[2];  // for warp groups that multiply by turns
};
static_assert(sizeof(Ring) <= 227 * 1024, "more than a block can have");

// Where a block's tile of C begins.
struct Corner { int row, col; };
__device__ Corner corner_of(const Tiles& tiles, int tile, int rank) {
    const auto [down, across] = tiles.place(tile);
    return {(down * PAIR + rank) * BM, across * BN};
}

// Bring ROWS rows of A or B, from `first` on, of step k: one box, or (ACROSS, where the transpose
// is given) a box for each 64. With a mask to these blocks of the pair.
template <int ROWS, bool ACROSS>
__device__ void bring(bf16* to, const CUtensorMap& map, int k, int first, unsigned long long* full,
                      unsigned short mask = 0) {
    for (int at = 0; at < ROWS; at += ACROSS ? 64 : ROWS) {
        const int x = ACROSS ? first + at : k * BK, y = ACROSS ? k * BK : first;
        if (mask) ptx::cp_async_bulk_tensor_multicast(to + at * BK, map, x, y, full, mask);
        else ptx::cp_async_bulk_tensor_load(to + at * BK, map, x, y, full);
    }
}

// Fill slot s with step k of the tile at a corner: each block brings its share of B for all.
__device__ void fill(Ring& ring, int s, const CUtensorMap& A, const CUtensorMap& B, Corner corner,
                     int k, int rank) {
    unsigned long long* full = &ring.full[s];
    ptx::mbarrier_arrive_expect_tx(full, (BM + BN) * BK * sizeof(bf16));
    bring<BM, ACROSS_A>(ring.stage[s].a, A, k, corner.row, full);
    bring<SHARE, ACROSS_B>(ring.stage[s].b + rank * SHARE * BK, B, k, corner.col + rank * SHARE,
                           full, PAIR == 1 ? 0 : (1 << PAIR) - 1);
}

// The producer, one thread, before its block meets the other: barriers and maps. A block that is
// alone fills its slots at once; nobody has to give them back. Returns how many it has filled.
template <class Walk>
__device__ int begin(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, const CUtensorMap& C,
                     Walk walk) {
    for (int s = 0; s < SLOTS; ++s) {
        ptx::mbarrier_init(&ring.full[s], 1);
        ptx::mbarrier_init(&ring.empty[s], PAIR * READERS);
    }
    for (auto& turn : ring.turn) ptx::mbarrier_init(&turn, 4);  // warps of the other group
    ptx::fence_mbarrier_init();
    for (const auto* map : {&A, &B, &C}) ptx::prefetch_tensormap(*map);
    Piece piece;
    if (PAIR > 1 || !walk.next(piece)) return 0;
    ptx::griddepcontrol_wait();  // the launch before has ended
    const int filled = min(SLOTS, piece.last - piece.first);
    for (int s = 0; s < filled; ++s)
        fill(ring, s, A, B, corner_of(walk.tiles, piece.tile, 0), piece.first + s, 0);
    return filled;
}

// The producer after that. The ring knows nothing of where a tile of C ends.
template <class Walk>
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Walk walk, int rank,
                        int filled) {
    int s = 0;
    bool phase = false;
    for (Piece piece; walk.next(piece);) {
        const Corner corner = corner_of(walk.tiles, piece.tile, rank);
        for (int k = piece.first; k < piece.last; ++k, advance<SLOTS>(s, phase)) {
            if (filled-- > 0) continue;
            ptx::mbarrier_wait(&ring.empty[s], !phase);  // here and there
            fill(ring, s, A, B, corner, k, rank);
        }
    }
    // A block stays until the other has given all slots back: it arrives at barriers in here.
    for (int i = 0; i < SLOTS; ++i, advance<SLOTS>(s, phase))
        ptx::mbarrier_wait(&ring.empty[s], !phase);
}

// Results of 64 rows of a tile on their way out of a warp's registers: a part at a time, while
// products of the next tile run.
struct Leaving {
    using Out = Boxes<BN, BOXES>;
    Out& boxes;
    const CUtensorMap& C;
    Results<BN> results;
    int row, col, next = Out::PARTS;  // where they go; the part that is next

    __device__ void begin(const float (&sums)[BN / 2], int new_row, int new_col) {
        all();  // of the tile before
        round<BN>(sums, results);
        row = new_row, col = new_col, next = 0;
    }
    __device__ void part() {
#pragma unroll
        for (int i = 0; i < Out::PARTS; ++i)
            if (i == next) boxes.store(results, i, C, row, col);
        next = min(next + 1, Out::PARTS);
    }
    __device__ void all() {
#pragma unroll 1
        while (next < Out::PARTS) part();
    }
};

// Give a slot back, in both blocks: both producers write into both.
__device__ void release(Ring& ring, int s) {
    if (threadIdx.x % 32 < PAIR) {
        if (PAIR == 1) ptx::mbarrier_arrive(&ring.empty[s]);
        else ptx::mbarrier_arrive_at_after_reads(&ring.empty[s], threadIdx.x % 32);
    }
}

// Pairs that run at the same time: fewer than half of the multiprocessors where some have no
// partner, since a pair must lie in one part of the GPU.
template <class Kernel> int at_once(Kernel kernel, int multiprocessors) {
    cudaLaunchAttribute pair;
    pair.id = cudaLaunchAttributeClusterDimension;
    pair.val.clusterDim = {PAIR, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = PAIR, config.blockDim = THREADS, config.dynamicSmemBytes = sizeof(Ring);
    config.attrs = &pair, config.numAttrs = 1;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    int count;
    CHECK(cudaOccupancyMaxActiveClusters(&count, kernel, &config));
    return std::min(count, multiprocessors / PAIR);
}
