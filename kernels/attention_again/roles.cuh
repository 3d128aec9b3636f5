// The roles that do not differ between b, c and d: who loads, who multiplies, and how a block with
// two tiles of queries begins and ends.
#pragma once
#include "attention_again/softmax.cuh"

constexpr int TILES = 2;   // of queries in a block
constexpr int STAGES = 3;  // slots for tiles of K and V, in turn
constexpr int WARPS = 4;   // of a group: a thread a row

struct Shared {
    Tile q[TILES];  // later O, on its way out
    Tile kv[STAGES];
    float factors[TILES][ROWS], sums[TILES][ROWS];  // for the correction group
    unsigned long long q_full[TILES], kv_full[STAGES], kv_empty[STAGES];
    unsigned long long s_full[TILES];       // a commit
    unsigned long long factor_full[TILES];  // warps: each row's factor
    unsigned long long sum_full[TILES];     // warps: each row's sum, the last
    unsigned long long ready[TILES];        // warps: P is there, and O may be added to
    unsigned long long o_full[TILES];       // a commit, the last
    unsigned long long out_full[TILES];     // warps: O as bf16 is in shared memory
    unsigned tensor_memory;                 // its address
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// K₀, V₀, K₁, V₁, …: one ring.
__device__ inline void load_tiles(Shared& s, const CUtensorMap& Q, const CUtensorMap& K,
                                  const CUtensorMap& V, int first, int head, int steps) {
    Place<STAGES> at;
    auto next = [&](const CUtensorMap& from, int key) {
        unsigned long long* full = &s.kv_full[at.slot];
        ptx::mbarrier_wait(&s.kv_empty[at.slot], at.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, sizeof(Tile));
        load(s.kv[at.slot], from, key, head, full);
        at.advance();
    };
    for (int step = 0; step < steps; ++step) {
        for (int tile = 0; tile < TILES && step == 0; ++tile) {
            ptx::mbarrier_arrive_expect_tx(&s.q_full[tile], sizeof(Tile));
            load(s.q[tile], Q, first + tile * ROWS, head, &s.q_full[tile]);
        }
        next(K, step * ROWS);
        next(V, step * ROWS);
    }
    tail(s.kv_empty, at);
}

// Both products of each step, the tiles by turns: while a group works on the scores of one tile,
// the tensor core works on the other.
__device__ inline void multiply(Shared& s, int steps) {
    Place<STAGES> at;
    auto full = [&] { ptx::mbarrier_wait(&s.kv_full[at.slot], at.phase); };
    auto scores = [&](int tile, int slot) {
        multiply_scores(s.tensor_memory + s_columns(tile), s.q[tile], s.kv[slot]);
        ptx::tcgen05_commit(&s.s_full[tile]);
    };
    full();
    for (int tile = 0; tile < TILES; ++tile) {
        ptx::mbarrier_wait(&s.q_full[tile], 0);
        scores(tile, at.slot);
    }
    ptx::tcgen05_commit(&s.kv_empty[at.slot]);
    at.advance();
    for (int step = 0; step < steps; ++step) {
        const bool last = step == steps - 1;
        const int v = at.slot;
        full();
        at.advance();
        if (!last) full();  // the next K
        for (int tile = 0; tile < TILES; ++tile) {
            const unsigned o = s.tensor_memory + o_columns(tile);
            ptx::mbarrier_wait(&s.ready[tile], step % 2);
            ptx::tcgen05_fence_after_thread_sync();
            multiply_weights(o, s.tensor_memory + s_columns(tile), s.kv[v], step > 0);
            if (last) ptx::tcgen05_commit(&s.o_full[tile]);
            else scores(tile, at.slot);  // over P, which the product before it reads
        }
        ptx::tcgen05_commit(&s.kv_empty[v]);
        if (last) break;
        ptx::tcgen05_commit(&s.kv_empty[at.slot]);
        at.advance();
    }
}

// Tiles of O leave as they are finished.
__device__ inline void store_tiles(Shared& s, const CUtensorMap& O, int first, int head) {
    for (int tile = 0; tile < TILES; ++tile) {
        ptx::mbarrier_wait(&s.out_full[tile], 0);
        store(O, s.q[tile], first + tile * ROWS, head);
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory ends with the block
}

// All lanes of a warp have done their part: one arrival for the 32.
__device__ inline void arrive(unsigned long long* barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barrier);
}

// Barriers and tensor memory; `makers`: groups that a product of weights waits for.
__device__ inline void begin(Shared& s, int makers) {
    if (threadIdx.x == 0) {
        for (int tile = 0; tile < TILES; ++tile) {
            ptx::mbarrier_init(&s.q_full[tile], 1);
            ptx::mbarrier_init(&s.s_full[tile], 1);
            ptx::mbarrier_init(&s.factor_full[tile], WARPS);
            ptx::mbarrier_init(&s.sum_full[tile], WARPS);
            ptx::mbarrier_init(&s.ready[tile], makers * WARPS);
            ptx::mbarrier_init(&s.o_full[tile], 1);
            ptx::mbarrier_init(&s.out_full[tile], WARPS);
        }
        for (int slot = 0; slot < STAGES; ++slot) {
            ptx::mbarrier_init(&s.kv_full[slot], 1);
            ptx::mbarrier_init(&s.kv_empty[slot], 1);
        }
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp allocates together
    if (threadIdx.x < 32) ptx::tcgen05_alloc<COLUMNS>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barriers
    ptx::tcgen05_fence_after_thread_sync();
}

__device__ inline void end(Shared& s) {
    __syncwarp();  // the lanes that had no role
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // everybody has read
    ptx::tcgen05_fence_after_thread_sync();
    if (threadIdx.x < 32) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(s.tensor_memory);
    }
}

#endif
