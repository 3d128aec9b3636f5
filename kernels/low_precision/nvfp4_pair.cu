// NVFP4 for a pair of blocks: products of 256 × 256 × 64. Each block brings half of the rows of A
// and half of those of B, the scales of its rows of A, and the scales of all of B: the tensor core
// of each reads all of B. Scales come by tensor maps: so the first block's barrier counts them.
#include "ptx_block_scales.cuh"
#include "tensor_map.cuh"

constexpr int PAIR = 2;                    // blocks
constexpr int TILE_M = 256, TILE_N = 256;  // of C, made by a pair
constexpr int ROWS = TILE_M / PAIR;        // of a block: of A, of B and of the sum
constexpr int TILE_K = 256;                // a slice: rows of 128 bytes, two numbers in each
constexpr int STEP = 64, STEPS = TILE_K / STEP;  // what one instruction takes of it
constexpr int STAGES = 3;                  // slots of 38 KiB
constexpr int ATOM = 512;                  // bytes: four scales, 64 along k, for each of 128 rows
constexpr int THREADS = 192;               // warps 0-3: the epilogue; 4: the loader; 5: products
constexpr int SCALES = 4;                  // columns of tensor memory that an atom takes
constexpr int COLUMNS = 512;               // 256 of the sum, then scales: 16 + 32 for each slot
constexpr int SLOT_SCALES = STEPS * 3 * SCALES;
constexpr unsigned short BOTH = 0b11;

struct Slot {
    alignas(1024) unsigned char a[ROWS * TILE_K / 2], b[ROWS * TILE_K / 2];
    unsigned char a_scales[STEPS][ATOM], b_scales[PAIR][STEPS][ATOM];
};

struct Shared {
    Slot slots[STAGES];
    unsigned long long full[STAGES], empty[STAGES], done;
    unsigned tensor_memory;  // its address
};

__device__ void load(Shared& s, const CUtensorMap& A, const CUtensorMap& B,
                     const CUtensorMap& a_scales, const CUtensorMap& b_scales, int slices) {
    const int rank = blockIdx.x % PAIR, tile = blockIdx.x / PAIR;
    int slot = 0, phase = 0;
    for (int slice = 0; slice < slices; ++slice) {
        Slot& to = s.slots[slot];
        unsigned long long* full = &s.full[slot];
        ptx::mbarrier_wait(&s.empty[slot], phase ^ 1);
        if (rank == 0)  // for both blocks
            ptx::mbarrier_arrive_expect_tx(full, PAIR * (sizeof to.a + sizeof to.b +
                                                         sizeof to.a_scales + sizeof to.b_scales));
        const int a_tile = PAIR * blockIdx.y + rank, first = slice * STEPS, k = slice * TILE_K;
        ptx::cp_async_bulk_tensor_load_pair(to.a, A, k, a_tile * ROWS, full);
        ptx::cp_async_bulk_tensor_load_pair(to.b, B, k, (PAIR * tile + rank) * ROWS, full);
        ptx::cp_async_bulk_tensor_load_pair(to.a_scales, a_scales, 0,
                                            a_tile * slices * STEPS + first, full);
        for (int half = 0; half < PAIR; ++half) {
            const int b_tile = PAIR * tile + half;
            ptx::cp_async_bulk_tensor_load_pair(to.b_scales[half], b_scales, 0,
                                                b_tile * slices * STEPS + first, full);
        }
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
}

// In the first block only.
__device__ void multiply(Shared& s, int slices) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_nvfp4(TILE_M, TILE_N);
    const unsigned sum = s.tensor_memory;
    int slot = 0, phase = 0;
    for (int slice = 0; slice < slices; ++slice) {
        const Slot& from = s.slots[slot];
        const unsigned a_scales = sum + TILE_N + slot * SLOT_SCALES;
        const unsigned b_scales = a_scales + STEPS * SCALES;
        ptx::mbarrier_wait(&s.full[slot], phase);
        ptx::tcgen05_fence_after_thread_sync();
        for (int step = 0; step < STEPS; ++step) {  // in order before the products
            ptx::tcgen05_cp_scales<PAIR>(a_scales + SCALES * step, from.a_scales[step]);
            for (int half = 0; half < PAIR; ++half)
                ptx::tcgen05_cp_scales<PAIR>(b_scales + SCALES * (PAIR * step + half),
                                             from.b_scales[half][step]);
        }
        const unsigned long long a = ptx::tcgen05_descriptor_128B(from.a);
        const unsigned long long b = ptx::tcgen05_descriptor_128B(from.b);
        for (int step = 0; step < STEPS; ++step)  // 64 along k are 32 bytes
            ptx::tcgen05_mma_nvfp4<PAIR>(sum, a + 2 * step, b + 2 * step, INSTRUCTION,
                                         a_scales + SCALES * step,
                                         b_scales + SCALES * PAIR * step, slice + step > 0);
        ptx::tcgen05_commit_multicast(&s.empty[slot], BOTH);  // numbers and scales have been read
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
    ptx::tcgen05_commit_multicast(&s.done, BOTH);
}

__device__ void store(Shared& s, float* C, int m, int n) {
    const int warp = threadIdx.x / 32, tile = blockIdx.x / PAIR;
    const int row = blockIdx.y * TILE_M + blockIdx.x % PAIR * ROWS + threadIdx.x;
    ptx::mbarrier_wait(&s.done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int first = 0; first < TILE_N; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, s.tensor_memory + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        const int col = tile * TILE_N + first;
        for (int j = 0; j < 32; ++j)
            if (row < m && col + j < n) C[size_t(row) * n + col + j] = __uint_as_float(r[j]);
    }
}

__global__ void __cluster_dims__(PAIR) __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k), two numbers in a byte; boxes of 128 × 256
       const __grid_constant__ CUtensorMap B,  // (n, k)
       const __grid_constant__ CUtensorMap a_scales,  // (atoms, 128 words); boxes of 4 atoms
       const __grid_constant__ CUtensorMap b_scales,
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
        ptx::mbarrier_init(&s.done, 1);  // a commit
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp arrives, and allocates, together
    ptx::cluster_arrive();
    ptx::cluster_wait();  // both blocks run, as an allocation for a pair wants, and have barriers
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS, PAIR>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address
    ptx::tcgen05_fence_after_thread_sync();
    if (warp < 4) store(s, C, m, n);
    else if (warp == 4 && lane == 0) load(s, A, B, a_scales, b_scales, slices);
    else if (warp == 5 && lane == 0 && blockIdx.x % PAIR == 0) multiply(s, slices);
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
