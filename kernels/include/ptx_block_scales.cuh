// PTX instructions for products with block scales: elements e2m1, and a scale for each block of them
// along k. NVFP4: ue4m3 for 16; MXFP4: ue8m0 for 32.
#pragma once
#include "ptx_sm100.cuh"

namespace ptx {

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// A matrix descriptor, 9.7.16.4.1, for 128 rows of four scales: 32 rows of 16 bytes, not swizzled,
// eight of them in 128 bytes; version 1. sm_100a.
__device__ inline unsigned long long scales_descriptor(const void* atom) {
    return (shared_address(atom) & 0x3ffff) >> 4 | 1ull << 16 | 8ull << 32 | 1ull << 46;
}

// tcgen05.cp.32x128b.warpx4, 9.7.16.9: 512 bytes of scales from shared memory to four columns of
// tensor memory, the same to each quarter of the lanes. Of a pair, to each block from its own
// shared memory. It comes before a product that the same thread issues later. sm_100a.
template <int GROUP = 1>
__device__ inline void tcgen05_cp_scales(unsigned column, const void* atom) {
    if constexpr (GROUP == 1)
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;"
                     :: "r"(column), "l"(scales_descriptor(atom)) : "memory");
    else
        asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;"
                     :: "r"(column), "l"(scales_descriptor(atom)) : "memory");
}

// An instruction descriptor for tcgen05.mma.kind::mxf4nvf4, 9.7.16.4.2: A and B of e2m1, scales of
// ue4m3 with id 0; the sum is f32, and has no bits of its own. sm_100a.
__host__ __device__ constexpr unsigned tcgen05_nvfp4(int m, int n) {
    return 1 << 7 | 1 << 10 | n / 8 << 17 | m / 128 << 27;
}

// tcgen05.mma.kind::mxf4nvf4.block_scale.scale_vec::4X, 9.7.16.10.9.1: d += a · b over 64 of k, each
// element times its block's scale; with `accumulate` false d = a · b. sm_100a.
template <int GROUP = 1>
__device__ inline void tcgen05_mma_nvfp4(unsigned d, unsigned long long a, unsigned long long b,
                                         unsigned instruction, unsigned a_scales,
                                         unsigned b_scales, bool accumulate) {
    if constexpr (GROUP == 1)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                     "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X "
                     "[%0], %1, %2, %3, [%4], [%5], p; }"
                     :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales),
                        "r"(int(accumulate)) : "memory");
    else
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                     "tcgen05.mma.cta_group::2.kind::mxf4nvf4.block_scale.scale_vec::4X "
                     "[%0], %1, %2, %3, [%4], [%5], p; }"
                     :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales),
                        "r"(int(accumulate)) : "memory");
}

// An instruction descriptor for tcgen05.mma.kind::mxf4, 9.7.16.4.2: A and B of e2m1, scales of ue8m0
// (bit 23). `id`: with which of an atom's four scales the instruction begins, 0 or 2, for A and for
// B. sm_100a.
__host__ __device__ constexpr unsigned tcgen05_mxfp4(int m, int n, int id) {
    return id << 4 | 1 << 7 | 1 << 10 | n / 8 << 17 | 1 << 23 | m / 128 << 27 | id << 29;
}

// tcgen05.mma.kind::mxf4.block_scale.scale_vec::2X, 9.7.16.10.9.1: d += a · b over 64 of k, each
// element times its block's scale; with `accumulate` false d = a · b. sm_100a.
__device__ inline void tcgen05_mma_mxfp4(unsigned d, unsigned long long a, unsigned long long b,
                                         unsigned instruction, unsigned a_scales,
                                         unsigned b_scales, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X "
                 "[%0], %1, %2, %3, [%4], [%5], p; }"
                 :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales),
                    "r"(int(accumulate)) : "memory");
}

#endif

}  // namespace ptx
