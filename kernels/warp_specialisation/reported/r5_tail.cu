// After the last tile come copies of no use; then a slot holds the result.
#include "warp_specialisation/ring.cuh"

constexpr int M = 32, N = 32, K = 256;  // C = A · B, row-major f32
constexpr int BK = 32;                  // depth of a tile
constexpr int TILES = K / BK;
constexpr int SLOTS = 2;                // one is multiplied, one is under way
constexpr int THREADS = 256;

__shared__ alignas(16) float a[SLOTS][M][BK], b[SLOTS][BK][N];

// Start the copies of a tile, 16 bytes of A and of B a thread, as one group; after the last tile
// copies of zeros, so that the count of groups stays true.
__device__ void copy_or_zero(void* to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(shared(to)), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

__device__ void fetch(const float* A, const float* B, int tile) {
    const bool inside = tile < TILES;
    const int slot = tile % SLOTS;
    if (!inside) tile = 0;
    const int row = threadIdx.x / 8, x = threadIdx.x % 8 * 4;
    copy_or_zero(&a[slot][row][x], A + row * K + tile * BK + x, inside);  // <- async
    copy_or_zero(&b[slot][row][x], B + (tile * BK + row) * N + x, inside);
    commit();
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    const int x = threadIdx.x % 32, y = threadIdx.x / 32;
    float c[4] = {};  // column x of rows y, y + 8, …
    fetch(A, B, 0);
    for (int tile = 0; tile < TILES; ++tile) {
        fetch(A, B, tile + 1);
        wait_copies<1>();  // all but the newest: the next tile's
        __syncthreads();
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < 4; ++i)
                c[i] += a[tile % SLOTS][y + 8 * i][k] * b[tile % SLOTS][k][x];
        __syncthreads();
    }
#ifdef REPAIRED
    wait_copies<0>();
    __syncthreads();
#endif
    float (&out)[M][N] = a[TILES % SLOTS];  // all tiles are multiplied
    for (int i = 0; i < 4; ++i) out[y + 8 * i][x] = c[i];  // <- async
    __syncthreads();
    const int row = threadIdx.x / 8, col = threadIdx.x % 8 * 4;
    *reinterpret_cast<float4*>(&C[row * N + col]) = *reinterpret_cast<float4*>(&out[row][col]);
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
