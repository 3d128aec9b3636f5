// Products of NVFP4 with block scales, C = A · Bᵀ: numbers of four bits, a scale for each 16 of them
// along k. A step takes 64 of k, and 4 columns of tensor memory for A's scales, 4 for B's. sm_100a.
#pragma once
#include "ptx_block_scales.cuh"
#include "bug.cuh"

constexpr int M = 128, N = 32, STEPS = 4, STEP = 64;  // one row of all steps is 128 bytes
constexpr int ATOM = 512;                             // bytes of a step's scales, for 128 rows
constexpr unsigned COLUMNS = 128;                     // of tensor memory: D, and behind it scales

using bytes = std::vector<unsigned char>;

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

struct Tiles {
    uint4 a[M * 8], b[N * 8];  // 16 bytes each, swizzled
};

// All threads: A and B lie in shared memory, and so do ATOMS of scales; the barrier takes one arrival
// a phase, and tensor memory is allocated; its address is the result.
template <int ATOMS>
__device__ inline unsigned begin(Tiles& tiles, const uint4* A, const uint4* B,
                                 uint4 (&scales)[ATOMS][ATOM / 16], const uint4* from,
                                 unsigned long long* done) {
    __shared__ unsigned address;
    if (threadIdx.x < 32) ptx::tcgen05_alloc<COLUMNS>(&address);
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(done, 1);
        ptx::fence_mbarrier_init();
    }
    for (int i = threadIdx.x; i < M * 8; i += blockDim.x) tiles.a[i ^ i / 8 % 8] = A[i];
    for (int i = threadIdx.x; i < N * 8; i += blockDim.x) tiles.b[i ^ i / 8 % 8] = B[i];
    for (int i = threadIdx.x; i < ATOMS * ATOM / 16; i += blockDim.x)
        scales[i / (ATOM / 16)][i % (ATOM / 16)] = from[i];
    ptx::fence_proxy_async_shared();
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    ptx::tcgen05_fence_after_thread_sync();
    return address;
}

// A warp group: D to memory, and nobody uses tensor memory any more.
__device__ inline void store_and_end(unsigned d, float* C) {
    unsigned sums[N];
    ptx::tcgen05_ld_32x32b_x32(sums, d + (threadIdx.x / 32 * 32 << 16));
    ptx::tcgen05_wait_ld();
    for (int i = 0; i < N; ++i) C[threadIdx.x * N + i] = __uint_as_float(sums[i]);
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    if (threadIdx.x < 32) ptx::tcgen05_dealloc<COLUMNS>(d);
}

#endif

// Numbers of four bits, two in a byte, of `rows`: 0, 1 and −1.
inline bytes numbers(int rows, int seed) {
    bytes data(rows * STEPS * STEP / 2);
    auto one = [&](size_t i) { return "\x2\x0\xa"[(i * 2654435761u >> 13) % 3 + 0 * seed]; };
    for (size_t i = 0; i < data.size(); ++i)
        data[i] = one(2 * i + seed) | one(2 * i + 1 + seed) << 4;
    return data;
}

// The number that stands at row and k.
inline float number(const bytes& data, int row, int k) {
    const int at = row * STEPS * STEP + k, bits = data[at / 2] >> at % 2 * 4 & 15;
    return bits == 2 ? 1 : bits == 10 ? -1 : 0;
}

// A step's scales: 2 to the power of `exponent(row, block)` for each row and block of 16, as ue4m3.
template <class F> void scale(bytes& atoms, int atom, F exponent) {
    for (int row = 0; row < 128; ++row)
        for (int block = 0; block < 4; ++block)
            atoms[atom * ATOM + row % 32 * 16 + row / 32 * 4 + block] =
                (7 + exponent(row, block)) << 3;
}
