// One cluster of sixteen blocks: each multiplies its slice of the long sum, and then they read
// each other's shared memory and each adds up its part of C. Needs sm_90.
#include "check.cuh"
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

constexpr int M = 32, N = 32, K = 4096;  // C = A · B, row-major f32
constexpr int BLOCKS = 16;               // of the cluster, each on its own multiprocessor
constexpr int THREADS = 256;             // 8 warps, 16 groups
constexpr int DEPTH = K / BLOCKS / (THREADS / 16);  // products of a group, for each element: 16
constexpr int PAD = DEPTH % 32 == 4 ? 0 : 4;        // floats between rows: no bank conflicts
static_assert(K % (BLOCKS * THREADS / 16 * 4) == 0, "K must be whole tiles");

// Four neighbouring floats as one value; the first must be aligned to 16 bytes.
__device__ float4& four(float& first) { return reinterpret_cast<float4&>(first); }
__device__ const float4& four(const float& first) {
    return reinterpret_cast<const float4&>(first);
}

// What a group of sixteen threads multiplies; nobody else reads or writes it.
struct Slice {
    float a[M][DEPTH + PAD];
    float b[DEPTH][N];
};

struct Block {
    union {
        Slice slices[THREADS / 16];
        float sums[THREADS / 32][M][N];  // of each warp, once all slices are done
    };
    float sum[M * N];  // of the block
};

__device__ void load(Slice& slice, const float* __restrict__ A, const float* __restrict__ B,
                     int k0) {
    const int t = threadIdx.x % 16;
    for (int n = t * 4; n < M * DEPTH; n += 16 * 4)
        __pipeline_memcpy_async(&slice.a[n / DEPTH][n % DEPTH],
                                &A[n / DEPTH * K + k0 + n % DEPTH], 16);
    for (int n = t * 4; n < DEPTH * N; n += 16 * 4)
        __pipeline_memcpy_async(&slice.b[n / N][n % N], &B[k0 * N + n], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
}

// A thread's 8 × 8 elements: rows y, y + 4, … and columns x … x + 3, x + 16 … x + 19 of C.
__device__ void multiply(const Slice& slice, int x, int y, float (&c)[8][8]) {
    for (int k = 0; k < DEPTH; k += 4) {
        float a[8][4], b[8];
        for (int i = 0; i < 8; ++i) four(a[i][0]) = four(slice.a[y + 4 * i][k]);
        for (int d = 0; d < 4; ++d) {
            four(b[0]) = four(slice.b[k + d][x]);
            four(b[4]) = four(slice.b[k + d][x + 16]);
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) c[i][j] += a[i][d] * b[j];
        }
    }
}

__global__ void __cluster_dims__(BLOCKS) __launch_bounds__(THREADS)
matmul(const float* __restrict__ A,  // (M, K)
       const float* __restrict__ B,  // (K, N)
       float* __restrict__ C)        // (M, N)
{
    extern __shared__ float4 memory[];
    Block& block = *reinterpret_cast<Block*>(memory);
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int y = lane >> 1 & 3, x = ((lane & 1) | (lane >> 2 & 2)) * 4;
    float c[8][8] = {};
    load(block.slices[t / 16], A, B, (blockIdx.x * THREADS + t) / 16 * DEPTH);
    multiply(block.slices[t / 16], x, y, c);
    __syncthreads();  // nobody reads the slices any more

    // The two groups of a warp add their sums; each keeps four of the eight rows.
    const bool upper = lane >= 16;
    for (int i = 0; i < 4; ++i) {
        float sum[8];
        for (int j = 0; j < 8; ++j) {
            const float mine = upper ? c[i + 4][j] : c[i][j], other = upper ? c[i][j] : c[i + 4][j];
            sum[j] = mine + __shfl_xor_sync(~0u, other, 16);
        }
        float(&row)[N] = block.sums[warp][y + 4 * (i + upper * 4)];
        four(row[x]) = four(sum[0]);
        four(row[x + 16]) = four(sum[4]);
    }
    __syncthreads();
    for (int i = t; i < M * N; i += THREADS) {
        float sum = 0;
        for (int w = 0; w < THREADS / 32; ++w) sum += block.sums[w][i / N][i % N];
        block.sum[i] = sum;
    }

    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();  // every block has its sum
    constexpr int PART = M * N / BLOCKS;  // elements of C that a block writes
    if (t < PART) {
        const int i = cluster.block_rank() * PART + t;
        float sum = 0;
        for (int rank = 0; rank < BLOCKS; ++rank) sum += cluster.map_shared_rank(block.sum, rank)[i];
        C[i] = sum;
    }
    cluster.sync();  // nobody leaves while others read its memory
}

void launch(const float* A, const float* B, float* C) {
    // More than 48 KiB of shared memory, and more than 8 blocks in a cluster, must be asked for.
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(Block)));
    CHECK(cudaFuncSetAttribute(matmul, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    matmul<<<BLOCKS, THREADS, sizeof(Block)>>>(A, B, C);
}

#include "harness.cuh"
