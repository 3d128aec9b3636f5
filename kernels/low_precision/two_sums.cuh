// What blocks that stay share where two sums overlap: which columns are whose, who makes which tile,
// and the epilogue, which fetches the common columns first and has the copy engine store C.
#pragma once
#include "chain/out.cuh"
#include "chain/place.cuh"
#include "ptx_block_scales.cuh"
#include "tensor_map.cuh"

constexpr int TILE_N = 256;                // columns of C, and of a sum
constexpr int TILE_K = 256;                // a slice: rows of 128 bytes, two numbers in each
constexpr int STEP = 64, STEPS = TILE_K / STEP;  // what one instruction takes of it
constexpr int STAGES = 3;                  // slots of slices
constexpr int ROWS = 128;                  // of A that a block brings, and of the sum that it holds
constexpr int ATOM = 512;                  // bytes: four scales, 64 along k, for each of 128 rows
constexpr int HALVES = TILE_N / 128;       // of B's rows: an atom for each
constexpr int SLICE_WORDS = STEPS * ATOM / 8;  // a slice's scales for 128 rows, in 8 bytes each
constexpr int EPILOGUE = 4;                // warps 0-3
constexpr int THREADS = 192;               // 4: the loader; 5: products
constexpr int SCALES = 4;                  // columns of tensor memory that an atom takes
constexpr int COLUMNS = 512;
constexpr int SLOT_SCALES = STEPS * (1 + HALVES) * SCALES;  // columns: 16 of A, 32 of B
constexpr int SCALES_AT = COLUMNS - STAGES * SLOT_SCALES;   // behind the second sum
constexpr int SECOND = SCALES_AT - TILE_N;                  // where it begins; the first one at 0
constexpr int BOTH = (TILE_N - SECOND + PIECE - 1) / PIECE;  // pieces that hold the common columns

// B_ROWS: that a block brings of a slice of B.
template <int B_ROWS> struct Slot {
    alignas(1024) unsigned char a[ROWS * TILE_K / 2], b[B_ROWS * TILE_K / 2];
    unsigned char a_scales[STEPS][ATOM], b_scales[HALVES][STEPS][ATOM];
};

template <int B_ROWS> struct Rings {
    Slot<B_ROWS> slots[STAGES];
    alignas(1024) uint4 c[2][ROWS * PARTS];  // pieces of the sum on their way to C
    unsigned long long full[STAGES], empty[STAGES], sum_full, sum_free;
    unsigned tensor_memory;  // its address
};

// What a role does for each tile of this block, or of its cluster: the tile's place, its number.
template <int BLOCKS, class Work> __device__ void for_each_tile(int m, int n, Work work) {
    const int down = (m + BLOCKS * ROWS - 1) / (BLOCKS * ROWS);
    const int tiles = down * ((n + TILE_N - 1) / TILE_N);
    int turn = 0;
    for (int tile = blockIdx.x / BLOCKS; tile < tiles; tile += gridDim.x / BLOCKS, ++turn)
        work(tile % down, tile / down, turn);
}

// `free`: what says, by a thread of each warp, that the common columns are in registers.
template <int BLOCKS, class Shared, class Free>
__device__ void store(Shared& s, const CUtensorMap& C, int m, int n, Free free) {
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, rank = blockIdx.x % BLOCKS;
    Place<2> to;
    for_each_tile<BLOCKS>(m, n, [&](int down, int across, int turn) {
        const unsigned sum = s.tensor_memory + (warp * 32 << 16) + turn % 2 * SECOND;
        const int row = (down * BLOCKS + rank) * ROWS;
        ptx::mbarrier_wait(&s.sum_full, turn % 2);
        ptx::tcgen05_fence_after_thread_sync();
        for (int piece = 0; piece < TILE_N / PIECE; ++piece, to.advance()) {
            // From the end that the other sum has too: of the first sum the right one.
            const int first = PIECE * (turn % 2 ? piece : TILE_N / PIECE - 1 - piece);
            unsigned r[PIECE];
            ptx::tcgen05_ld_32x32b_x32(r, sum + first);
            ptx::tcgen05_wait_ld();
            if (piece == BOTH - 1) {  // in registers: the next tile may begin
                ptx::tcgen05_fence_before_thread_sync();
                if (lane == 0) free();
            }
            uint4* out = s.c[to.slot];
            for (int p = 0; p < PARTS; ++p)  // 16 bytes of this thread's row, swizzled
                out[t * PARTS + (p ^ t * PARTS / 8 % PARTS)] = part(r, p);
            ptx::fence_proxy_async_shared();
            if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the piece before has left
            ptx::bar_sync(1, 32 * EPILOGUE);  // all rows are there; the other slot is empty
            if (t == 0) {
                ptx::cp_async_bulk_tensor_store(C, across * TILE_N + first, row, out);
                ptx::cp_async_bulk_commit_group();
            }
        }
    });
    if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // shared memory ends with the block
}
