// The chain for a pair of blocks: products of 256 × 256 × 16 by the tensor cores of two
// multiprocessors, neighbours. Each block brings half of the rows of A and half of those of B, and
// keeps half of the rows of the sum. One thread of the first block issues for both: both blocks'
// copies are counted at its barriers, and its commits arrive at the barriers of both.
#include "chain/out.cuh"
#include "chain/place.cuh"
#include "tensor_map.cuh"

constexpr int PAIR = 2;                    // blocks
constexpr int TILE_M = 256, TILE_N = 256;  // of C, made by a pair
constexpr int ROWS = TILE_M / PAIR;         // of a block: 128 of A, of B and of the sum
constexpr int TILE_K = 64;                 // a slice: rows of 128 bytes, as long as the swizzle
constexpr int STEP = 16;                   // what one instruction takes of it
constexpr int STAGES = 6;                  // slots of 32 KiB in the shared memory of each
constexpr int SUMS = 2;                    // slots of 256 columns in tensor memory: all of it
constexpr int EPILOGUE = 4;                // warps, one for each quarter of tensor memory
constexpr int THREADS = 32 * (EPILOGUE + 2);

struct Shared {
    alignas(1024) __nv_bfloat16 a[STAGES][ROWS * TILE_K];  // the swizzle's pattern: 1024 bytes
    alignas(1024) __nv_bfloat16 b[STAGES][ROWS * TILE_K];
    alignas(1024) uint4 c[2][ROWS * PARTS];  // pieces of the sum on their way to C
    unsigned long long full[STAGES], empty[STAGES];
    unsigned long long sum_full[SUMS], sum_empty[SUMS];
    unsigned tensor_memory;  // its address
};

// The tiles of this pair, down the columns of C.
template <class Work> __device__ void for_each_tile(int m, int n, Work work) {
    const int rows = (m + TILE_M - 1) / TILE_M, cols = (n + TILE_N - 1) / TILE_N;
    for (int tile = blockIdx.x / PAIR; tile < rows * cols; tile += gridDim.x / PAIR)
        work(tile % rows * TILE_M, tile / rows * TILE_N);
}

__device__ void load(Shared& s, const CUtensorMap& A, const CUtensorMap& B, int m, int n, int k) {
    const int rank = blockIdx.x % PAIR;
    Place<STAGES> at;
    for_each_tile(m, n, [&](int row, int col) {
        for (int slice = 0; slice < k; slice += TILE_K, at.advance()) {
            unsigned long long* full = &s.full[at.slot];
            ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);
            if (rank == 0)  // for both blocks
                ptx::mbarrier_arrive_expect_tx(full, PAIR * (sizeof s.a[0] + sizeof s.b[0]));
            ptx::cp_async_bulk_tensor_load_pair(s.a[at.slot], A, slice, row + rank * ROWS, full);
            ptx::cp_async_bulk_tensor_load_pair(s.b[at.slot], B, slice, col + rank * ROWS, full);
        }
    });
    tail(s.empty, at);
}

constexpr unsigned short BOTH = 0b11;

// In the first block only.
__device__ void multiply(Shared& s, int m, int n, int k) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(TILE_M, TILE_N);
    Place<STAGES> from;
    Place<SUMS> to;
    for_each_tile(m, n, [&](int, int) {
        const unsigned sum = s.tensor_memory + to.slot * TILE_N;
        ptx::mbarrier_wait(&s.sum_empty[to.slot], to.phase ^ 1);
        ptx::tcgen05_fence_after_thread_sync();  // what follows comes after the epilogue's loads
        for (int slice = 0; slice < k; slice += TILE_K, from.advance()) {
            ptx::mbarrier_wait(&s.full[from.slot], from.phase);
            const unsigned long long a = ptx::tcgen05_descriptor_128B(s.a[from.slot]);
            const unsigned long long b = ptx::tcgen05_descriptor_128B(s.b[from.slot]);
            for (int step = 0; step < TILE_K / STEP; ++step)  // 16 along k are 32 bytes
                ptx::tcgen05_mma_f16<PAIR>(sum, a + 2 * step, b + 2 * step, INSTRUCTION,
                                           slice + step > 0);
            ptx::tcgen05_commit_multicast(&s.empty[from.slot], BOTH);
        }
        ptx::tcgen05_commit_multicast(&s.sum_full[to.slot], BOTH);
        to.advance();
    });
    tail(s.sum_empty, to);
}

