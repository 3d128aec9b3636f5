// The same by way of this GPU's memory: a tile of the peer's rows is stored here, by its threads, and
// a copy takes each round of tiles to the peer, in a stream that waits until all of them are there.
#include "two_gpus/ring.cuh"

constexpr int SLOTS = 4, BOXES = 2;
constexpr int PIECES = BOX_ROWS * BN / 8, MINE = PIECES / 32;  // of 16 bytes of a warp; a lane's
constexpr size_t TILE_PIECES = CONSUMERS / 32 * PIECES;

struct Shared : Ring<SLOTS, BOXES> {
    unsigned long long stored;  // the consumers have stored a tile
    unsigned long long seen;    // its phase: they may tell of the next one
};

// Tiles on their way, each as its consumers' registers hold it. A round are those with which all
// blocks are busy at a time; it has a count here, and a flag with the peer.
struct Way {
    uint4* leaving;
    unsigned* made;
    const uint4* here;
    const unsigned* full;
    unsigned turn;
};

// A consumer warp stores its strip of a tile for the peer, in bf16.
__device__ void lay(uint4* strip, const Sums& sums) {
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
        const float* d = sums + 8 * i;
        strip[32 * i + threadIdx.x % 32] = {pack(d[0], d[1]), pack(d[2], d[3]), pack(d[4], d[5]),
                                            pack(d[6], d[7])};
    }
}

// It adds what the peer has computed of its strip, when the round has come.
__device__ void add(Sums& sums, const uint4* strip, const unsigned* full, unsigned turn) {
    if (threadIdx.x % 32 == 0)
        while (ptx::load_acquire_sys(full) < turn) {}
    __syncwarp();  // the other lanes, too, see what the flag tells
#pragma unroll
    for (int i = 0; i < MINE; ++i) {
        const uint4 eight = strip[32 * i + threadIdx.x % 32];
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
       const Way way, int device)
{
    extern __shared__ __align__(1024) char memory[];
    auto& ring = *reinterpret_cast<Shared*>(memory);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&ring.stored, CONSUMERS / 32);
        ptx::mbarrier_init(&ring.seen, 1);
        begin_ring(ring);
    }
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
        if (threadIdx.x == CONSUMERS + 32)  // counts the tiles: it waits until their stores are seen
            for (int n = blockIdx.x; n < half; n += gridDim.x, phase = !phase) {
                ptx::mbarrier_wait(&ring.stored, phase);
                ptx::mbarrier_arrive(&ring.seen);
                ptx::add_release_sys(way.made + n / gridDim.x, 1);
            }
    } else {
        ptx::setmaxnreg_inc<232>();
        bool seen = true;
        for (int n = blockIdx.x; n < 2 * half; n += gridDim.x) {
            const auto [row, col] = tiles.place(n % half);
            const size_t strip = n % half * TILE_PIECES + warp * PIECES;
            Sums sums;
            multiply(ring, sums, tiles.K, s, phase);
            if (n < half) {
                lay(way.leaving + strip, sums);
                __syncwarp();  // all lanes have stored: the arrival tells of their stores too
                if (threadIdx.x % 32 == 0) {
                    ptx::mbarrier_wait(&ring.seen, seen);
                    ptx::mbarrier_arrive(&ring.stored);
                }
                seen = !seen;
            } else {
                add(sums, way.here + strip, way.full + (n - half) / gridDim.x, way.turn);
                store(ring, sums, C, row * BM + warp * BOX_ROWS, col * BN);
            }
        }
        ptx::cp_async_bulk_wait_group_read<0>();  // shared memory stays until it has been read
    }
}

// What sends, beside the kernel. The first copy to the peer is made before a kernel waits for one: it
// may have to wait until the GPU is idle.
struct Beside {
    cudaStream_t stream;
    decltype(&cuStreamWaitValue32) wait = nullptr;

    explicit Beside(const Share& p) {
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        cudaDriverEntryPointQueryResult state;
        CHECK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32",
                                               reinterpret_cast<void**>(&wait), 12000,
                                               cudaEnableDefault, &state));
        CHECK(cudaMemcpyAsync(p.there, p.leaving, sizeof(uint4), cudaMemcpyDefault, stream));
        CHECK(cudaStreamSynchronize(stream));
    }
    // Each round of tiles, once it has been counted, and then its flag. The slot is empty when the
    // launch before has ended.
    void copy(const Share& p, int half, int blocks) {
        for (int round = 0; round * blocks < half; ++round) {
            const int first = round * blocks, tiles = std::min(blocks, half - first);
            if (wait(stream, CUdeviceptr(p.made + round), p.turn * tiles,
                     CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS) {
                fprintf(stderr, "cuStreamWaitValue32 refuses\n");
                exit(1);
            }
            const size_t from = first * TILE_PIECES * 8, count = tiles * TILE_PIECES * 8;
            CHECK(cudaMemcpyAsync(p.there + from, p.leaving + from, count * sizeof(bf16),
                                  cudaMemcpyDefault, stream));
            CHECK(cudaMemcpyAsync(p.there_full + round, p.counts + round, sizeof(unsigned),
                                  cudaMemcpyDefault, stream));
        }
    }
};

void launch(const Share& p) {
    static Beside* beside[2];
    if (!beside[p.device]) beside[p.device] = new Beside(p);
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               sizeof(Shared)));
    const auto operand = [&](const bf16* matrix, int rows, int box) {
        return tensor_map_2d(matrix, rows, p.K, box, BK, CU_TENSOR_MAP_SWIZZLE_128B);
    };
    const Tiles tiles{p.rows(), p.N, p.K, BM};
    const int blocks = std::min(2 * tiles.count(), p.multiprocessors);
    matmul<<<blocks, THREADS, sizeof(Shared), p.stream>>>(
        operand(p.A, p.M, BM), operand(p.B, p.N, BN), boxes_of(p.C, p.rows(), p.N), tiles,
        Way{reinterpret_cast<uint4*>(p.leaving), p.made, reinterpret_cast<const uint4*>(p.here),
            p.full, p.turn}, p.device);
    beside[p.device]->copy(p, tiles.count(), blocks);
}

#define GATHERS false
#include "two_gpus/ring_harness.cuh"
