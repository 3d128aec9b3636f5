// Attention with S, P and O in tensor memory: a tile of 128 queries, one thing after another.
#include "attention_again/softmax.cuh"
#include "tensor_map.cuh"

constexpr int THREADS = 128;  // a row each; thread 0 also starts copies and products
constexpr int TILES = 1;      // of queries in a block

struct Shared {
    Tile q, k, v;
    unsigned long long q_full, k_full, v_full, s_full, o_full;
    unsigned tensor_memory;  // its address
};

__global__ void __launch_bounds__(THREADS)
attend(const __grid_constant__ CUtensorMap Q,  // (queries, heads · DEPTH), boxes of 128 × 64
       const __grid_constant__ CUtensorMap K,  // (keys, heads · DEPTH), the same boxes
       const __grid_constant__ CUtensorMap V,  // (keys, heads · DEPTH)
       const __grid_constant__ CUtensorMap O,  // (queries, heads · DEPTH)
       const Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) char memory[];
    Shared& shared = *reinterpret_cast<Shared*>(memory);
    const int t = threadIdx.x, warp = t / 32, first = blockIdx.x * ROWS, head = blockIdx.y;
    if (t == 0) {
        for (auto* barrier : {&shared.q_full, &shared.k_full, &shared.v_full, &shared.s_full,
                              &shared.o_full})
            ptx::mbarrier_init(barrier, 1);
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp allocates together
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&shared.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned base = shared.tensor_memory, lanes = base + (warp * 32 << 16);
    const unsigned s = lanes + s_columns(0), o = lanes + o_columns(0);
    if (t == 0) {
        ptx::mbarrier_arrive_expect_tx(&shared.q_full, sizeof(Tile));
        load(shared.q, Q, first, head, &shared.q_full);
    }
    Row row;
    const int steps = p.steps(first + ROWS - 1), seen = p.seen(first + t);
    for (int step = 0; step < steps; ++step) {
        const int key = step * ROWS, phase = step % 2;
        if (t == 0) {
            ptx::mbarrier_arrive_expect_tx(&shared.k_full, sizeof(Tile));
            load(shared.k, K, key, head, &shared.k_full);
            ptx::mbarrier_arrive_expect_tx(&shared.v_full, sizeof(Tile));
            load(shared.v, V, key, head, &shared.v_full);
            ptx::mbarrier_wait(&shared.q_full, 0);
            ptx::mbarrier_wait(&shared.k_full, phase);
            multiply_scores(base + s_columns(0), shared.q, shared.k);
            ptx::tcgen05_commit(&shared.s_full);
        }
        __syncwarp();
        ptx::mbarrier_wait(&shared.s_full, phase);
        ptx::tcgen05_fence_after_thread_sync();
        if (p.seen(first) < key + ROWS) mask(s, seen - key);  // the first row sees the fewest
        const float factor = follow(row, largest(s), p.scale, 0);
        row.sum = row.sum * factor + weights<0>(s, p.scale, row.reference);
        if (step) rescale(o, factor);
        ptx::tcgen05_fence_before_thread_sync();
        __syncthreads();  // all of P is there
        if (t == 0) {
            ptx::tcgen05_fence_after_thread_sync();
            ptx::mbarrier_wait(&shared.v_full, phase);
            multiply_weights(base + o_columns(0), base + s_columns(0), shared.v, step > 0);
            ptx::tcgen05_commit(&shared.o_full);
        }
        __syncwarp();
        ptx::mbarrier_wait(&shared.o_full, phase);  // K and V have been read
        ptx::tcgen05_fence_after_thread_sync();
    }
    finish(shared.q, t, o, row.sum);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    if (t == 0) {
        store(O, shared.q, first, head);
        ptx::cp_async_bulk_wait_group_read<0>();  // shared memory ends with the block
    }
    __syncwarp();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(base);
    }
#endif
}

#include "attention_again/harness.cuh"
