// NVFP4 with two sums of 256 columns and room for scales: the sums overlap. The epilogue fetches
// the columns that both have first, and the next tile's products begin when these are fetched.
#include "low_precision/scales.cuh"
#include "tensor_map.cuh"

constexpr int TILE_M = 128, TILE_N = 256;  // a block's part of C
constexpr int TILE_K = 256;                // a slice: rows of 128 bytes, two numbers in each
constexpr int STEP = 64, STEPS = TILE_K / STEP;  // what one instruction takes of it
constexpr int STAGES = 3;                  // slots of 54 KiB
constexpr int ATOM = 512;                  // bytes: four scales, 64 along k, for each of 128 rows
constexpr int HALVES = TILE_N / 128;       // of B's rows: an atom for each
constexpr int THREADS = 192;               // warps 0-3: the epilogue; 4: the loader; 5: products
constexpr int SCALES = 4;                  // columns of tensor memory that an atom takes
constexpr int COLUMNS = 512;
constexpr int SLOT_SCALES = STEPS * (1 + HALVES) * SCALES;  // columns: 16 of A, 32 of B
constexpr int SCALES_AT = COLUMNS - STAGES * SLOT_SCALES;   // behind the second sum
constexpr int SECOND = SCALES_AT - TILE_N;                  // where it begins; the first one at 0
constexpr int PIECE = 32;                                   // columns that a warp fetches at once
constexpr int BOTH = (TILE_N - SECOND + PIECE - 1) / PIECE;  // pieces that hold the common columns

struct Slot {
    alignas(1024) unsigned char a[TILE_M * TILE_K / 2], b[TILE_N * TILE_K / 2];
    unsigned char a_scales[STEPS][ATOM], b_scales[HALVES][STEPS][ATOM];
};

struct Shared {
    Slot slots[STAGES];
    unsigned long long full[STAGES], empty[STAGES], sum_full, sum_free;
    unsigned tensor_memory;  // its address
};

// What a role does for each tile of this block: the first row and column of C, and its number.
template <class Work> __device__ void for_each_tile(int m, int n, Work work) {
    const int down = (m + TILE_M - 1) / TILE_M, tiles = down * ((n + TILE_N - 1) / TILE_N);
    int turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, ++turn)
        work(tile % down, tile / down, turn);
}

__device__ void load(Shared& s, const CUtensorMap& A, const CUtensorMap& B,
                     const unsigned char* a_scales, const unsigned char* b_scales, int m, int n,
                     int slices) {
    int slot = 0, phase = 0;
    for_each_tile(m, n, [&](int row, int col, int) {
        for (int slice = 0; slice < slices; ++slice) {
            Slot& to = s.slots[slot];
            unsigned long long* full = &s.full[slot];
            ptx::mbarrier_wait(&s.empty[slot], phase ^ 1);
            ptx::mbarrier_arrive_expect_tx(
                full, sizeof to.a + sizeof to.b + sizeof to.a_scales + sizeof to.b_scales);
            ptx::cp_async_bulk_tensor_load(to.a, A, slice * TILE_K, row * TILE_M, full);
            const size_t first = (size_t(row) * slices + slice) * sizeof to.a_scales;
            ptx::cp_async_bulk_load(to.a_scales, a_scales + first, sizeof to.a_scales, full);
            for (int half = 0; half < HALVES; ++half) {
                const int rows = col * HALVES + half;  // the number of 128 rows of B
                const size_t from = (size_t(rows) * slices + slice) * sizeof to.b_scales[0];
                ptx::cp_async_bulk_tensor_load(to.b + half * sizeof to.b / HALVES, B,
                                               slice * TILE_K, rows * 128, full);
                ptx::cp_async_bulk_load(to.b_scales[half], b_scales + from,
                                        sizeof to.b_scales[half], full);
            }
            if (++slot == STAGES) slot = 0, phase ^= 1;
        }
    });
}

__device__ void multiply(Shared& s, int m, int n, int slices) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_nvfp4(TILE_M, TILE_N);
    int slot = 0, phase = 0;
    for_each_tile(m, n, [&](int, int, int turn) {
        const unsigned sum = s.tensor_memory + turn % 2 * SECOND;
        // The other sum's common columns are fetched, and long before them all of this one.
        ptx::mbarrier_wait(&s.sum_free, turn % 2 ^ 1);
        ptx::tcgen05_fence_after_thread_sync();
        for (int slice = 0; slice < slices; ++slice) {
            const Slot& from = s.slots[slot];
            const unsigned a_scales = s.tensor_memory + SCALES_AT + slot * SLOT_SCALES;
            const unsigned b_scales = a_scales + STEPS * SCALES;
            ptx::mbarrier_wait(&s.full[slot], phase);
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
            ptx::tcgen05_commit(&s.empty[slot]);  // numbers and scales have been read
            if (++slot == STAGES) slot = 0, phase ^= 1;
        }
        ptx::tcgen05_commit(&s.sum_full);
    });
}

__device__ void store(Shared& s, float* C, int m, int n) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for_each_tile(m, n, [&](int down, int across, int turn) {
        const unsigned sum = s.tensor_memory + (warp * 32 << 16) + turn % 2 * SECOND;
        const int row = down * TILE_M + threadIdx.x;
        ptx::mbarrier_wait(&s.sum_full, turn % 2);
        ptx::tcgen05_fence_after_thread_sync();
        for (int piece = 0; piece < TILE_N / PIECE; ++piece) {
            // From the end that the other sum has too: of the first sum the right one.
            const int first = PIECE * (turn % 2 ? piece : TILE_N / PIECE - 1 - piece);
            unsigned r[PIECE];
            ptx::tcgen05_ld_32x32b_x32(r, sum + first);
            ptx::tcgen05_wait_ld();
            if (piece == BOTH - 1) {  // in registers: the next tile may begin
                ptx::tcgen05_fence_before_thread_sync();
                if (lane == 0) ptx::mbarrier_arrive(&s.sum_free);
            }
            const int col = across * TILE_N + first;
            for (int j = 0; j < PIECE; ++j)
                if (row < m && col + j < n) C[size_t(row) * n + col + j] = __uint_as_float(r[j]);
        }
    });
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k), two numbers in a byte; boxes of 128 × 256
       const __grid_constant__ CUtensorMap B,  // (n, k)
       const unsigned char* a_scales,  // atoms: (rows / 128, slices, STEPS, ATOM), rounded up
       const unsigned char* b_scales,  // rounded up to 256 rows
       float* C,  // (m, n)
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
        ptx::mbarrier_init(&s.sum_full, 1);  // a commit
        ptx::mbarrier_init(&s.sum_free, 4);  // the warps of the epilogue
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp allocates together
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barriers
    ptx::tcgen05_fence_after_thread_sync();
    if (warp < 4) store(s, C, m, n);
    else if (warp == 4 && lane == 0) load(s, A, B, a_scales, b_scales, m, n, slices);
    else if (warp == 5 && lane == 0) multiply(s, m, n, slices);
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
