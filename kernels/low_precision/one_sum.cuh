// What products of four bits with one sum share: a slot is a slice of A and B with their scales, EACH
// instructions share an atom of these. A kernel has its own `multiply`.
#pragma once
#include "ptx_block_scales.cuh"
#include "tensor_map.cuh"

constexpr int TILE_M = 128, TILE_N = 128;  // of C
constexpr int TILE_K = 256;                // a slice: rows of 128 bytes, two numbers in each
constexpr int STEP = 64, STEPS = TILE_K / STEP;  // what one instruction takes of it
constexpr int STAGES = 3;                  // slots
constexpr int ATOM = 512;                  // bytes: four scales for each of 128 rows
constexpr int ATOMS = STEPS / EACH;        // of a slice of A, and of B
constexpr int THREADS = 192;               // warps 0-3: the epilogue; 4: the loader; 5: products
constexpr int SCALES = 4;                  // columns of tensor memory that an atom takes
constexpr int COLUMNS = 256;               // 128 of the sum, then scales: 2 · 16 at most for a slot

struct Slot {
    alignas(1024) unsigned char a[TILE_M * TILE_K / 2], b[TILE_N * TILE_K / 2];
    unsigned char a_scales[ATOMS][ATOM], b_scales[ATOMS][ATOM];
};

struct Shared {
    Slot slots[STAGES];
    unsigned long long full[STAGES], empty[STAGES], done;
    unsigned tensor_memory;  // its address
};

__device__ void multiply(Shared& s, int slices);

__device__ void load(Shared& s, const CUtensorMap& A, const CUtensorMap& B,
                     const unsigned char* a_scales, const unsigned char* b_scales, int slices) {
    int slot = 0, phase = 0;
    for (int slice = 0; slice < slices; ++slice) {
        Slot& to = s.slots[slot];
        unsigned long long* full = &s.full[slot];
        ptx::mbarrier_wait(&s.empty[slot], phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(
            full, sizeof to.a + sizeof to.b + sizeof to.a_scales + sizeof to.b_scales);
        ptx::cp_async_bulk_tensor_load(to.a, A, slice * TILE_K, blockIdx.y * TILE_M, full);
        ptx::cp_async_bulk_tensor_load(to.b, B, slice * TILE_K, blockIdx.x * TILE_N, full);
        const size_t a_first = (size_t(blockIdx.y) * slices + slice) * sizeof to.a_scales;
        const size_t b_first = (size_t(blockIdx.x) * slices + slice) * sizeof to.b_scales;
        ptx::cp_async_bulk_load(to.a_scales, a_scales + a_first, sizeof to.a_scales, full);
        ptx::cp_async_bulk_load(to.b_scales, b_scales + b_first, sizeof to.b_scales, full);
        if (++slot == STAGES) slot = 0, phase ^= 1;
    }
}

__device__ void store(Shared& s, float* C, int m, int n) {
    const int warp = threadIdx.x / 32, row = blockIdx.y * TILE_M + threadIdx.x;
    ptx::mbarrier_wait(&s.done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int first = 0; first < TILE_N; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, s.tensor_memory + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        const int col = blockIdx.x * TILE_N + first;
        for (int j = 0; j < 32; ++j)
            if (row < m && col + j < n) C[size_t(row) * n + col + j] = __uint_as_float(r[j]);
    }
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k), two numbers in a byte; boxes of 128 × 256
       const __grid_constant__ CUtensorMap B,  // (n, k)
       const unsigned char* a_scales,  // atoms: (rows / 128, slices, ATOMS, ATOM), rounded up
       const unsigned char* b_scales,
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
    __syncwarp();  // a warp allocates together
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barriers
    ptx::tcgen05_fence_after_thread_sync();
    if (warp < 4) store(s, C, m, n);
    else if (warp == 4 && lane == 0) load(s, A, B, a_scales, b_scales, slices);
    else if (warp == 5 && lane == 0) multiply(s, slices);
    __syncwarp();  // the lanes that had no role
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // everybody has read
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(s.tensor_memory);
    }
#endif
}
