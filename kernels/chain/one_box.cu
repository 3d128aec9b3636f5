// The pieces of pieces.cu, and all four warps write theirs into one box: they meet when 128 rows
// are there, and one thread has the copy engine store them; a ring of two slots for the four.
#include "chain/out.cuh"
#include "chain/place.cuh"
#include "tensor_map.cuh"

constexpr int TILE_M = 128, TILE_N = 256;  // of C: 128 lanes × 256 columns of tensor memory
constexpr int TILE_K = 64;                 // a slice: rows of 128 bytes, as long as the swizzle
constexpr int STEP = 16;                   // what one instruction takes of it
constexpr int STAGES = 4;                  // slots of 48 KiB in shared memory
constexpr int EPILOGUE = 4;                // warps, one for each quarter of tensor memory
constexpr int THREADS = 32 * (EPILOGUE + 2);

struct Shared {
    alignas(1024) __nv_bfloat16 a[STAGES][TILE_M * TILE_K];  // the swizzle's pattern: 1024 bytes
    alignas(1024) __nv_bfloat16 b[STAGES][TILE_N * TILE_K];
    alignas(1024) uint4 c[2][TILE_M * PARTS];  // pieces of the sum on their way to C
    unsigned long long full[STAGES], empty[STAGES];
    unsigned long long sum_full;
    unsigned tensor_memory;  // its address
};

__device__ void load(Shared& s, const CUtensorMap& A, const CUtensorMap& B, int row, int col,
                     int k) {
    Place<STAGES> at;
    for (int slice = 0; slice < k; slice += TILE_K, at.advance()) {
        unsigned long long* full = &s.full[at.slot];
        ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, sizeof s.a[0] + sizeof s.b[0]);  // whole boxes
        ptx::cp_async_bulk_tensor_load(s.a[at.slot], A, slice, row, full);
        ptx::cp_async_bulk_tensor_load(s.b[at.slot], B, slice, col, full);
    }
    tail(s.empty, at);
}

__device__ void multiply(Shared& s, int k) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(TILE_M, TILE_N);
    Place<STAGES> from;
    for (int slice = 0; slice < k; slice += TILE_K, from.advance()) {
        ptx::mbarrier_wait(&s.full[from.slot], from.phase);
        const unsigned long long a = ptx::tcgen05_descriptor_128B(s.a[from.slot]);
        const unsigned long long b = ptx::tcgen05_descriptor_128B(s.b[from.slot]);
        for (int step = 0; step < TILE_K / STEP; ++step)  // 16 along k are 32 bytes
            ptx::tcgen05_mma_f16(s.tensor_memory, a + 2 * step, b + 2 * step, INSTRUCTION,
                                 slice + step > 0);
        ptx::tcgen05_commit(&s.empty[from.slot]);  // when the products have been made
    }
    ptx::tcgen05_commit(&s.sum_full);
}

__device__ void store(Shared& s, const CUtensorMap& C, int row, int col) {
    const int t = threadIdx.x, warp = t / 32;
    Place<2> to;
    ptx::mbarrier_wait(&s.sum_full, 0);
    ptx::tcgen05_fence_after_thread_sync();
    for (int first = 0; first < TILE_N; first += PIECE, to.advance()) {
        unsigned r[PIECE];
        ptx::tcgen05_ld_32x32b_x32(r, s.tensor_memory + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        uint4* piece = s.c[to.slot];
        for (int p = 0; p < PARTS; ++p)  // 16 bytes of this thread's row, swizzled
            piece[t * PARTS + (p ^ t * PARTS / 8 % PARTS)] = part(r, p);
        ptx::fence_proxy_async_shared();
        if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the piece before has left
        ptx::bar_sync(1, 32 * EPILOGUE);  // all rows are there; the other slot is empty
        if (t == 0) {
            ptx::cp_async_bulk_tensor_store(C, col + first, row, piece);
            ptx::cp_async_bulk_commit_group();
        }
    }
    if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // shared memory ends with the block
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k) in boxes of TILE_M × TILE_K, swizzled
       const __grid_constant__ CUtensorMap B,  // (n, k) in boxes of TILE_N × TILE_K, swizzled
       const __grid_constant__ CUtensorMap C,  // (m, n) in boxes of TILE_M × PIECE, swizzled
       int m, int n, int k) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
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
    if (warp < EPILOGUE) store(s, C, row, col);
    else if (warp == EPILOGUE && lane == 0) load(s, A, B, row, col, k);
    else if (warp == EPILOGUE + 1 && lane == 0) multiply(s, k);
    __syncwarp();  // the lanes that had no role
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
        tensor_map_2d(p.C, p.m, p.n, TILE_M, PIECE, C_SWIZZLE), p.m, p.n, p.k);
}
