// The same, but a warp of its own carries what the other GPU waits for and what comes from it: it
// waits for the link while the consumers multiply. A tile travels whole, and has one flag.
#include "two_gpus/ring.cuh"

constexpr int SLOTS = 3, BOXES = 4;  // all boxes of a tile: it leaves as a whole
constexpr int PIECES = BOX_ROWS * BN / 8, MINE = PIECES / 32;  // of 16 bytes of a warp; a lane's
constexpr unsigned TILE_BYTES = CONSUMERS / 32 * PIECES * sizeof(uint4);

// The boxes are a slot between the consumers and the carrier.
struct Carried : Ring<SLOTS, BOXES> {
    unsigned long long packed;    // the consumers have laid a tile there
    unsigned long long away;      // the carrier has sent it: they may lay the next
    unsigned long long unpacked;  // the peer's part of a tile lies there
};

// Tiles on their way, each as its consumers' registers hold it; a flag for each.
struct Way {
    uint4* there;
    unsigned* there_full;
    const uint4* here;
    const unsigned* full;
    unsigned turn;
};

// A consumer warp lays its strip of a tile for the peer, in bf16.
__device__ void lay(uint4* box, const Sums& sums) {
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
        const float* d = sums + 8 * i;
        box[32 * i + threadIdx.x % 32] = {pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                                          pack(d[6], d[7])};
    }
}

// It adds what the peer has computed of its strip.
__device__ void add(Sums& sums, const uint4* box) {
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
        const uint4 eight = box[32 * i + threadIdx.x % 32];
        const unsigned* two = &eight.x;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(two[j]));
            sums[8 * i + 2 * j] += x.x, sums[8 * i + 2 * j + 1] += x.y;
        }
    }
}

// It lays its strip of a tile of C, box by box.
__device__ void lay_boxes(bf16 (*boxes)[BOX_ROWS * BOX_COLS], const Sums& sums) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < BN / BOX_COLS; ++part)
#pragma unroll
        for (int j = 0; j < BOX_COLS / 16; ++j) {  // the lane's row, 16 bytes of it
            const float* d = sums + part * 32 + j * 8;
            ptx::stmatrix_x4(
                boxes[part] + lane % 16 * BOX_COLS + ((2 * j + lane / 16) ^ lane % 8) * 8,
                pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]), pack(d[6], d[7]));
        }
}

// The carrier, one thread: takes a tile of the peer's rows away, and tells of it when it is there.
__device__ void send(Carried& ring, const Way& way, int tile, bool& packed) {
    ptx::mbarrier_wait(&ring.packed, packed);
    packed = !packed;
    ptx::cp_async_bulk_store(way.there + size_t(tile) * TILE_BYTES / sizeof(uint4), ring.boxes,
                             TILE_BYTES);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();
    ptx::mbarrier_arrive(&ring.away);
    ptx::cp_async_bulk_wait_group<0>();  // not .read: it is in the peer's memory
    ptx::store_release_sys(way.there_full + tile, way.turn);
}

// It brings the peer's part of a tile, and takes the tile of C away.
__device__ void bring(Carried& ring, const Way& way, int tile, const CUtensorMap& C, int row,
                      int col, bool& packed) {
    while (ptx::load_acquire_sys(way.full + tile) < way.turn) {}
    ptx::fence_proxy_async_global();  // the engine, too, sees what the flag tells
    ptx::mbarrier_arrive_expect_tx(&ring.unpacked, TILE_BYTES);
    ptx::cp_async_bulk_load(ring.boxes, way.here + size_t(tile) * TILE_BYTES / sizeof(uint4),
                            TILE_BYTES, &ring.unpacked);
    ptx::mbarrier_wait(&ring.packed, packed);
    packed = !packed;
    for (int warp = 0; warp < CONSUMERS / 32; ++warp)
        for (int part = 0; part < BOXES; ++part)
            ptx::cp_async_bulk_tensor_store(C, col + part * BOX_COLS, row + warp * BOX_ROWS,
                                            ring.boxes[warp].box[part]);
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read<0>();  // the next part comes to the same place
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,  // (M / 2, N), in boxes
       Tiles tiles,                            // of one half
       const Way way, int device)
{
    extern __shared__ __align__(1024) char memory[];
    auto& ring = *reinterpret_cast<Carried*>(memory);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&ring.packed, CONSUMERS / 32);
        ptx::mbarrier_init(&ring.away, 1);
        ptx::mbarrier_init(&ring.unpacked, 1);
        begin_ring(ring);
    }
    __syncthreads();  // the others see the barriers
    const int half = tiles.count(), warp = threadIdx.x / 32;
    int s = 0;
    bool phase = false, packed = false, away = true, unpacked = false;
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums
        for (int n = blockIdx.x; n < 2 * half; n += gridDim.x) {  // the peer's rows first
            const auto [row, col] = tiles.place(n % half);
            if (threadIdx.x == CONSUMERS) {
                const int first = (n < half ? 1 - device : device) * tiles.M;
                produce(ring, A, B, first + row * BM, col * BN, tiles.K, s, phase);
            } else if (threadIdx.x == CONSUMERS + 32) {
                if (n < half) send(ring, way, n, packed);
                else bring(ring, way, n - half, C, row * BM, col * BN, packed);
            }
        }
    } else {
        ptx::setmaxnreg_inc<232>();
        for (int n = blockIdx.x; n < 2 * half; n += gridDim.x) {
            auto& boxes = ring.boxes[warp].box;
            uint4* strip = reinterpret_cast<uint4*>(boxes);
            Sums sums;
            multiply(ring, sums, tiles.K, s, phase);
            if (n < half) {
                ptx::mbarrier_wait(&ring.away, away);
                away = !away;
                lay(strip, sums);
            } else {
                ptx::mbarrier_wait(&ring.unpacked, unpacked);
                unpacked = !unpacked;
                add(sums, strip);
                __syncwarp();  // all lanes have read their part: C may lie there
                lay_boxes(boxes, sums);
            }
            ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
            __syncwarp();                     // and the others
            if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&ring.packed);
        }
    }
}

void launch(const Share& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Carried)));
    const auto operand = [&](const bf16* matrix, int rows, int box) {
        return tensor_map_2d(matrix, rows, p.K, box, BK, CU_TENSOR_MAP_SWIZZLE_128B);
    };
    const Tiles tiles{p.rows(), p.N, p.K, BM};
    const int blocks = std::min(2 * tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Carried), p.stream>>>(
        operand(p.A, p.M, BM), operand(p.B, p.N, BN), boxes_of(p.C, p.rows(), p.N), tiles,
        Way{reinterpret_cast<uint4*>(p.there), p.there_full,
            reinterpret_cast<const uint4*>(p.here), p.full, p.turn}, p.device);
}

#define GATHERS false
#include "two_gpus/ring_harness.cuh"
