// What a tensor core keeps of a sum: one warp group multiplies the same rows again and again, in
// e4m3 or in bf16, into one sum, or into parts that are added in f32 after every so many products.
#include "ptx_sm90.cuh"

constexpr int ROWS = 64, COLS = 8, PIECES = 8;  // of A; of B; of 16 bytes in a row

// Begin d (64, 8) = a (64, 32 bytes) · b (32 bytes, 8) + d, or without + d where `add` is false.
// Thread t holds in d[i] row 16(t / 32) + t % 32 / 4 + 8(i / 2) and column 2(t % 4) + i % 2.
template <bool EIGHT>
__device__ void begin_multiply(float (&d)[4], unsigned long long a, unsigned long long b,
                               bool add) {
    if constexpr (EIGHT)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%0, %1, %2, %3},"
                     " %4, %5, p, 1, 1; }"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "l"(a), "l"(b), "r"(int(add)));
    else
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3},"
                     " %4, %5, p, 1, 1, 0, 0; }"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "l"(a), "l"(b), "r"(int(add)));
}

template <bool EIGHT>
__device__ void add_up(const uint4* A, const uint4* B, float* sums, int products, int every) {
    __shared__ alignas(1024) uint4 a[ROWS * PIECES], b[COLS * PIECES];
    const int t = threadIdx.x;
    for (int i = t; i < ROWS * PIECES; i += 128) a[i ^ i / PIECES % 8] = A[i];  // swizzled
    for (int i = t; i < COLS * PIECES; i += 128) b[i ^ i / PIECES % 8] = B[i];
    ptx::fence_proxy_async_shared();
    __syncthreads();
    float part[4], sum[4] = {};
    for (int n = 0; n < products; ++n) {
        const bool first = n % every == 0, last = (n + 1) % every == 0 || n + 1 == products;
        ptx::wgmma_fence();
        begin_multiply<EIGHT>(part, ptx::descriptor_128B(a) + n % 4 * 2,
                              ptx::descriptor_128B(b) + n % 4 * 2, !first);
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<0>();
        if (last)
            for (int i = 0; i < 4; ++i) sum[i] += part[i];
    }
    for (int i = 0; i < 4; ++i)
        sums[(t / 32 * 16 + t % 32 / 4 + i / 2 * 8) * COLS + t % 4 * 2 + i % 2] = sum[i];
}

// A (64, 128 bytes) and B (8, 128 bytes), row-major; sums (64, 8). A product takes 32 bytes of each
// row, one after the other, and after the last of them begins again. 128 threads.
extern "C" __global__ void sums_of_e4m3(const uint4* A, const uint4* B, float* sums, int products,
                                        int every) {
    add_up<true>(A, B, sums, products, every);
}
extern "C" __global__ void sums_of_bf16(const uint4* A, const uint4* B, float* sums, int products,
                                        int every) {
    add_up<false>(A, B, sums, products, every);
}
