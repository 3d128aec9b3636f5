// Two blocks of a cluster and one stream of tiles: each block fetches one half of every tile, for
// both (multicast), and at the end one reads the other's sums in its shared memory.
#include "check.cuh"
#include "ptx_sm90.cuh"
#include "tensor_map.cuh"
#include <random>
#include <vector>

constexpr int PAIR = 2, SLOTS = 2;
constexpr int ROWS = 8, COLS = 64, HALF = ROWS / PAIR;  // of a tile; rows that each block fetches
constexpr int CONSUMERS = 64, THREADS = CONSUMERS + 32;

struct Ring {
    alignas(128) float tile[SLOTS][ROWS * COLS];
    float sums[COLS];
    unsigned long long full[SLOTS], empty[SLOTS];
};

// What lies at the same place in the shared memory of the block of this rank (mapa, 9.7.9.23).
__device__ float there(const float* here, unsigned rank) {
    float value;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %1, %2;\n"
                 "ld.shared::cluster.f32 %0, [there]; }"
                 : "=f"(value) : "r"(ptx::shared_address(here)), "r"(rank) : "memory");
    return value;
}

__device__ void produce(Ring& ring, const CUtensorMap& x, int tiles, int rank) {
    for (int i = 0; i < tiles; ++i) {
        const int s = i % SLOTS, mine = rank * HALF;
        ptx::mbarrier_wait(&ring.empty[s], !(i / SLOTS & 1));  // both blocks have read it
        ptx::mbarrier_arrive_expect_tx(&ring.full[s], sizeof ring.tile[s]);  // both halves
        ptx::cp_async_bulk_tensor_multicast(ring.tile[s] + mine * COLS, x, 0, i * ROWS + mine,
                                            &ring.full[s], (1 << PAIR) - 1);
    }
}

// Block `rank` adds the rows of one parity of every tile, a thread for each column.
__device__ void consume(Ring& ring, int tiles, int rank) {
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        const int s = i % SLOTS;
        ptx::mbarrier_wait(&ring.full[s], i / SLOTS & 1);
        for (int row = rank; row < ROWS; row += PAIR) sum += ring.tile[s][row * COLS + threadIdx.x];
        __syncwarp();
        if (threadIdx.x % 32 < PAIR)  // both producers write into this slot
            ptx::mbarrier_arrive_at_after_reads(&ring.empty[s], threadIdx.x % 32);
    }
    ring.sums[threadIdx.x] = sum;
}

extern "C" __global__ void __cluster_dims__(PAIR) __launch_bounds__(THREADS)
pair(const __grid_constant__ CUtensorMap x,  // (tiles · ROWS, COLS) in boxes of HALF × COLS
     float* __restrict__ sums,               // (COLS): of each column
     int tiles)
{
    __shared__ Ring ring;
    const int rank = blockIdx.x % PAIR;
    if (threadIdx.x == 0) {
        for (int s = 0; s < SLOTS; ++s) {
            ptx::mbarrier_init(&ring.full[s], 1);
            ptx::mbarrier_init(&ring.empty[s], PAIR * CONSUMERS / 32);
        }
        ptx::fence_mbarrier_init();
    }
    ptx::cluster_arrive();  // the other block, too, sees the barriers
    ptx::cluster_wait();
    if (threadIdx.x < CONSUMERS) consume(ring, tiles, rank);
    else if (threadIdx.x == CONSUMERS) produce(ring, x, tiles, rank);
    __syncwarp();
    ptx::cluster_arrive();  // the sums are there, and nobody writes into the other any more
    ptx::cluster_wait();
    if (rank == 0 && threadIdx.x < COLS)
        sums[threadIdx.x] = ring.sums[threadIdx.x] + there(&ring.sums[threadIdx.x], 1);
    ptx::cluster_arrive();  // a block stays while the other reads in it
    ptx::cluster_wait();
}

int main(int argc, char** argv) {
    std::mt19937 random(argc > 1 ? std::stoul(argv[1]) : std::random_device{}());
    std::uniform_int_distribution<int> whole(-9, 9);
    for (int tiles : {1, 2, 7}) {
        std::vector<float> x(tiles * ROWS * COLS), got(COLS), right(COLS);
        for (size_t i = 0; i < x.size(); ++i) right[i % COLS] += x[i] = whole(random);
        float *device, *sums;
        CHECK(cudaMalloc(&device, x.size() * sizeof(float)));
        CHECK(cudaMalloc(&sums, COLS * sizeof(float)));
        CHECK(cudaMemcpy(device, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemset(sums, 0xff, COLS * sizeof(float)));
        pair<<<PAIR, THREADS>>>(tensor_map_2d(device, tiles * ROWS, COLS, HALF, COLS,
                                              CU_TENSOR_MAP_SWIZZLE_NONE), sums, tiles);
        CHECK(cudaGetLastError());
        CHECK(cudaMemcpy(got.data(), sums, COLS * sizeof(float), cudaMemcpyDeviceToHost));
        CHECK(cudaFree(device));
        CHECK(cudaFree(sums));
        if (got != right) return printf("pair: WRONG for %d tiles\n", tiles), 2;
    }
    printf("pair: OK, exact on whole numbers\n");
}
