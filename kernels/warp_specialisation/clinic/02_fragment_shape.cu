// A fragment of 16 rows, loaded from a tile of 64.
#include "warp_specialisation/ring.cuh"

constexpr int M = 64, N = 8, K = 64;  // C = A · B, row-major f32
constexpr int THREADS = 128;          // four warps, 16 rows of C each

__shared__ float a[M][K], b[K][N];  // all of A, all of B

// Elements of a matrix in the registers of a warp: lane l has elements l, l + 32, …
template <int ROWS, int COLS> struct Fragment {  // <- see
    float part[ROWS * COLS / 32];
};

template <int ROWS, int COLS, int TILE_ROWS>
__device__ void load(Fragment<ROWS, COLS>& fragment, const float (&tile)[TILE_ROWS][COLS]) {
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < TILE_ROWS * COLS / 32; ++i)
        fragment.part[i] = tile[i * 32 / COLS][i * 32 % COLS + lane];  // <- fault
}

__global__ void __launch_bounds__(THREADS)
matmul(const float* A,  // (M, K)
       const float* B,  // (K, N)
       float* C)        // (M, N)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = threadIdx.x; i < M * K; i += THREADS) a[i / K][i % K] = A[i];
    for (int i = threadIdx.x; i < K * N; i += THREADS) b[i / N][i % N] = B[i];
    __syncthreads();

    Fragment<16, K> fragment;  // the warp's rows of A
#ifndef REPAIRED
    load(fragment, a);
#else
    load(fragment, reinterpret_cast<const float (&)[16][K]>(a[16 * warp]));
#endif
    for (int row = 0; row < 16; ++row)
        for (int n = 0; n < N; ++n) {
            const float* part = &fragment.part[2 * row];  // columns lane and lane + 32
            float c = part[0] * b[lane][n] + part[1] * b[lane + 32][n];
            for (int apart = 16; apart; apart /= 2) c += __shfl_xor_sync(~0u, c, apart);
            if (lane == 0) C[(16 * warp + row) * N + n] = c;
        }
}

void launch(const float* A, const float* B, float* C) {
    matmul<<<1, THREADS>>>(A, B, C);
}

#include "harness.cuh"
