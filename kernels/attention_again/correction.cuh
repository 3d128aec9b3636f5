// The roles of c to e: two softmax groups, a group that corrects O, and a warp that stores it.
// SHARE: of eight exponentials, how many a polynomial makes on the FMA units.
#pragma once
#include "attention_again/roles.cuh"
#include "tensor_map.cuh"

constexpr int CORRECTION = TILES * WARPS;                      // its first warp
constexpr int LOADER = CORRECTION + WARPS, MULTIPLIER = LOADER + 1, STORER = MULTIPLIER + 1;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// A softmax group: scores to weights. It never touches O.
template <int SHARE>
__device__ void soften(Shared& s, const Problem& p, int tile, int first, int steps) {
    const int warp = threadIdx.x / 32 % WARPS, t = warp * 32 + threadIdx.x % 32;
    const unsigned scores = s.tensor_memory + (warp * 32 << 16) + s_columns(tile);
    const int seen = p.seen(first + t);
    Row row;
    for (int step = 0; step < steps; ++step) {
        const int key = step * ROWS;
        ptx::mbarrier_wait(&s.s_full[tile], step % 2);
        ptx::tcgen05_fence_after_thread_sync();
        if (p.seen(first) < key + ROWS) mask(scores, seen - key);  // the first row sees the fewest
        const float factor = follow(row, largest(scores), p.scale, p.threshold);
        s.factors[tile][t] = factor;
        arrive(&s.factor_full[tile]);  // O is corrected while the weights are made
        row.sum = row.sum * factor + weights<SHARE>(scores, p.scale, row.reference);
        ptx::tcgen05_fence_before_thread_sync();
        arrive(&s.ready[tile]);
    }
    s.sums[tile][t] = row.sum;
    arrive(&s.sum_full[tile]);
}

// The correction group: O of both tiles, where a reference has moved; at last O over the sums.
__device__ inline void correct(Shared& s, int steps) {
    const int warp = threadIdx.x / 32 % WARPS, t = warp * 32 + threadIdx.x % 32;
    const unsigned lanes = s.tensor_memory + (warp * 32 << 16);
    for (int step = 0; step < steps; ++step)
        for (int tile = 0; tile < TILES; ++tile) {
            ptx::mbarrier_wait(&s.factor_full[tile], step % 2);
            const float factor = s.factors[tile][t];
            if (step && __any_sync(~0u, factor < 1)) {  // a warp's 32 rows together
                ptx::tcgen05_fence_after_thread_sync();  // after the last product on O
                rescale(lanes + o_columns(tile), factor);
                ptx::tcgen05_fence_before_thread_sync();
            }
            arrive(&s.ready[tile]);
        }
    for (int tile = 0; tile < TILES; ++tile) {
        ptx::mbarrier_wait(&s.sum_full[tile], 0);
        const float sum = s.sums[tile][t];
        ptx::mbarrier_wait(&s.o_full[tile], 0);
        ptx::tcgen05_fence_after_thread_sync();
        finish(s.q[tile], t, lanes + o_columns(tile), sum);
        arrive(&s.out_full[tile]);
    }
}

template <int SHARE>
__device__ void attend_by_roles(const CUtensorMap& Q, const CUtensorMap& K, const CUtensorMap& V,
                                const CUtensorMap& O, const Problem& p) {
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = blockIdx.x * TILES * ROWS, head = blockIdx.y;
    const int steps = p.steps(first + TILES * ROWS - 1);
    begin(s, 2);
    if (warp < CORRECTION)
        soften<SHARE>(s, p, warp / WARPS, first + warp / WARPS * ROWS, steps);
    else if (warp < LOADER) correct(s, steps);
    else if (warp == LOADER && lane == 0) load_tiles(s, Q, K, V, first, head, steps);
    else if (warp == MULTIPLIER && lane == 0) multiply(s, steps);
    else if (warp == STORER && lane == 0) store_tiles(s, O, first, head);
    end(s);
}

#endif
