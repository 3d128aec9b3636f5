// B stays while A changes (.ws, weight stationary): tiles of 32, 64 or 128 rows of A by the same B.
// A sum takes all 128 lanes: its columns are cut into as many banks as its rows go into 128.
#include "ptx_tensor_memory.cuh"
#include <cuda_bf16.h>

#ifndef HIGH
#define HIGH 32  // rows of a tile: 32, 64 or 128
#endif

constexpr int TILES = 4, N = 128, K = 64;  // C is (TILES · HIGH, N); A and B have K columns
constexpr int STEP = 16;                   // what one instruction takes along k
constexpr int BANKS = 128 / HIGH;          // of a sum: parts of its columns
constexpr int WIDTH = N / BANKS;           // columns of tensor memory that a sum takes
constexpr int COLUMNS = TILES * WIDTH;
constexpr int THREADS = 128;               // 4 warps, one for each quarter

// tcgen05.mma.ws.kind::f16, 9.7.16.10.9.3: d += a · b, or with `adds` false d = a · b. The buffer
// b0 gets B with the first tile, has it for the next ones, and is done with it after the last.
__device__ void multiply(unsigned d, unsigned long long a, unsigned long long b, bool adds,
                         int tile) {
    constexpr unsigned INSTRUCTION = ptx::tcgen05_bf16_f32(HIGH, N);
#define MULTIPLY(use)                                                                              \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"                                         \
                 "tcgen05.mma.ws.cta_group::1.kind::f16.collector::b0::" use                       \
                 " [%0], %1, %2, %3, p; }"                                                         \
                 :: "r"(d), "l"(a), "l"(b), "r"(INSTRUCTION), "r"(int(adds)) : "memory")
    if (tile == 0) MULTIPLY("fill");
    else if (tile < TILES - 1) MULTIPLY("use");
    else MULTIPLY("lastuse");
}

// Rows of 128 bytes, swizzled; those behind the matrix are zeros.
__device__ void lay(uint4* tile, const __nv_bfloat16* from, int high, int rows) {
    for (int i = threadIdx.x; i < high * 8; i += THREADS)
        tile[i / 8 * 8 + (i % 8 ^ i / 8 % 8)] =
            i / 8 < rows ? reinterpret_cast<const uint4*>(from)[i] : uint4{};
}

__global__ void __launch_bounds__(THREADS)
stationary(const __nv_bfloat16* A,  // (m, K), row-major; m at most TILES · HIGH
           const __nv_bfloat16* B,  // (n, K), row-major; n at most N
           float* C, int m, int n)  // (m, n): A · Bᵀ
{
#if defined(__CUDA_ARCH_FEAT_SM100_ALL)
    extern __shared__ __align__(1024) uint4 tiles[];  // B, then all of A
    __shared__ unsigned long long done;
    __shared__ unsigned address;
    uint4 *b = tiles, *a = tiles + N * 8;
    const int t = threadIdx.x, warp = t / 32;
    lay(b, B, N, n);
    lay(a, A, TILES * HIGH, m);
    if (warp == 0) ptx::tcgen05_alloc<COLUMNS>(&address);
    if (t == 0) {
        ptx::mbarrier_init(&done, 1);
        ptx::fence_mbarrier_init();
    }
    ptx::fence_proxy_async_shared();  // the tensor core sees the tiles
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    const unsigned base = address;
    if (t == 0) {
        for (int step = 0; step < K / STEP; ++step)     // 16 along k are 32 bytes
            for (int tile = 0; tile < TILES; ++tile)    // A changes, and the sum
                multiply(base + tile * WIDTH,
                         ptx::tcgen05_descriptor_128B(a + tile * HIGH * 8) + 2 * step,
                         ptx::tcgen05_descriptor_128B(b) + 2 * step, step > 0, tile);
        ptx::tcgen05_commit(&done);
    }
    ptx::mbarrier_wait(&done, 0);
    ptx::tcgen05_fence_after_thread_sync();
    const int row = t % HIGH, bank = t / HIGH;  // what this lane holds
    for (int column = 0; column < COLUMNS; column += 32) {
        unsigned r[32];
        ptx::tcgen05_ld_32x32b_x32(r, base + (warp * 32 << 16) + column);
        ptx::tcgen05_wait_ld();
        const int i = column / WIDTH * HIGH + row, first = bank * WIDTH + column % WIDTH;
        for (int j = 0; j < 32; ++j)
            if (i < m && first + j < n) C[i * n + first + j] = __uint_as_float(r[j]);
    }
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();  // all have fetched
    ptx::tcgen05_fence_after_thread_sync();
    if (warp == 0) {
        ptx::tcgen05_relinquish_alloc_permit();
        ptx::tcgen05_dealloc<COLUMNS>(base);
    }
#endif
}
