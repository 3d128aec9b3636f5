// A warp group's first multiplication: C = A · Bᵀ in bf16 by wgmma, one stage, and no copy engine.
// A block makes a tile of C, 64 × 128. In turn: the threads store tiles of A and B in shared
// memory, swizzled; the tensor cores multiply them; everybody waits.
#include "check.cuh"
#include "ptx_sm90.cuh"
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using bf16 = __nv_bfloat16;
constexpr int THREADS = 128;            // one warp group
constexpr int ROWS = 64, COLS = 128;    // of the tile of C
constexpr int DEPTH = 64;               // along K: 128 bytes, a row of the swizzle
constexpr int PIECES = DEPTH / 8;       // of 16 bytes, in a row

// Copy a tile of x (rows, K) to shared memory: piece p of row r lies where the swizzle wants it, at
// p ^ r % 8. What is outside of the matrix is zero.
template <int TILE_ROWS>
__device__ void fetch(uint4* tile, const bf16* x, int rows, int K, int row, int k) {
    for (int i = threadIdx.x; i < TILE_ROWS * PIECES; i += THREADS) {
        const int r = i / PIECES, p = i % PIECES;
        const bool inside = row + r < rows && k + 8 * p < K;
        uint4 piece = make_uint4(0, 0, 0, 0);
        if (inside) piece = *reinterpret_cast<const uint4*>(x + size_t(row + r) * K + k + 8 * p);
        tile[r * PIECES + (p ^ r % 8)] = piece;
    }
}

__global__ void __launch_bounds__(THREADS)
matmul(const bf16* __restrict__ A,  // (M, K), K a multiple of 8
       const bf16* __restrict__ B,  // (N, K)
       float* __restrict__ C,       // (M, N)
       int M, int N, int K)
{
    __shared__ alignas(1024) uint4 a[ROWS * PIECES];  // the swizzle looks at the address
    __shared__ alignas(1024) uint4 b[COLS * PIECES];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    float d[COLS / 2];
    for (int k = 0; k < K; k += DEPTH) {
        fetch<ROWS>(a, A, M, K, row, k);
        fetch<COLS>(b, B, N, K, col, k);
        ptx::fence_proxy_async_shared();  // the tensor cores see what this thread has stored,
        __syncthreads();                  // and all the others
        ptx::wgmma_fence();
        for (int step = 0; step < DEPTH / 16; ++step)  // 16 along K are 32 bytes
            ptx::wgmma_m64n128k16(d, ptx::descriptor_128B(a) + 2 * step,
                                  ptx::descriptor_128B(b) + 2 * step, k + step > 0);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>();
        __syncthreads();  // all warps have waited: the tiles are free
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < COLS / 2; ++i) {
        const int r = row + 16 * warp + lane / 4 + 8 * (i / 2 % 2);
        const int c = col + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
        if (r < M && c < N) C[size_t(r) * N + c] = d[i];
    }
}

// Multiply fresh random numbers and compare with sums in double. `bound`: the error allowed, as a
// part of Σ |a·b|; 0 for whole numbers, which have no rounding error.
template <class Draw> void verify(int M, int N, int K, double bound, Draw draw) {
    std::vector<bf16> A(size_t(M) * K), B(size_t(N) * K);
    std::vector<float> C(size_t(M) * N);
    for (bf16& x : A) x = __float2bfloat16(draw());
    for (bf16& x : B) x = __float2bfloat16(draw());
    bf16 *dA, *dB;
    float* dC;
    CHECK(cudaMalloc(&dA, A.size() * sizeof(bf16)));
    CHECK(cudaMalloc(&dB, B.size() * sizeof(bf16)));
    CHECK(cudaMalloc(&dC, C.size() * sizeof(float)));
    CHECK(cudaMemcpy(dA, A.data(), A.size() * sizeof(bf16), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(dB, B.data(), B.size() * sizeof(bf16), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(dC, 0xff, C.size() * sizeof(float)));  // all bits set: NaN
    dim3 grid((N + COLS - 1) / COLS, (M + ROWS - 1) / ROWS);
    matmul<<<grid, THREADS>>>(dA, dB, dC, M, N, K);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(C.data(), dC, C.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int r = 0; r < M; ++r)
        for (int c = 0; c < N; ++c) {
            double sum = 0, sizes = 0;
            for (int k = 0; k < K; ++k) {
                double product = double(__bfloat162float(A[size_t(r) * K + k]))
                               * double(__bfloat162float(B[size_t(c) * K + k]));
                sum += product;
                sizes += std::abs(product);
            }
            if (std::abs(C[size_t(r) * N + c] - sum) <= bound * sizes) continue;  // false for NaN
            printf("matmul: WRONG at (%d, %d) of %d × %d × %d: %g and should be %g\n", r, c, M, N,
                   K, C[size_t(r) * N + c], sum);
            exit(2);
        }
    CHECK(cudaFree(dA));
    CHECK(cudaFree(dB));
    CHECK(cudaFree(dC));
}

int main(int argc, char** argv) {
    const unsigned seed = argc > 1 ? std::stoul(argv[1]) : std::random_device{}();
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> whole(-4, 4);
    std::normal_distribution<float> normal;
    const int shapes[][3] = {{64, 128, 64}, {128, 256, 192}, {65, 130, 72}, {1, 1, 8}};
    for (auto [M, N, K] : shapes) {
        verify(M, N, K, 0, [&] { return float(whole(random)); });
        // Truncated sums: at most one unit of 2⁻²³ lost at each of K terms.
        verify(M, N, K, K * std::ldexp(1.0, -23), [&] { return normal(random); });
    }
    printf("matmul: OK, exact on whole numbers, for whole tiles and ragged edges\n");
}
