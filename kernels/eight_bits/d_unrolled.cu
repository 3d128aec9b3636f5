// The same with the loop over K unrolled, so that less is left to do between two products; and a
// warp's descriptors are made once for all its lanes.
#include "eight_bits/product.cuh"

constexpr int SCALES = 128;
constexpr int BN = 256;  // columns of a tile of C
constexpr int SLOTS = 3;
constexpr int HALF = 128;  // columns of a tile that are multiplied at once, and that share a scale

struct Ring {
    Stage<BN> stage[SLOTS];
    Boxes<2> boxes[CONSUMERS / 32];
    float scales[SLOTS][BM];  // of A
    unsigned long long full[SLOTS], empty[SLOTS];
};
constexpr int BYTES = sizeof(Stage<BN>) + BM * sizeof(float);  // of a slot

using Part = float[HALF / 2];  // of one thread: 64 × HALF of a warp group, summed over 128 of K

// Begin part = rows 64 · group to 64 · group + 63 of a, times columns of b.
__device__ inline void begin_multiply(Part& part, const Stage<BN>& stage, int group, int half) {
    const auto a = ptx::descriptor_128B(stage.a + group * 64 * BK);
    const auto b = ptx::descriptor_128B(stage.b + half * HALF * BK);
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
                        const CUtensorMap& a_scales, Tiles tiles) {
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        for (int k = 0; k < tiles.K; k += BK, advance<SLOTS>(s, phase)) {
            unsigned long long* full = &ring.full[s];
            ptx::mbarrier_wait(&ring.empty[s], !phase);
            ptx::mbarrier_arrive_expect_tx(full, BYTES);
            ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k / 2, row * BM, full);
            ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k / 2, col * BN, full);
            ptx::cp_async_bulk_tensor_load(ring.scales[s], a_scales, row * BM, k / BLOCK, full);
        }
    }
}

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, const CUtensorMap& C, const float* b_scales, Tiles tiles,
                        int group) {
    const int warp = threadIdx.x / 32, mine = warp * 16 + threadIdx.x % 32 / 4;  // row of a tile
    const int blocks = Product::blocks(tiles.K), last = Product::blocks(tiles.N) - 1;
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        const float* of_half[2];
        for (int half = 0; half < 2; ++half)  // the last tile may have one half only
            of_half[half] = b_scales + size_t(min(2 * col + half, last)) * blocks;
        Part sums[2] = {};
#pragma unroll 6
        for (int k = 0; k < blocks; ++k, advance<SLOTS>(s, phase)) {
            const float b[2] = {of_half[0][k], of_half[1][k]};  // before the wait: it takes time
            ptx::mbarrier_wait(&ring.full[s], phase);
            const float scale = ring.scales[s][mine], below = ring.scales[s][mine + 8];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                Part part;
                ptx::wgmma_fence();
                begin_multiply(part, ring.stage[s], group, half);
                ptx::wgmma_wait_group<0>();
                if (half == 1) {
                    __syncwarp();  // all lanes have read their scales
                    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);
                }
                promote(sums[half], part, scale * b[half], below * b[half]);
            }
        }
        for (int half = 0; half < 2; ++half)
            store<HALF>(sums[half], 1, ring.boxes[warp], C, row * BM + warp * BOX_ROWS,
                        col * BN + half * HALF);
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS)
matmul(const __grid_constant__ CUtensorMap A,         // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,         // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,         // (M, N) in boxes of BOX_ROWS × BOX_COLS
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
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, a_scales, tiles);
    } else {
        ptx::setmaxnreg_inc<232>();
        // Every lane takes the first one's number: the compiler then knows that it is one a warp.
        consume(ring, C, b_scales, tiles, __shfl_sync(~0u, threadIdx.x / 128, 0));
    }
}

void launch(const Product& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    const CUtensorMap a_scales = tensor_map_2d(p.a_scales, Product::blocks(p.K), p.pitch(), 1, BM,
                                               CU_TENSOR_MAP_SWIZZLE_NONE);
    const Tiles tiles{p.M, p.N, p.K, BN};
    const int blocks = std::min(tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Ring), p.stream>>>(map_of(p.A, p.M, p.K, BM),
                                                        map_of(p.B, p.N, p.K, BN), map_c(p),
                                                        a_scales, p.b_scales, tiles);
}

#include "eight_bits/product_harness.cuh"
