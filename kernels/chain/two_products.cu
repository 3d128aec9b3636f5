// The chain for a pair of blocks that makes two products with the same slice of B, one below the
// other: half of B's copies for as much of C. Two threads of the first block multiply, each into a
// sum of its own. So both sums belong to one tile, and a slot is empty when both have read it.
#include "chain/out.cuh"
#include "chain/place.cuh"
#include "tensor_map.cuh"

constexpr int PAIR = 2;                    // blocks
constexpr int PRODUCTS = 2;                // by the same slice of B
constexpr int ROWS = 128;                  // of a block and a product: of A, of B and of the sum
constexpr int HIGH = PAIR * ROWS;          // rows of C of a product
constexpr int TILE_M = PRODUCTS * HIGH, TILE_N = 256;  // of C, made by a pair
constexpr int TILE_K = 64;                 // a slice: rows of 128 bytes, as long as the swizzle
constexpr int STEP = 16;                   // what one instruction takes of it
constexpr int STAGES = 4;                  // slots of 48 KiB in the shared memory of each
constexpr int SUMS = PRODUCTS;             // of 256 columns in tensor memory: all of it
constexpr int EPILOGUE = 4;                // warps, one for each quarter of tensor memory
constexpr int THREADS = 32 * (EPILOGUE + 1 + PRODUCTS);

struct Shared {
    alignas(1024) __nv_bfloat16 a[STAGES][PRODUCTS][ROWS * TILE_K];  // the swizzle's pattern
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
    const int first = blockIdx.x % PAIR * ROWS;  // of this block's rows
    Place<STAGES> at;
    for_each_tile(m, n, [&](int row, int col) {
        for (int slice = 0; slice < k; slice += TILE_K, at.advance()) {
            unsigned long long* full = &s.full[at.slot];
            ptx::mbarrier_wait(&s.empty[at.slot], at.phase ^ 1);
            if (first == 0)  // for both blocks
                ptx::mbarrier_arrive_expect_tx(full, PAIR * (sizeof s.a[0] + sizeof s.b[0]));
            for (int product = 0; product < PRODUCTS; ++product)
                ptx::cp_async_bulk_tensor_load_pair(s.a[at.slot][product], A, slice,
                                                    row + product * HIGH + first, full);
            ptx::cp_async_bulk_tensor_load_pair(s.b[at.slot], B, slice, col + first, full);
        }
    });
    tail(s.empty, at);
}

constexpr unsigned short BOTH = 0b11;

// In the first block only, a thread for each product: its rows of A, its sum.
__device__ void multiply(Shared& s, int product, int m, int n, int k) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(HIGH, TILE_N);
    const unsigned sum = s.tensor_memory + product * TILE_N;
    Place<STAGES> from;
    Place<1> to;  // its sum is a ring of one slot
    for_each_tile(m, n, [&](int, int) {
        ptx::mbarrier_wait(&s.sum_empty[product], to.phase ^ 1);
        ptx::tcgen05_fence_after_thread_sync();  // what follows comes after the epilogue's loads
        for (int slice = 0; slice < k; slice += TILE_K, from.advance()) {
            ptx::mbarrier_wait(&s.full[from.slot], from.phase);
            const unsigned long long a = ptx::tcgen05_descriptor_128B(s.a[from.slot][product]);
            const unsigned long long b = ptx::tcgen05_descriptor_128B(s.b[from.slot]);
            for (int step = 0; step < TILE_K / STEP; ++step)  // 16 along k are 32 bytes
                ptx::tcgen05_mma_f16<PAIR>(sum, a + 2 * step, b + 2 * step, INSTRUCTION,
                                           slice + step > 0);
            ptx::tcgen05_commit_multicast(&s.empty[from.slot], BOTH);  // one of two
        }
        ptx::tcgen05_commit_multicast(&s.sum_full[product], BOTH);
        to.advance();
    });
    ptx::mbarrier_wait(&s.sum_empty[product], to.phase ^ 1);  // the tail of its ring
}

__device__ void store(Shared& s, const CUtensorMap& C, int m, int n) {
    const int t = threadIdx.x, warp = t / 32, lane = t % 32, rank = blockIdx.x % PAIR;
    Place<SUMS> from;
    Place<2> to;
    for_each_tile(m, n, [&](int row, int col) {
        for (int product = 0; product < PRODUCTS; ++product, from.advance()) {
            const int top = row + product * HIGH + rank * ROWS;
            const unsigned sum = s.tensor_memory + (warp * 32 << 16) + from.slot * TILE_N;
            ptx::mbarrier_wait(&s.sum_full[from.slot], from.phase);
            ptx::tcgen05_fence_after_thread_sync();
            for (int first = 0; first < TILE_N; first += PIECE, to.advance()) {
                unsigned r[PIECE];
                ptx::tcgen05_ld_32x32b_x32(r, sum + first);
                ptx::tcgen05_wait_ld();
                if (first + PIECE == TILE_N) {  // in registers: the sum may be overwritten
                    ptx::tcgen05_fence_before_thread_sync();
                    if (lane == 0)
                        ptx::mbarrier_arrive_at_after_reads(&s.sum_empty[from.slot], 0);
                }
                uint4* piece = s.c[to.slot];
                for (int p = 0; p < PARTS; ++p)  // 16 bytes of this thread's row, swizzled
                    piece[t * PARTS + (p ^ t * PARTS / 8 % PARTS)] = part(r, p);
                ptx::fence_proxy_async_shared();
                if (t == 0) ptx::cp_async_bulk_wait_group_read<0>();  // the piece before has left
                ptx::bar_sync(1, 32 * EPILOGUE);  // all rows are there; the other slot is empty
                if (t == 0) {
                    ptx::cp_async_bulk_tensor_store(C, col + first, top, piece);
                    ptx::cp_async_bulk_commit_group();
                }
            }
        }
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
    const bool first_block = blockIdx.x % PAIR == 0;
    if (threadIdx.x == 0) {
        for (int slot = 0; slot < STAGES; ++slot) {
            ptx::mbarrier_init(&s.full[slot], 1);          // the thread that says how many bytes
            ptx::mbarrier_init(&s.empty[slot], PRODUCTS);  // a commit of each
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
    else if (warp > EPILOGUE && lane == 0 && first_block) multiply(s, warp - EPILOGUE - 1, m, n, k);
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
