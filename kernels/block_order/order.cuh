// A product on tensor cores whose blocks look up in a table which part of C is theirs. The table
// is the order in which the parts are computed, and so which of them run at the same time.
#pragma once
#include "tensor_cores/one_slot.cuh"
#include "check.cuh"

struct Part {
    int row, col;  // of C, in tiles
};
using OrderTile = Tiling<128, 256, 64, 64, 64>;  // of the measured product
constexpr int ORDER_SLOTS = 3;

// order: one entry a block. A block fills the ring of slots ahead of what it multiplies.
template <class T, int ALIGN, class In, class Out>
__global__ void __launch_bounds__(T::THREADS) in_order(Gemm<In, Out> g, const Part* order) {
    extern __shared__ __align__(128) char ring[];  // a tile of A and a tile of B, ORDER_SLOTS times
    const Part part = order[blockIdx.x];
    const int m0 = part.row * T::BM, n0 = part.col * T::BN;
    const int warp = threadIdx.x / WARP;
    const int wm = warp / (T::BN / T::WN) * T::WM, wn = warp % (T::BN / T::WN) * T::WN;
    const int a_lane = lane_a<T::BK, true>(wm), b_lane = lane_b<T::BN, true>(wn);
    TileCopy<T::BM, T::BK, T::THREADS, ALIGN, true, true, In> a(g.A, g.M, g.K, g.lda, m0, 0);
    TileCopy<T::BK, T::BN, T::THREADS, ALIGN, true, true, In> b(g.B, g.K, g.N, g.ldb, 0, n0);
    auto slot = [&](int tile) { return ring + tile % ORDER_SLOTS * (T::A_BYTES + T::B_BYTES); };
    auto fill = [&](int tile) {  // after the last tile come zeros, which add nothing
        a(slot(tile)), b(slot(tile) + T::A_BYTES);
        a.right(), b.down();
        ptx::cp_async_commit_group();
    };
    Accumulator<T::WM, T::WN> sum;
    for (int tile = 0; tile < ORDER_SLOTS - 1; ++tile) fill(tile);
    for (int tile = 0; tile * T::BK < g.K; ++tile) {
        ptx::cp_async_wait_group<ORDER_SLOTS - 2>();
        __syncthreads();  // this tile is full, and nobody reads the one before it any more
        fill(tile + ORDER_SLOTS - 1);
        for (int step = 0; step < T::BK / 16; ++step) {
            Fragments<In, T::WM, T::WN> f;
            f.template load<T::BK, T::BN, true>(slot(tile), slot(tile) + T::A_BYTES, a_lane,
                                                b_lane, step);
            sum.multiply(f);
        }
    }
    ptx::cp_async_wait_group<0>();  // the copies of zeros end before the block does
    sum.store(g, m0 + wm, n0 + wn);
}

// parts: of `order`, on the device; as many as C has tiles.
template <class T, int ALIGN, class In, class Out>
void launch_in_order(const Gemm<In, Out>& g, const Part* order, int parts,
                     cudaStream_t stream = 0) {
    constexpr int BYTES = ORDER_SLOTS * (T::A_BYTES + T::B_BYTES);
    auto kernel = in_order<T, ALIGN, In, Out>;
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, BYTES));
    if (parts) kernel<<<parts, T::THREADS, BYTES, stream>>>(g, order);
}
