// Tensor memory, one stage: C = A · Bᵀ on the tensor cores of sm_100a. The threads copy a slice of A
// and B to shared memory, one of them issues the product, all wait for it, and so on along k; the
// sum stays in tensor memory, 128 lanes × 128 columns, until a warp fetches each quarter of it.
// Nothing overlaps here: while the tensor core works the threads wait, and the reverse.
#include "check.cuh"
#include "ptx_sm100.cuh"
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

constexpr int M = 128, N = 128;  // a block's part of C
constexpr int K = 64;            // a slice: rows of 128 bytes, as long as the swizzle allows
constexpr int STEP = 16;         // what one instruction takes of it
constexpr int THREADS = 128;     // 4 warps, one for each quarter of tensor memory
constexpr int ROW = 128;         // bytes
using Element = __nv_bfloat16;

// Matrix descriptor, 9.7.16.4.1: rows of 128 bytes, the next eight rows 1024 bytes further, K-major,
// version 1, 128-byte swizzle.
__device__ inline unsigned long long describe(const void* start) {
    return (ptx::shared_address(start) & 0x3FFFF) >> 4 | 1ull << 16 | 1024ull / 16 << 32 |
           1ull << 46 | 2ull << 61;
}

// Instruction descriptor, 9.7.16.4.2: D f32, A and B bf16, both K-major, N and M.
constexpr unsigned INSTRUCTION = 1 << 4 | 1 << 7 | 1 << 10 | N / 8 << 17 | M / 16 << 24;

// A slice (ROWS, K) of a matrix (rows, depth) to shared memory, 16 bytes at a time; the 128-byte
// swizzle puts piece p of row r at place p ^ r % 8. Outside of the matrix are zeros.
template <int ROWS>
__device__ void copy(Element* tile, const Element* from, int rows, int depth, int row, int k) {
    for (int i = threadIdx.x; i < ROWS * K / 8; i += THREADS) {
        const int r = i / (K / 8), p = i % (K / 8);
        uint4 piece = {};
        if (row + r < rows && k + 8 * p < depth)
            piece = *reinterpret_cast<const uint4*>(from + size_t(row + r) * depth + k + 8 * p);
        *reinterpret_cast<uint4*>(reinterpret_cast<char*>(tile) + r * ROW + (p ^ r % 8) * 16) = piece;
    }
}

__global__ void __launch_bounds__(THREADS)
matmul(const Element* A,  // (m, k), row-major
       const Element* B,  // (n, k), row-major
       float* C,          // (m, n), row-major: C[i][j] = Σ A[i][l] · B[j][l]
       int m, int n, int k)  // k: a multiple of 8
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) Element a[M * K];  // the swizzle's pattern: 1024 bytes
    __shared__ alignas(1024) Element b[N * K];
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    const int row = blockIdx.y * M, col = blockIdx.x * N, warp = threadIdx.x / 32;
    if (warp == 0) ptx::tcgen05_alloc<N>(&address);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barrier
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned sum = address;
    int parity = 0;
    for (int slice = 0; slice < k; slice += K, parity ^= 1) {
        copy<M>(a, A, m, k, row, slice);
        copy<N>(b, B, n, k, col, slice);
        ptx::fence_proxy_async_shared();  // the tensor core does not see stores unless told to
        __syncthreads();                  // of all threads
        if (threadIdx.x == 0) {
            for (int step = 0; step < K; step += STEP)
                ptx::tcgen05_mma_f16(sum, describe(a + step), describe(b + step), INSTRUCTION,
                                     slice + step > 0);
            ptx::tcgen05_commit(&done);
        }
        ptx::mbarrier_wait(&done, parity);  // the slice may be overwritten, the sum read
    }
    ptx::tcgen05_fence_after_thread_sync();
    const int i = row + threadIdx.x;  // lane = row of the tile
    for (int first = 0; first < N; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, sum + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 32; ++j)
            if (i < m && col + first + j < n)
                C[size_t(i) * n + col + first + j] = __uint_as_float(r[j]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // everybody has read
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<N>(sum);
    }
#endif
}

// Multiplies fresh matrices and compares every element with a sum in double: exactly, if the
// numbers are small and whole, else within the bound for sums of k products in any order.
template <class Draw> bool right(int m, int n, int k, const char* data, bool exact, Draw draw) {
    std::vector<Element> a(size_t(m) * k), b(size_t(n) * k);
    for (Element& x : a) x = __float2bfloat16(draw());
    for (Element& x : b) x = __float2bfloat16(draw());
    std::vector<float> c(size_t(m) * n);
    Element *A, *B;
    float* C;
    CHECK(cudaMalloc(&A, a.size() * sizeof(Element)));
    CHECK(cudaMalloc(&B, b.size() * sizeof(Element)));
    CHECK(cudaMalloc(&C, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(A, a.data(), a.size() * sizeof(Element), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(B, b.data(), b.size() * sizeof(Element), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(C, 0xff, c.size() * sizeof(float)));  // NaN, so that what nobody writes is wrong
    matmul<<<dim3((n + N - 1) / N, (m + M - 1) / M), THREADS>>>(A, B, C, m, n, k);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), C, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(A));
    CHECK(cudaFree(B));
    CHECK(cudaFree(C));
    const double u = std::ldexp(1.0, -23), gamma = k * u / (1 - k * u);  // truncation: u = 2⁻²³
    int wrong = 0;
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            double sum = 0, sizes = 0;
            for (int l = 0; l < k; ++l) {
                const double product = double(__bfloat162float(a[size_t(i) * k + l])) *
                                       __bfloat162float(b[size_t(j) * k + l]);
                sum += product;
                sizes += std::abs(product);
            }
            const double error = std::abs(c[size_t(i) * n + j] - sum);
            wrong += !(error <= (exact ? 0 : gamma * sizes));  // also for NaN
        }
    if (wrong)
        printf("matmul: WRONG on %s: %d of %d x %d elements, k = %d\n", data, wrong, m, n, k);
    return !wrong;
}

int main(int argc, char** argv) {
    std::mt19937 random(argc > 1 ? std::stoul(argv[1]) : std::random_device{}());
    std::uniform_int_distribution<int> whole(-4, 4);
    std::normal_distribution<float> normal;
    for (auto [m, n, k] : {std::array{128, 128, 64}, {128, 128, 192}, {1, 1, 8}, {200, 136, 72},
                           {129, 257, 128}})
        if (!right(m, n, k, "whole numbers", true, [&] { return float(whole(random)); })) return 2;
    if (!right(130, 120, 136, "normal numbers", false, [&] { return normal(random); })) return 2;
    printf("matmul: OK, exact on whole numbers, for whole tiles and ragged edges\n");
    return 0;
}
