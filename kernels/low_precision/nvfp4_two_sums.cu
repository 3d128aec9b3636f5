// NVFP4 with two sums of 256 columns and room for scales: the sums overlap. The epilogue fetches
// the columns that both have first, and the next tile's products begin when these are fetched.
#include "low_precision/two_sums.cuh"

using Shared = Rings<TILE_N>;  // three slots of 54 KiB

__device__ void load(Shared& s, const CUtensorMap& A, const CUtensorMap& B,
                     const unsigned char* a_scales, const CUtensorMap& b_scales, int m, int n,
                     int slices) {
    Place<STAGES> at;
    for_each_tile<1>(m, n, [&](int row, int col, int) {
        for (int slice = 0; slice < slices; ++slice, at.advance()) {
            auto& to = s.slots[at.slot];
            unsigned long long* full = &s.full[at.slot];
            ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);
            ptx::mbarrier_arrive_expect_tx(
                full, sizeof to.a + sizeof to.b + sizeof to.a_scales + sizeof to.b_scales);
            ptx::cp_async_bulk_tensor_load(to.a, A, slice * TILE_K, row * ROWS, full);
            ptx::cp_async_bulk_tensor_load(to.b, B, slice * TILE_K, col * TILE_N, full);
            const size_t first = (size_t(row) * slices + slice) * sizeof to.a_scales;
            ptx::cp_async_bulk_load(to.a_scales, a_scales + first, sizeof to.a_scales, full);
            ptx::cp_async_bulk_tensor_load(to.b_scales, b_scales, slice * SLICE_WORDS,
                                           col * HALVES, full);  // both halves, which lie apart
        }
    });
}

__device__ void multiply(Shared& s, int m, int n, int slices) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_nvfp4(ROWS, TILE_N);
    Place<STAGES> at;
    for_each_tile<1>(m, n, [&](int, int, int turn) {
        const unsigned sum = s.tensor_memory + turn % 2 * SECOND;
        // The other sum's common columns are fetched, and long before them all of this one.
        ptx::mbarrier_wait(&s.sum_free, turn % 2 ^ 1);
        ptx::tcgen05_fence_after_thread_sync();
        for (int slice = 0; slice < slices; ++slice, at.advance()) {
            const auto& from = s.slots[at.slot];
            const unsigned a_scales = s.tensor_memory + SCALES_AT + at.slot * SLOT_SCALES;
            const unsigned b_scales = a_scales + STEPS * SCALES;
            ptx::mbarrier_wait(&s.full[at.slot], at.phase);
            ptx::tcgen05_fence_after_thread_sync();
            for (int step = 0; step < STEPS; ++step) {  // in order before the products
                ptx::tcgen05_cp_scales(a_scales + SCALES * step, from.a_scales[step]);
                for (int half = 0; half < HALVES; ++half)
                    ptx::tcgen05_cp_scales(b_scales + SCALES * (HALVES * step + half),
                                           from.b_scales[half][step]);
            }
            const unsigned long long a = ptx::tcgen05_descriptor_128B(from.a);
            const unsigned long long b = ptx::tcgen05_descriptor_128B(from.b);
            for (int step = 0; step < STEPS; ++step)  // 64 along k are 32 bytes
                ptx::tcgen05_mma_nvfp4(sum, a + 2 * step, b + 2 * step, INSTRUCTION,
                                       a_scales + SCALES * step,
                                       b_scales + SCALES * HALVES * step, slice + step > 0);
            ptx::tcgen05_commit(&s.empty[at.slot]);  // numbers and scales have been read
        }
        ptx::tcgen05_commit(&s.sum_full);
    });
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k), two numbers in a byte; boxes of 128 × 256
       const __grid_constant__ CUtensorMap B,  // (n, k); boxes of 256 × 256
       const unsigned char* a_scales,  // atoms: (rows / 128, slices, STEPS, ATOM), rounded up
       const __grid_constant__ CUtensorMap b_scales,  // a row for 128 of B; boxes of 2 slices'
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
        ptx::mbarrier_init(&s.sum_full, 1);         // a commit
        ptx::mbarrier_init(&s.sum_free, EPILOGUE);  // warps
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp allocates together
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barriers
    ptx::tcgen05_fence_after_thread_sync();
    if (warp < EPILOGUE) store<1>(s, C, m, n, [&] { ptx::mbarrier_arrive(&s.sum_free); });
    else if (warp == EPILOGUE && lane == 0) load(s, A, B, a_scales, b_scales, m, n, slices);
    else if (warp == EPILOGUE + 1 && lane == 0) multiply(s, m, n, slices);
    __syncwarp();  // the lanes that had no role
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // everybody has read, and every arrival has come
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(s.tensor_memory);
    }
#endif
}
