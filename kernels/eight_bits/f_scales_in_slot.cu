// The same with less to do between two tiles: the scales of B come in the slot, as those of A, so
// that no consumer waits for memory; and a warp group stores its 64 rows of C by four copies, which
// one thread begins.
#include "eight_bits/product.cuh"

constexpr int SCALES = 128;
constexpr int BN = 256;  // columns of a tile of C
constexpr int SLOTS = 3;
constexpr int HALF = 128;  // columns of a tile that are multiplied at once, and that share a scale
constexpr int SUPER = 12;  // rows of tiles that are walked column by column

using Box = bf16[64 * BOX_COLS];  // of C, a warp group's rows: four boxes of a warp

struct Ring {
    Stage<BN> stage[SLOTS];
    alignas(1024) Box boxes[GROUPS][BN / BOX_COLS];
    float scales[SLOTS][BM];   // of A
    float b_scales[SLOTS][2];  // of B, for the halves of a tile
    unsigned long long full[SLOTS], empty[SLOTS];
};
constexpr int BYTES = sizeof(Stage<BN>) + BM * sizeof(float);  // of a slot, that are copied

using Part = float[HALF / 2];  // of one thread: 64 × HALF of a warp group, summed over 128 of K

// Begin part = 64 rows of A times HALF columns of B.
__device__ inline void begin_multiply(Part& part, unsigned long long a, unsigned long long b) {
    for (int k = 0; k < BK / 32; ++k)  // 32 along K are 32 bytes
        ptx::wgmma_m64n128k32(part, a + 2 * k, b + 2 * k, k > 0);
    ptx::wgmma_commit_group();
}

// sums += part · scale. Of four neighbours two belong to a row, two to the row eight below it.
__device__ inline void promote(Part& sums, const Part& part, float scale, float below) {
#pragma unroll
    for (int i = 0; i < HALF / 2; ++i) sums[i] += part[i] * (i / 2 % 2 ? below : scale);
}

// The producer, one thread.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B,
                        const CUtensorMap& a_scales, const float* b_scales, Tiles tiles) {
    const int blocks = Product::blocks(tiles.K), last = Product::blocks(tiles.N) - 1;
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place<SUPER>(n);
        const float* of_half[2];
        for (int half = 0; half < 2; ++half)  // the last tile may have one half only
            of_half[half] = b_scales + size_t(min(2 * col + half, last)) * blocks;
        for (int k = 0; k < blocks; ++k, advance<SLOTS>(s, phase)) {
            const float b[2] = {of_half[0][k], of_half[1][k]};  // before the wait: it takes time
            unsigned long long* full = &ring.full[s];
            ptx::mbarrier_wait(&ring.empty[s], !phase);
            for (int half = 0; half < 2; ++half) ring.b_scales[s][half] = b[half];
            ptx::mbarrier_arrive_expect_tx(full, BYTES);  // it publishes the scales of B, too
            ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k * BK / 2, row * BM, full);
            ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k * BK / 2, col * BN, full);
            ptx::cp_async_bulk_tensor_load(ring.scales[s], a_scales, row * BM, k, full);
        }
    }
}

// The threads of a warp group wait for each other.
__device__ inline void meet(int group) {
    asm volatile("bar.sync %0, 128;" :: "r"(1 + group) : "memory");
}

// A warp group stores its 64 rows of a tile, from row `row` and column `col` of C on.
__device__ void store(const Part (&sums)[2], Box (&boxes)[BN / BOX_COLS], const CUtensorMap& C,
                      int row, int col, int group) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const bool stores = threadIdx.x % 128 == 0;
    if (stores) ptx::cp_async_bulk_wait_group_read<0>();  // the last tile has been read
    meet(group);
#pragma unroll
    for (int part = 0; part < BN / BOX_COLS; ++part) {
        bf16* mine = boxes[part] + warp * BOX_ROWS * BOX_COLS;
#pragma unroll
        for (int j = 0; j < BOX_COLS / 16; ++j) {  // the lane's row, 16 bytes of it
            const float* d = sums[part / 2] + part % 2 * 32 + j * 8;
            ptx::stmatrix_x4(mine + lane % 16 * BOX_COLS + ((2 * j + lane / 16) ^ lane % 8) * 8,
                             pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                             pack(d[6], d[7]));
        }
    }
    ptx::fence_proxy_async_shared();  // the engine sees what this thread has stored,
    meet(group);                      // and the others
    if (!stores) return;
    for (int part = 0; part < BN / BOX_COLS; ++part)
        ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row, boxes[part]);
    ptx::cp_async_bulk_commit_group();
}

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, const CUtensorMap& C, Tiles tiles, int group) {
    const int mine = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;  // row of a tile
    const int blocks = Product::blocks(tiles.K);
    const auto a = ptx::descriptor_128B(ring.stage[0].a + group * 64 * BK);
    const auto b = ptx::descriptor_128B(ring.stage[0].b);
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place<SUPER>(n);
        Part sums[2] = {};
#pragma unroll 9
        for (int k = 0; k < blocks; ++k, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.full[s], phase);
            const float scale = ring.scales[s][mine], below = ring.scales[s][mine + 8];
            const float of_half[2] = {ring.b_scales[s][0], ring.b_scales[s][1]};
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                Part part;
                ptx::wgmma_fence();
                begin_multiply(part, a + s * sizeof(Stage<BN>) / 16,
                               b + (s * sizeof(Stage<BN>) + half * HALF * BK) / 16);
                ptx::wgmma_wait_group<0>();
                if (half == 1) {
                    __syncwarp();  // all lanes have read their scales
                    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);
                }
                promote(sums[half], part, scale * of_half[half], below * of_half[half]);
            }
        }
        store(sums, ring.boxes[group], C, row * BM + group * 64, col * BN, group);
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,         // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,         // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,         // (M, N) in boxes of 64 × BOX_COLS
       const __grid_constant__ CUtensorMap a_scales,  // (K / 128, M) in boxes of 1 × BM
       const float* b_scales,                         // (N / 128, K / 128)
       Tiles tiles)
{
    extern __shared__ __align__(1024) char memory[];
    Ring& ring = *reinterpret_cast<Ring*>(memory);
    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
    }
    __syncthreads();  // the others see the barriers
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, a_scales, b_scales, tiles);
    } else {
        ptx::setmaxnreg_inc<232>();
        // Every lane takes the first one's number: the compiler then knows that it is one a warp.
        consume(ring, C, tiles, __shfl_sync(~0u, threadIdx.x / 128, 0));
    }
}

void launch(const Product& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    const CUtensorMap C = tensor_map_2d(p.C, p.M, p.N, 64, BOX_COLS, CU_TENSOR_MAP_SWIZZLE_128B);
    const CUtensorMap a_scales = tensor_map_2d(p.a_scales, Product::blocks(p.K), p.pitch(), 1, BM,
                                               CU_TENSOR_MAP_SWIZZLE_NONE);
    const Tiles tiles{p.M, p.N, p.K, BN};
    const int blocks = std::min(tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Ring), p.stream>>>(map_of(p.A, p.M, p.K, BM),
                                                        map_of(p.B, p.N, p.K, BN), C, a_scales,
                                                        p.b_scales, tiles);
}

#include "eight_bits/product_harness.cuh"
