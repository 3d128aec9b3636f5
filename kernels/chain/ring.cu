// The single stage of one_thread_multiplies/tcgen05.cu becomes a ring of slots: the copy engine
// brings slices of A and B while the tensor core works. One thread has both roles: it asks for
// slices ahead, and issues the products of those that have come. A block makes one tile of C.
#include "chain/place.cuh"
#include "tensor_map.cuh"

constexpr int TILE_M = 128, TILE_N = 256;  // of C: 128 lanes × 256 columns of tensor memory
constexpr int TILE_K = 64;                 // a slice: rows of 128 bytes, as long as the swizzle
constexpr int STEP = 16;                   // what one instruction takes of it
constexpr int STAGES = 4;                  // slots of 48 KiB in shared memory
constexpr int EPILOGUE = 4;                // warps, one for each quarter of tensor memory
constexpr int THREADS = 32 * EPILOGUE;
constexpr int PIECE = 32;                  // columns of C that a thread fetches at a time

struct Shared {
    alignas(1024) __nv_bfloat16 a[STAGES][TILE_M * TILE_K];  // the swizzle's pattern: 1024 bytes
    alignas(1024) __nv_bfloat16 b[STAGES][TILE_N * TILE_K];
    unsigned long long full[STAGES], empty[STAGES];
    unsigned long long sum_full;
    unsigned tensor_memory;  // its address
};

__device__ void work(Shared& s, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                     int k) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(TILE_M, TILE_N);
    Place<STAGES> at, from;
    int ahead = 0;  // the slice to ask for next
    auto load = [&] {
        if (ahead >= k) return;
        unsigned long long* full = &s.full[at.slot];
        ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, sizeof s.a[0] + sizeof s.b[0]);  // whole boxes
        ptx::cp_async_bulk_tensor_load(s.a[at.slot], A, ahead, row, full);
        ptx::cp_async_bulk_tensor_load(s.b[at.slot], B, ahead, col, full);
        ahead += TILE_K;
        at.advance();
    };
    for (int slot = 0; slot < STAGES; ++slot) load();
    for (int slice = 0; slice < k; slice += TILE_K, from.advance()) {
        ptx::mbarrier_wait(&s.full[from.slot], from.phase);
        const unsigned long long a = ptx::tcgen05_descriptor_128B(s.a[from.slot]);
        const unsigned long long b = ptx::tcgen05_descriptor_128B(s.b[from.slot]);
        for (int step = 0; step < TILE_K / STEP; ++step)  // 16 along k are 32 bytes
            ptx::tcgen05_mma_f16(s.tensor_memory, a + 2 * step, b + 2 * step, INSTRUCTION,
                                 slice + step > 0);
        ptx::tcgen05_commit(&s.empty[from.slot]);  // when the products have been made
        if (slice) load();  // into the slot before: the tensor core has this slice meanwhile
    }
    ptx::tcgen05_commit(&s.sum_full);
    tail(s.empty, at);
}

__device__ void store(Shared& s, float* C, int row, int col, int m, int n) {
    const int warp = threadIdx.x / 32, i = row + threadIdx.x;  // lane = row of the tile
    ptx::mbarrier_wait(&s.sum_full, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int first = 0; first < TILE_N; first += PIECE) {
        unsigned r[PIECE];
        ptx::tcgen05_ld_32x32b_x32(r, s.tensor_memory + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < PIECE; ++j)
            if (i < m && col + first + j < n)
                C[size_t(i) * n + col + first + j] = __uint_as_float(r[j]);
    }
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k) in boxes of TILE_M × TILE_K, swizzled
       const __grid_constant__ CUtensorMap B,  // (n, k) in boxes of TILE_N × TILE_K, swizzled
       float* C,                               // (m, n), row-major
       int m, int n, int k) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32;
    const int row = blockIdx.x * TILE_M, col = blockIdx.y * TILE_N;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) {
            ptx::mbarrier_init(&s.full[slot], 1);   // the thread that says how many bytes
            ptx::mbarrier_init(&s.empty[slot], 1);  // a commit
        }
        ptx::mbarrier_init(&s.sum_full, 1);  // a commit
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp allocates together
    if (warp == 0) ptx::tcgen05_alloc<TILE_N>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barriers
    ptx::tcgen05_fence_after_thread_sync();
    if (threadIdx.x == 0) work(s, A, B, row, col, k);
    __syncwarp();  // a warp fetches together
    store(s, C, row, col, m, n);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // everybody has read
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<TILE_N>(s.tensor_memory);
    }
#endif
}

#include "exact_product.cuh"

void launch(const Product& p) {
    const dim3 tiles((p.m + TILE_M - 1) / TILE_M, (p.n + TILE_N - 1) / TILE_N);
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared)));
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    matmul<<<tiles, THREADS, sizeof(Shared)>>>(
        tensor_map_2d(p.A, p.m, p.k, TILE_M, TILE_K, swizzle),
        tensor_map_2d(p.B, p.n, p.k, TILE_N, TILE_K, swizzle),
        p.C, p.m, p.n, p.k);
}
