// Tensor memory, one stage: C = A · Bᵀ on the tensor cores of sm_100a. The threads copy a slice of
// A and B to shared memory, one of them issues the product, all wait for it, and so on along k; the
// sum stays in tensor memory, 128 lanes × 128 columns, until a warp fetches each quarter of it.
// Nothing overlaps here: while the tensor core works the threads wait, and the reverse.
#include "ptx_sm100.cuh"
#include <cuda_bf16.h>

constexpr int TILE_M = 128, TILE_N = 128;  // a block's part of C
constexpr int TILE_K = 64;                 // a slice: rows of 128 bytes, as long as the swizzle
constexpr int STEP = 16;                   // what one instruction takes of it
constexpr int THREADS = 128;               // 4 warps, one for each quarter of tensor memory

// A slice (ROWS, TILE_K) of a matrix (rows, depth) to shared memory, 16 bytes at a time; the
// 128-byte swizzle puts piece p of row r at place p ^ r % 8. Outside of the matrix are zeros.
template <int ROWS>
__device__ void copy(uint4* tile, const __nv_bfloat16* from, int rows, int depth, int row, int k) {
    constexpr int PIECES = TILE_K / 8;
    for (int i = threadIdx.x; i < ROWS * PIECES; i += THREADS) {
        const int r = i / PIECES, p = i % PIECES;
        uint4 piece = {};
        if (row + r < rows && k + 8 * p < depth)
            piece = *reinterpret_cast<const uint4*>(from + size_t(row + r) * depth + k + 8 * p);
        tile[r * PIECES + (p ^ r % 8)] = piece;
    }
}

__global__ void __launch_bounds__(THREADS)
matmul(const __nv_bfloat16* A,  // (m, k), row-major
       const __nv_bfloat16* B,  // (n, k), row-major
       float* C,                // (m, n), row-major: C[i][j] = Σ A[i][l] · B[j][l]
       int m, int n, int k)     // k: a multiple of 8
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    __shared__ alignas(1024) uint4 a[TILE_M * TILE_K / 8];  // the swizzle's pattern: 1024 bytes
    __shared__ alignas(1024) uint4 b[TILE_N * TILE_K / 8];
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    const int row = blockIdx.y * TILE_M, col = blockIdx.x * TILE_N, warp = threadIdx.x / 32;
    if (warp == 0) ptx::tcgen05_alloc<TILE_N>(&address);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // the others see the address and the barrier
    ptx::tcgen05_fence_after_thread_sync();
    constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(TILE_M, TILE_N);
    const unsigned sum = address;
    int parity = 0;
    for (int slice = 0; slice < k; slice += TILE_K, parity ^= 1) {
        copy<TILE_M>(a, A, m, k, row, slice);
        copy<TILE_N>(b, B, n, k, col, slice);
        ptx::fence_proxy_async_shared();  // the tensor core does not see stores unless told to
        __syncthreads();                  // of all threads
        if (threadIdx.x == 0) {
            for (int step = 0; step < TILE_K / STEP; ++step)  // 16 along k are 32 bytes
                ptx::tcgen05_mma_f16(sum, ptx::tcgen05_descriptor_128B(a) + 2 * step,
                                     ptx::tcgen05_descriptor_128B(b) + 2 * step, INSTRUCTION,
                                     slice + step > 0);
            ptx::tcgen05_commit(&done);
        }
        ptx::mbarrier_wait(&done, parity);  // the slice may be overwritten, the sum read
    }
    ptx::tcgen05_fence_after_thread_sync();
    const int i = row + threadIdx.x;  // lane = row of the tile
    for (int first = 0; first < TILE_N; first += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, sum + (warp * 32 << 16) + first);
        ptx::tcgen05_wait_ld();
        for (int j = 0; j < 32; ++j)
            if (i < m && col + first + j < n)
                C[size_t(i) * n + col + first + j] = __uint_as_float(r[j]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // everybody has read
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<TILE_N>(sum);
    }
#endif
}

#include "exact_product.cuh"

void launch(const Product& p) {
    const dim3 grid((p.n + TILE_N - 1) / TILE_N, (p.m + TILE_M - 1) / TILE_M);
    matmul<<<grid, THREADS>>>(p.A, p.B, p.C, p.m, p.n, p.k);
}
