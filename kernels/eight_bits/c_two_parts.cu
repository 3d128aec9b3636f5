// The same with two parts: while a thread promotes one, the tensor core makes the other. Registers
// for both leave room for tiles of 128 × 192, whose columns lie in two blocks of B's scales.
#include "eight_bits/product.cuh"

constexpr int SCALES = 128;
constexpr int BN = 192;  // columns of a tile of C
constexpr int SLOTS = 4;
constexpr int HALF = BN / 2;  // columns of a tile that are multiplied at once
constexpr int SAME = 32;      // neighbours among them whose scale of B is the same in every tile

struct Ring {
    Stage<BN> stage[SLOTS];
    Boxes<3> boxes[CONSUMERS / 32];
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
        ptx::wgmma_m64n96k32(part, a + 2 * k, b + 2 * k, k > 0);
    ptx::wgmma_commit_group();
}

// The scales of a step that a thread needs: of its rows of A, and of two neighbouring blocks of B.
struct Scales {
    float row, below, b[2];
};

// sums += part · scales. Of four neighbours two belong to a row, two to the row eight below it;
// the first `first` times SAME columns belong to the first block of B.
__device__ inline void promote(float* sums, const Part& part, const Scales& scales, int first) {
#pragma unroll
    for (int group = 0; group < HALF / SAME; ++group) {
        const float b = group < first ? scales.b[0] : scales.b[1];
        const float row = scales.row * b, below = scales.below * b;
#pragma unroll
        for (int i = 0; i < SAME / 2; ++i) {
            const int at = group * SAME / 2 + i;
            sums[at] += part[at] * (i / 2 % 2 ? below : row);
        }
    }
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
        const int block = col * BN / BLOCK, first = ((block + 1) * BLOCK - col * BN) / SAME;
        const float* of_b[2];
        for (int i = 0; i < 2; ++i)  // the last tile may lie in one block only
            of_b[i] = b_scales + size_t(min(block + i, last)) * blocks;
        float sums[BN / 2] = {};
        for (int k = 0; k < blocks; ++k, advance<SLOTS>(s, phase)) {
            Scales scales{0, 0, {of_b[0][k], of_b[1][k]}};
            ptx::mbarrier_wait(&ring.full[s], phase);
            scales.row = ring.scales[s][mine], scales.below = ring.scales[s][mine + 8];
            Part left, right;
            ptx::wgmma_fence();
            begin_multiply(left, ring.stage[s], group, 0);
            begin_multiply(right, ring.stage[s], group, 1);
            ptx::wgmma_wait_group<1>();
            promote(sums, left, scales, first);  // under the products of the other part
            ptx::wgmma_wait_group<0>();
            __syncwarp();  // all lanes have read their scales
            if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);
            promote(sums + HALF / 2, right, scales, first - HALF / SAME);
        }
        store<BN>(sums, 1, ring.boxes[warp], C, row * BM + warp * BOX_ROWS, col * BN);
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)  // without the 1, setmaxnreg is ignored
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
        consume(ring, C, b_scales, tiles, threadIdx.x / 128);
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
