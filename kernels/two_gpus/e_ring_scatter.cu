// Product and reduce-scatter at full width: tiles of the peer's rows come first, and each warp's strip
// of one goes to the peer in one copy, under the next tile; then each warp adds what has come.
#include "two_gpus/ring.cuh"

constexpr int SLOTS = 3, BOXES = 4;  // all boxes of a warp's strip: it leaves as a whole
constexpr int PIECES = BOX_ROWS * BN / 8, MINE = PIECES / 32;  // of 16 bytes in a strip; a lane's

// Strips of tiles on their way: 16 rows of BN columns, which one warp made and one warp will add.
// Nobody else reads them, so they lie as the lanes' registers do; a flag for each.
struct Strips {
    uint4* there;
    unsigned* there_full;
    const uint4* here;
    const unsigned* full;
    unsigned turn;
};

// A warp's strip leaves, in bf16.
template <class Ring> __device__ void send(Ring& ring, const Sums& sums, uint4* there) {
    const int lane = threadIdx.x % 32;
    uint4* box = reinterpret_cast<uint4*>(&ring.boxes[threadIdx.x / 32]);
    if (lane == 0) ptx::cp_async_bulk_wait_group_read<0>();  // what lay there has been read
    __syncwarp();
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
        const float* d = sums + 8 * i;
        box[32 * i + lane] = {pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                              pack(d[6], d[7])};
    }
    ptx::fence_proxy_async_shared();  // the engine sees what this lane has stored,
    __syncwarp();                     // and the others
    if (lane == 0) {
        ptx::cp_async_bulk_store(there, box, PIECES * sizeof(uint4));
        ptx::cp_async_bulk_commit_group();
    }
}

// The last strip that this warp has sent has arrived, and the peer may know. One lane.
__device__ void tell(const Strips& way, int& sent) {
    if (sent < 0) return;
    ptx::cp_async_bulk_wait_group<0>();  // not .read: it is in the peer's memory
    ptx::store_release_sys(way.there_full + sent, way.turn);
    sent = -1;
}

// Add what the peer has sent of a strip.
__device__ void add(Sums& sums, const Strips& way, int strip) {
    const int lane = threadIdx.x % 32;
    if (lane == 0)
        while (ptx::load_acquire_sys(way.full + strip) < way.turn) {}
    __syncwarp();  // the other lanes, too, see what the flag tells
    const uint4* part = way.here + size_t(strip) * PIECES + lane;
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
        const uint4 eight = part[32 * i];
        const unsigned* two = &eight.x;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 x = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(two[j]));
            sums[8 * i + 2 * j] += x.x, sums[8 * i + 2 * j + 1] += x.y;
        }
    }
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap A,  // (M, K) in boxes of BM × BK
       const __grid_constant__ CUtensorMap B,  // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap C,  // (M / 2, N), in boxes
       Tiles tiles,                            // of one half
       const Strips way, int device)
{
    extern __shared__ __align__(1024) char memory[];
    auto& ring = *reinterpret_cast<Ring<SLOTS, BOXES>*>(memory);
    if (threadIdx.x == 0) begin_ring(ring);
    __syncthreads();  // the others see the barriers
    const int half = tiles.count(), warp = threadIdx.x / 32;
    int s = 0;
    bool phase = false;
    if (threadIdx.x >= CONSUMERS) {
        ptx::setmaxnreg_dec<40>();  // registers for the consumers' sums
        if (threadIdx.x == CONSUMERS)
            for (int n = blockIdx.x; n < 2 * half; n += gridDim.x) {  // the peer's rows first
                const auto [row, col] = tiles.place(n % half);
                const int first = (n < half ? 1 - device : device) * tiles.M;
                produce(ring, A, B, first + row * BM, col * BN, tiles.K, s, phase);
            }
    } else {
        ptx::setmaxnreg_inc<232>();
        int sent = -1;
        for (int n = blockIdx.x; n < 2 * half; n += gridDim.x) {
            const auto [row, col] = tiles.place(n % half);
            const int strip = n % half * (CONSUMERS / 32) + warp;
            Sums sums;
            multiply(ring, sums, tiles.K, s, phase);
            if (threadIdx.x % 32 == 0) tell(way, sent);  // before it waits for the peer
            if (n < half) {
                send(ring, sums, way.there + size_t(strip) * PIECES);
                sent = strip;
            } else {
                add(sums, way, strip);
                store(ring, sums, C, row * BM + warp * BOX_ROWS, col * BN);
            }
        }
        if (threadIdx.x % 32 == 0) tell(way, sent);
        ptx::cp_async_bulk_wait_group_read<0>();  // shared memory stays until it has been read
    }
}

void launch(const Share& p) {
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Ring<SLOTS, BOXES>)));
    const auto operand = [&](const bf16* matrix, int rows, int box) {
        return tensor_map_2d(matrix, rows, p.K, box, BK, CU_TENSOR_MAP_SWIZZLE_128B);
    };
    const Tiles tiles{p.rows(), p.N, p.K, BM};
    const int blocks = std::min(2 * tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Ring<SLOTS, BOXES>), p.stream>>>(
        operand(p.A, p.M, BM), operand(p.B, p.N, BN), boxes_of(p.C, p.rows(), p.N), tiles,
        Strips{reinterpret_cast<uint4*>(p.there), p.there_full,
               reinterpret_cast<const uint4*>(p.here), p.full, p.turn}, p.device);
}

#define GATHERS false
#include "two_gpus/ring_harness.cuh"