__device__ void store(Shared& s, const CUtensorMap& C, int m, int n) {
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, rank = blockIdx.x % PAIR;
    Place<SUMS> from;
    Place<2> to;
    for_each_tile(m, n, [&](int row, int col) {
        const unsigned sum = s.tensor_memory + (warp * 32 << 16) + from.slot * TILE_N;
        ptx::mbarrier_wait(&s.sum_full[from.slot], from.phase);
        ptx::tcgen05_fence_after_thread_sync();
        for (int first = 0; first < TILE_N; first += PIECE, to.advance()) {
            unsigned r[PIECE];
            ptx::tcgen05_ld_32x32b_x32(r, sum + first);
            ptx::tcgen05_wait_ld();
            if (first + PIECE == TILE_N) {  // in registers: the sum may be overwritten
                ptx::tcgen05_fence_before_thread_sync();
                if (lane == 0) ptx::mbarrier_arrive_at_after_reads(&s.sum_empty[from.slot], 0);
            }
            uint4* piece = s.c[to.slot];
            for (int p = 0; p < PARTS; ++p)  // 16 bytes of this thread's row, swizzled
                piece[t * PARTS + (p ^ t * PARTS / 8 % PARTS)] = part(r, p);
            ptx::fence_proxy_async_shared();
            if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the piece before has left
            ptx::bar_sync(1, 32 * EPILOGUE);  // all rows are there; the other slot is empty
            if (t == 0) {
                ptx::cp_async_bulk_tensor_store(C, col + first, row + rank * ROWS, piece);
                ptx::cp_async_bulk_commit_group();
            }
        }
        from.advance();
    });
    if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // shared memory ends with the block
}

__global__ void __cluster_dims__(PAIR) __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (m, k) in boxes of ROWS × TILE_K, swizzled
       const __grid_constant__ CUtensorMap B,  // (n, k) in boxes of ROWS × TILE_K, swizzled
       const __grid_constant__ CUtensorMap C,  // (m, n) in boxes of ROWS × PIECE, swizzled
       int m, int n, int k) {
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) char memory[];
    Shared& s = *reinterpret_cast<Shared*>(memory);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) {
            ptx::mbarrier_init(&s.full[slot], 1);   // the thread that says how many bytes
            ptx::mbarrier_init(&s.empty[slot], 1);  // a commit
        }
        for (int slot = 0; slot < SUMS; ++slot) {
            ptx::mbarrier_init(&s.sum_full[slot], 1);                 // a commit
            ptx::mbarrier_init(&s.sum_empty[slot], PAIR * EPILOGUE);  // warps
        }
        ptx::fence_mbarrier_init();
    }
    __syncwarp();  // a warp arrives, and allocates, together
    ptx::cluster_arrive();
    ptx::cluster_wait();  // both blocks run, as an allocation for a pair wants, and have barriers
    if (warp == 0) ptx::tcgen05_alloc<SUMS * TILE_N, PAIR>(&s.tensor_memory);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address
    ptx::tcgen05_fence_after_thread_sync();
    if (warp < EPILOGUE) store(s, C, m, n);
    else if (warp == EPILOGUE && lane == 0) load(s, A, B, m, n, k);
    else if (warp == EPILOGUE + 1 && lane == 0 && blockIdx.x % PAIR == 0) multiply(s, m, n, k);
    __syncwarp();  // the lanes that had no role
    ptx::tcgen05_fence_before_thread_sync();
    ptx::cluster_arrive();
    ptx::cluster_wait();  // everybody has read, and nobody leaves while the other is at work
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit<PAIR>();
        ptx::tcgen05_dealloc<SUMS * TILE_N, PAIR>(s.tensor_memory);
    }
#endif
}

#include "exact_product.cuh"

void launch(const Product& p) {
    const int tiles = (p.m + TILE_M - 1) / TILE_M * ((p.n + TILE_N - 1) / TILE_N);
    int processors;
    CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared)));
    const auto swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
    matmul<<<PAIR * std::min({tiles, processors / PAIR, p.workers}), THREADS, sizeof(Shared)>>>(
        tensor_map_2d(p.A, p.m, p.k, ROWS, TILE_K, swizzle),
        tensor_map_2d(p.B, p.n, p.k, ROWS, TILE_K, swizzle),
        tensor_map_2d(p.C, p.m, p.n, ROWS, PIECE, C_SWIZZLE), p.m, p.n, p.k);
}
