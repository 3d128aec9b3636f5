// Two tiles of queries and a group of warps for each, a loader, a multiplier: the tensor core works
// on one tile while the softmax of the other is made.
#include "attention_again/roles.cuh"
#include "tensor_map.cuh"

constexpr int LOADER = TILES * WARPS, MULTIPLIER = LOADER + 1;  // warps; before them the groups
constexpr int THREADS = 32 * (MULTIPLIER + 1);

// A group: scores to weights, O rescaled at every step, and at last O to shared memory.
__device__ void soften(Shared& s, const Problem& p, int tile, int first, int steps) {
    const int warp = threadIdx.x / 32 % WARPS, t = warp * 32 + threadIdx.x % 32;
    const unsigned lanes = s.tensor_memory + (warp * 32 << 16);
    const unsigned scores = lanes + s_columns(tile), o = lanes + o_columns(tile);
    const int seen = p.seen(first + t);
    Row row;
    for (int step = 0; step < steps; ++step) {
        const int key = step * ROWS;
        ptx::mbarrier_wait(&s.s_full[tile], step % 2);
        ptx::tcgen05_fence_after_thread_sync();
        if (p.seen(first) < key + ROWS) mask(scores, seen - key);  // the first row sees the fewest
        const float factor = follow(row, largest(scores), p.scale, 0);
        row.sum = row.sum * factor + weights<0>(scores, p.scale, row.reference);
        if (step) rescale(o, factor);
        ptx::tcgen05_fence_before_thread_sync();
        arrive(&s.ready[tile]);
    }
    ptx::mbarrier_wait(&s.o_full[tile], 0);
    ptx::tcgen05_fence_after_thread_sync();
    finish(s.q[tile], t, o, row.sum);
    arrive(&s.out_full[tile]);
}

__global__ void __launch_bounds__(THREADS, 1)
attend(const __grid_constant__ CUtensorMap Q,  // (queries, heads · DEPTH), boxes of 128 × 64
       const __grid_constant__ CUtensorMap K,  // (keys, heads · DEPTH), the same boxes
       const __grid_constant__ CUtensorMap V,  // (keys, heads · DEPTH)
       const __grid_constant__ CUtensorMap O,  // (queries, heads · DEPTH)
       const Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = blockIdx.x * TILES * ROWS, head = blockIdx.y;
    const int steps = p.steps(first + TILES * ROWS - 1);
    begin(s, 1);
    if (warp < LOADER) soften(s, p, warp / WARPS, first + warp / WARPS * ROWS, steps);
    else if (warp == LOADER && lane == 0) {
        load_tiles(s, Q, K, V, first, head, steps);
        store_tiles(s, O, first, head);
    } else if (warp == MULTIPLIER && lane == 0) multiply(s, steps);
    end(s);
#endif
}

#include "attention_again/harness.cuh"
