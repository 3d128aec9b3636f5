// More PTX instructions of Blackwell's tensor memory: stores, copies from shared memory, rows that
// move, and a product whose A lies there. One instruction a function, as in ptx_sm100.cuh.
#pragma once
#include "ptx_sm100.cuh"

namespace ptx {

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// tcgen05.st.32x32b.x32, 9.7.16.8.4: lane l of a warp stores 32 columns of lane 32 (warp % 4) + l,
// the address being that of the warp's first lane. Done after tcgen05_wait_st. sm_100a.
__device__ inline void tcgen05_st_32x32b_x32(unsigned address, const unsigned (&r)[32]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x32.b32 [%32], "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31};"
                 :: "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "r"(r[4]), "r"(r[5]), "r"(r[6]),
                    "r"(r[7]), "r"(r[8]), "r"(r[9]), "r"(r[10]), "r"(r[11]), "r"(r[12]),
                    "r"(r[13]), "r"(r[14]), "r"(r[15]), "r"(r[16]), "r"(r[17]), "r"(r[18]),
                    "r"(r[19]), "r"(r[20]), "r"(r[21]), "r"(r[22]), "r"(r[23]), "r"(r[24]),
                    "r"(r[25]), "r"(r[26]), "r"(r[27]), "r"(r[28]), "r"(r[29]), "r"(r[30]),
                    "r"(r[31]), "r"(address)
                 : "memory");
}

// A matrix descriptor for tcgen05, 9.7.16.4.1, without a swizzle: core matrices of 8 rows of 16
// bytes, `leading` bytes from one to the next along the row, `stride` to the next 8 rows. sm_100a.
__device__ inline unsigned long long tcgen05_descriptor_none(const void* tile, int leading,
                                                             int stride) {
    return (shared_address(tile) & 0x3ffff) >> 4 | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | 1ull << 46;
}

// tcgen05.mma.kind::f16 with A in tensor memory, 9.7.16.10.9.1: as tcgen05_mma_f16, but row i of a
// is in lane i, two elements along k in a column. One thread issues it. sm_100a.
__device__ inline void tcgen05_mma_f16_from_tensor_memory(unsigned d, unsigned a,
                                                          unsigned long long b,
                                                          unsigned instruction, bool accumulate) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }"
                 :: "r"(d), "r"(a), "l"(b), "r"(instruction), "r"(int(accumulate))
                 : "memory");
}

// tcgen05.cp.128x256b, 9.7.16.9.2: 32 bytes of each of 128 rows to eight columns of 128 lanes. One
// thread issues it; it runs in the queue with the products. sm_100a.
__device__ inline void tcgen05_cp_128x256b(unsigned address, unsigned long long rows) {
    asm volatile("tcgen05.cp.cta_group::1.128x256b [%0], %1;" :: "r"(address), "l"(rows)
                 : "memory");
}

// tcgen05.shift.down, 9.7.16.9.3: in the 32 lanes from this address on, lane i takes 8 columns of
// lane i + 1. One thread issues it; it runs in the queue with the products. sm_100a.
__device__ inline void tcgen05_shift_down(unsigned address) {
    asm volatile("tcgen05.shift.cta_group::1.down [%0];" :: "r"(address) : "memory");
}

#endif

}  // namespace ptx
