// The same, but C goes out as A and B come in, by the copy engine: each consumer warp lays 16 × 64
// results into shared memory, swizzled, and one of its threads has them stored as a box.
#include "hopper_ring/product.cuh"

constexpr int SLOTS = 4;
constexpr int CONSUMERS = GROUPS * 128, THREADS = CONSUMERS + 128;
constexpr int BOX_ROWS = 16, BOX_COLS = 64;  // of C

// Two boxes of a warp: one is being stored while the other is filled.
struct alignas(1024) Boxes {
    bf16 box[2][BOX_ROWS * BOX_COLS];
};

struct Ring {
    Stage stage[SLOTS];
    Boxes boxes[CONSUMERS / 32];
    unsigned long long full[SLOTS], empty[SLOTS];
};

// The producer, one thread. The ring knows nothing of where a tile of C ends.
__device__ void produce(Ring& ring, const CUtensorMap& A, const CUtensorMap& B, Tiles tiles) {
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        for (int k = 0; k < tiles.K; k += BK, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.empty[s], !phase);
            ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof(Stage));
            ptx::cp_async_bulk_tensor_load(ring.stage[s].a, A, k, row * BM, &ring.full[s]);
            ptx::cp_async_bulk_tensor_load(ring.stage[s].b, B, k, col * BN, &ring.full[s]);
        }
    }
}

__device__ unsigned pack(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(both);
}

// A warp stores its 16 rows of a tile of C, from row `row` and column `col` on.
__device__ void store(const Sums& sums, Boxes& boxes, const CUtensorMap& C, int row, int col) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < BN / BOX_COLS; ++part) {
        bf16* box = boxes.box[part % 2];
        if (lane == 0) ptx::cp_async_bulk_wait_group_read<1>();  // the engine has read this box
        __syncwarp();
#pragma unroll
        for (int j = 0; j < BOX_COLS / 16; ++j) {  // the lane's row, 16 bytes of it
            const float* d = sums + part * 32 + j * 8;
            ptx::stmatrix_x4(box + lane % 16 * BOX_COLS + ((2 * j + lane / 16) ^ lane % 8) * 8,
                             pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                             pack(d[6], d[7]));
        }
        ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
        __syncwarp();                     // and the others
        if (lane == 0) {
            ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row, box);
            ptx::cp_async_bulk_commit_group();
        }
    }
}

// A consumer, one warp group: 64 rows of each tile.
__device__ void consume(Ring& ring, const CUtensorMap& C, Tiles tiles, int group) {
    int s = 0;
    bool phase = false;
    for (int n = blockIdx.x; n < tiles.count(); n += gridDim.x) {
        const auto [row, col] = tiles.place(n);
        Sums sums;
        for (int k = 0; k < tiles.K; k += BK, advance<SLOTS>(s, phase)) {
            ptx::mbarrier_wait(&ring.full[s], phase);
            ptx::wgmma_fence();
            begin_multiply(sums, ring.stage[s], group, k > 0);
            ptx::wgmma_wait_group<0>();
            if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.empty[s]);
        }
        const int warp = threadIdx.x / 32;
        store(sums, ring.boxes[warp], C, row * BM + warp * BOX_ROWS, col * BN);
    }
    ptx::cp_async_bulk_wait_group_read<0>();  // shared memory must stay until it has been read
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,  // (M, N) in boxes of BOX_ROWS × BOX_COLS
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
        if (threadIdx.x == CONSUMERS) produce(ring, A, B, tiles);
    } else {
        ptx::setmaxnreg_inc<232>();
        consume(ring, C, tiles, threadIdx.x / 128);
    }
}

void launch(const Product& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Ring)));
    const CUtensorMap C =
        tensor_map_2d(p.C, p.M, p.N, BOX_ROWS, BOX_COLS, CU_TENSOR_MAP_SWIZZLE_128B);
    const Tiles tiles{p.M, p.N, p.K, BM};
    const int blocks = std::min(tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Ring), p.stream>>>(map_a(p), map_b(p), C, tiles);
}

#include "hopper_ring/product_harness.cuh"
