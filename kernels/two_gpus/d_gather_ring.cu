// All-gather and product at full width: a copy takes this GPU's rows of A to the peer and raises the
// flags there, and the producer of the ring waits for a flag before it fetches rows of the peer's.
// With SENDERS, warps that are idle send the rows themselves.
#include "two_gpus/ring.cuh"

constexpr int SLOTS = 4, BOXES = 2;
constexpr int SENDERS = 0;  // warps of a block that send, at most 3; 0: a copy beside it does
constexpr int AT_ONCE = 4;  // loads of 16 bytes that a lane has under way

// Rows of A on their way: (rows, K) from here to a slot of the peer. A flag counts, over all turns,
// the rows that have come of BM.
struct Sending {
    const uint4* from;
    uint4* there;
    unsigned* there_full;
    const unsigned* full;
    int rows, pieces;  // of 16 bytes in a row
    unsigned turn;

    __device__ unsigned wanted(int strip) const { return turn * min(BM, rows - strip * BM); }
};

// A warp of all that send: every so many rows, first those that the peer multiplies first.
__device__ void send(const Sending& way, int warp, int warps) {
    const int lane = threadIdx.x % 32;
    for (int row = warp; row < way.rows; row += warps) {
        const uint4* from = way.from + size_t(row) * way.pieces;
        uint4* to = way.there + size_t(row) * way.pieces;
        for (int first = lane; first < way.pieces; first += 32 * AT_ONCE) {
            uint4 held[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (first + 32 * i < way.pieces) held[i] = from[first + 32 * i];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (first + 32 * i < way.pieces) to[first + 32 * i] = held[i];
        }
        __syncwarp();  // all lanes have stored: the release tells of their stores too
        if (lane == 0) ptx::add_release_sys(way.there_full + row / BM, 1);
    }
}

// The other half of A: these rows have come, and the copy engine may read them.
__device__ void wait_for(const Sending& way, int strip) {
    while (ptx::load_acquire_sys(way.full + strip) < way.wanted(strip)) {}
    ptx::fence_proxy_async_global();
}

__global__ void __launch_bounds__(THREADS, 1)
matmul(const __grid_constant__ CUtensorMap own,       // this GPU's half of A, in boxes of BM × BK
       const __grid_constant__ CUtensorMap received,  // the other half
       const __grid_constant__ CUtensorMap B,         // (N, K) in boxes of BN × BK
       const __grid_constant__ CUtensorMap own_c,     // their halves of C, in boxes
       const __grid_constant__ CUtensorMap received_c,
       Tiles tiles,                                   // of one half
       const Sending way)
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
            for (int n = blockIdx.x; n < 2 * half; n += gridDim.x) {  // its own rows first
                const auto [row, col] = tiles.place(n % half);
                if (n >= half) wait_for(way, row);
                produce(ring, n < half ? own : received, B, row * BM, col * BN, tiles.K, s, phase);
            }
        const int sender = warp - CONSUMERS / 32 - 1;
        if (0 <= sender && sender < SENDERS)
            send(way, blockIdx.x * SENDERS + sender, gridDim.x * SENDERS);
    } else {
        ptx::setmaxnreg_inc<232>();
        for (int n = blockIdx.x; n < 2 * half; n += gridDim.x) {
            const auto [row, col] = tiles.place(n % half);
            Sums sums;
            multiply(ring, sums, tiles.K, s, phase);
            store(ring, sums, n < half ? own_c : received_c, row * BM + warp * BOX_ROWS, col * BN);
        }
        ptx::cp_async_bulk_wait_group_read<0>();  // shared memory stays until it has been read
    }
}

// A copy sends, beside the kernel, in a stream of its own: the rows, and then the flags. Its
// slot is empty when the launch before has ended.
void copy(const Share& p) {
    static cudaStream_t beside[2];
    static cudaEvent_t before[2];
    cudaStream_t& stream = beside[p.device];
    if (!stream) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        CHECK(cudaEventCreateWithFlags(&before[p.device], cudaEventDisableTiming));
    }
    CHECK(cudaEventRecord(before[p.device], p.stream));
    CHECK(cudaStreamWaitEvent(stream, before[p.device], 0));
    const int strips = (p.rows() + BM - 1) / BM;
    CHECK(cudaMemcpyAsync(p.there, p.A, size_t(p.rows()) * p.K * sizeof(bf16), cudaMemcpyDefault,
                          stream));
    CHECK(cudaMemcpyAsync(p.there_full, p.counts, strips * sizeof(unsigned), cudaMemcpyDefault,
                          stream));
}

void launch(const Share& p) {
    if (SENDERS == 0) copy(p);
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Ring<SLOTS, BOXES>)));
    const auto operand = [&](const bf16* matrix, int rows, int box) {
        return tensor_map_2d(matrix, rows, p.K, box, BK, CU_TENSOR_MAP_SWIZZLE_128B);
    };
    const auto half_of_c = [&](int device) {
        return boxes_of(p.C + size_t(device) * p.rows() * p.N, p.rows(), p.N);
    };
    const Tiles tiles{p.rows(), p.N, p.K, BM};
    const int blocks = std::min(2 * tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Ring<SLOTS, BOXES>), p.stream>>>(
        operand(p.A, p.rows(), BM), operand(p.here, p.rows(), BM), operand(p.B, p.N, BN),
        half_of_c(p.device), half_of_c(1 - p.device), tiles,
        Sending{reinterpret_cast<const uint4*>(p.A), reinterpret_cast<uint4*>(p.there),
                p.there_full, p.full, p.rows(), p.K / 8, p.turn});
}

#define GATHERS true
#include "two_gpus/ring_harness.cuh"
