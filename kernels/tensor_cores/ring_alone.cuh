// The ring without fragments ahead: what gemm.cuh gains by its two sets of fragments is the
// difference between the two.
#pragma once
#include "tensor_cores/gemm.cuh"

template <class T, int SLOTS, int ALIGN, class In, class Out>
__global__ void __launch_bounds__(T::THREADS) ring_alone(Gemm<In, Out> g, int super) {
    constexpr int STEPS = T::BK / 16;
    static_assert(SLOTS >= 2 && STEPS >= 2, "something to be ahead of");
    extern __shared__ __align__(128) char ring[];  // SLOTS times a tile of A and a tile of B
    const Block block = rasterise(blockIdx.x, (g.M + T::BM - 1) / T::BM,
                                  (g.N + T::BN - 1) / T::BN, super);
    const int m0 = block.row * T::BM, n0 = block.col * T::BN;
    const int warp = threadIdx.x / WARP;
    const int wm = warp / (T::BN / T::WN) * T::WM, wn = warp % (T::BN / T::WN) * T::WN;
    const int tiles = (g.K + T::BK - 1) / T::BK;

    auto a_slot = [&](int slot) { return ring + slot * (T::A_BYTES + T::B_BYTES); };
    auto b_slot = [&](int slot) { return a_slot(slot) + T::A_BYTES; };
    TileCopy<T::BM, T::BK, T::THREADS, ALIGN, CP_ASYNC, true, In> a_copy(
        g.A, g.M, g.K, g.lda, m0, 0);
    TileCopy<T::BK, T::BN, T::THREADS, ALIGN, CP_ASYNC, true, In> b_copy(
        g.B, g.K, g.N, g.ldb, 0, n0);
    // Copy part `part` of PARTS of the next tile. After the last tile come zeros: no branch, so
    // that the compiler can spread the copies between the multiplications.
    constexpr int PARTS = STEPS - 1;
    auto fill = [&](int slot, int part) {
        a_copy(a_slot(slot), part, PARTS);
        b_copy(b_slot(slot), part, PARTS);
        if (part < PARTS - 1) return;
        a_copy.right(), b_copy.down();
        if constexpr (CP_ASYNC) ptx::cp_async_commit_group();
    };
    auto wait = [&] {  // until the next tile is there: this thread's copies, then everybody's
        if constexpr (CP_ASYNC) ptx::cp_async_wait_group<SLOTS - 2>();
        __syncthreads();
    };
    auto advance = [](int slot) { return slot + 1 == SLOTS ? 0 : slot + 1; };

    const int a_lane = lane_a<T::BK, true>(wm), b_lane = lane_b<T::BN, true>(wn);
    Accumulator<T::WM, T::WN> sum;
    Fragments<In, T::WM, T::WN> f;  // of this step
    auto load = [&](int slot, int step) {
        f.template load<T::BK, T::BN, true>(a_slot(slot), b_slot(slot), a_lane, b_lane, step);
    };

    for (int tile = 0; tile < SLOTS - 1; ++tile)
        for (int part = 0; part < PARTS; ++part) fill(tile, part);
    wait();
    int full = 0, empty = SLOTS - 1;  // the slot being multiplied, the slot to fill next
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            load(full, step);
            if (step + 1 < STEPS) fill(empty, step);
            sum.multiply(f);
        }
        wait();  // and nobody reads slot `full` any more
        empty = full;
        full = advance(full);
    }
    // The last copies, of zeros, must have ended before the block does.
    if constexpr (CP_ASYNC) ptx::cp_async_wait_group<0>();
    sum.store(g, m0 + wm, n0 + wn);
}

template <class T, int SLOTS, class In, class Out>
void launch_ring_alone(const Gemm<In, Out>& g, int super = 1, cudaStream_t stream = 0) {
    constexpr int BYTES = SLOTS * (T::A_BYTES + T::B_BYTES);
    auto kernel = ring_alone<T, SLOTS, 16, In, Out>;  // rows that begin at multiples of 16 bytes
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    const int blocks = (g.M + T::BM - 1) / T::BM * ((g.N + T::BN - 1) / T::BN);
    if (blocks) kernel<<<blocks, T::THREADS, BYTES, stream>>>(g, super);
}
