// NVFP4 by pairs that stay: products of 256 × 256 × 64, tile after tile, with two sums that overlap
// in each block. The common columns are free when the epilogues of both blocks have fetched them.
#include "low_precision/two_sums.cuh"

constexpr int PAIR = 2;  // blocks
constexpr unsigned short EACH = 0b11;
using Shared = Rings<ROWS>;  // three slots of 38 KiB

__device__ void load(Shared& s, const CUtensorMap& A, const CUtensorMap& B,
                     const CUtensorMap& a_scales, const CUtensorMap& b_scales, int m, int n,
                     int slices) {
    const int rank = blockIdx.x % PAIR;
    Place<STAGES> at;
    for_each_tile<PAIR>(m, n, [&](int row, int col, int) {
        const int a_rows = PAIR * row + rank, b_rows = PAIR * col;  // numbers of 128 rows
        for (int slice = 0; slice < slices; ++slice, at.advance()) {
            auto& to = s.slots[at.slot];
            unsigned long long* full = &s.full[at.slot];
            ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);
            if (rank == 0)  // for both blocks
                ptx::mbarrier_arrive_expect_tx(
                    full, PAIR * (sizeof to.a + sizeof to.b + sizeof to.a_scales +
                                  sizeof to.b_scales));
            const int k = slice * TILE_K;
            ptx::cp_async_bulk_tensor_load_pair(to.a, A, k, a_rows * ROWS, full);
            ptx::cp_async_bulk_tensor_load_pair(to.b, B, k, (b_rows + rank) * ROWS, full);
            const int scales = slice * SLICE_WORDS;
            ptx::cp_async_bulk_tensor_load_pair(to.a_scales, a_scales, scales, a_rows, full);
            ptx::cp_async_bulk_tensor_load_pair(to.b_scales, b_scales, scales, b_rows, full);
        }
    });
    tail(s.empty, at);
}

// In the first block only.
__device__ void multiply(Shared& s, int m, int n, int slices) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_nvfp4(PAIR * ROWS, TILE_N);
    Place<STAGES> at;
    for_each_tile<PAIR>(m, n, [&](int, int, int turn) {
        const unsigned sum = s.tensor_memory + turn % 2 * SECOND;
        ptx::mbarrier_wait(&s.sum_free, turn % 2 ^ 1);  // by the epilogues of both blocks
        ptx::tcgen05_fence_after_thread_sync();
        for (int slice = 0; slice < slices; ++slice, at.advance()) {
            const auto& from = s.slots[at.slot];
            const unsigned a_scales = s.tensor_memory + SCALES_AT + at.slot * SLOT_SCALES;
            const unsigned b_scales = a_scales + STEPS * SCALES;
            ptx::mbarrier_wait(&s.full[at.slot], at.phase);
            ptx::tcgen05_fence_after_thread_sync();
            for (int step = 0; step < STEPS; ++step) {  // in order before the products
                ptx::tcgen05_cp_scales<PAIR>(a_scales + SCALES * step, from.a_scales[step]);
                for (int half = 0; half < HALVES; ++half)
                    ptx::tcgen05_cp_scales<PAIR>(b_scales + SCALES * (HALVES * step + half),
                                                 from.b_scales[half][step]);
            }
            const unsigned long long a = ptx::tcgen05_descriptor_128B(from.a);
            const unsigned long long b = ptx::tcgen05_descriptor_128B(from.b);
            for (int step = 0; step < STEPS; ++step)  // 64 along k are 32 bytes
                ptx::tcgen05_mma_nvfp4<PAIR>(sum, a + 2 * step, b + 2 * step, INSTRUCTION,
                                             a_scales + SCALES * step,
                                             b_scales + SCALES * HALVES * step, slice + step > 0);
            ptx::tcgen05_commit_multicast(&s.empty[at.slot], EACH);
        }
        ptx::tcgen05_commit_multicast(&s.sum_full, EACH);
    });
}

__global__ void __cluster_dims__(PAIR) __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k), two numbers in a byte; boxes of 128 × 256
       const __grid_constant__ CUtensorMap B,  // (n, k)
       const __grid_constant__ CUtensorMap a_scales,  // a row for 128 of A; boxes of a slice's
       const __grid_constant__ CUtensorMap b_scales,  // of two rows: both halves of B
       const __grid_constant__ CUtensorMap C,  // (m, n) in boxes of ROWS × PIECE, swizzled
       int m, int n, int slices) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) {
            ptx::mbarrier_init(&s.full[slot], 1);   // the thread that says how many bytes
            ptx::mbarrier_init(&s.empty[slot], 1);  // a commit
        }
        ptx::mbarrier_init(&s.sum_full, 1);                // a commit
        ptx::mbarrier_init(&s.sum_free, PAIR * EPILOGUE);  // warps
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp arrives, and allocates, together
    ptx::cluster_arrive();
    ptx::cluster_wait();  // both blocks run, as an allocation for a pair wants, and have barriers
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS, PAIR>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address
    ptx::tcgen05_fence_after_thread_sync();
    if (warp < EPILOGUE)
        store<PAIR>(s, C, m, n, [&] { ptx::mbarrier_arrive_at_after_reads(&s.sum_free, 0); });
    else if (warp == EPILOGUE && lane == 0) load(s, A, B, a_scales, b_scales, m, n, slices);
    else if (warp == EPILOGUE + 1 && lane == 0 && blockIdx.x % PAIR == 0)
        multiply(s, m, n, slices);
    __syncwarp();  // the lanes that had no role
    ptx::tcgen05_fence_before_thread_sync();
    ptx::cluster_arrive();
    ptx::cluster_wait();  // everybody has read, and nobody leaves while the other is at work
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit<PAIR>();
        ptx::tcgen05_dealloc<COLUMNS, PAIR>(s.tensor_memory);
    }
#endif
}
