// PTX instructions that CUDA C++ has no words for: one instruction a function, named after it.
// The sections are those of the PTX ISA 9; `python -m phasebit ptx NAME` tells how the emulator
// executes each of them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ptx {

// Addresses in shared memory have 32 bits in these instructions.
__device__ inline unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// ldmatrix, 9.7.14.5.15: four 8 × 8 matrices of 16-bit elements. Lanes 8i to 8i + 7 give the
// addresses of the rows of matrix i, 16 bytes each; then lane l holds in register i the elements
// 2(l % 4) and 2(l % 4) + 1 of row l / 4. sm_75.
__device__ inline void ldmatrix_x4(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3,
                                   const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(shared_address(row))
                 : "memory");
}

// ldmatrix.trans, 9.7.14.5.15: the same, each matrix transposed on its way.
__device__ inline void ldmatrix_x4_trans(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3,
                                         const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
                 : "r"(shared_address(row))
                 : "memory");
}

// mma, 9.7.14.5.14: d (16, 8) += a (16, 8) · b (8, 8), f16 into f32. sm_75.
__device__ inline void mma_16x8x8(float (&d)[4], unsigned a0, unsigned a1, unsigned b0, __half) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b0));
}

// mma, 9.7.14.5.14: d (16, 8) += a (16, 16) · b (16, 8), f16 into f32. sm_80.
__device__ inline void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                   __half) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// mma, 9.7.14.5.14: d (16, 8) += a (16, 16) · b (16, 8), bf16 into f32. sm_80.
__device__ inline void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                                   __nv_bfloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// cp.async, 9.7.9.25.3.1: start copying BYTES (4, 8 or 16) from global to shared memory, both
// aligned to BYTES. With `ignore` nothing is read, and zeros are written. sm_80.
template <int BYTES>
__device__ inline void cp_async(void* shared, const void* global, bool ignore = false) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async copies 4, 8 or 16 bytes");
    if constexpr (BYTES == 16)  // .cg leaves out the L1 cache, and takes 16 bytes only
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0;\n"
                     "cp.async.cg.shared.global [%0], [%1], 16, p; }"
                     :: "r"(shared_address(shared)), "l"(global), "r"(int(ignore)) : "memory");
    else
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %3, 0;\n"
                     "cp.async.ca.shared.global [%0], [%1], %2, p; }"
                     :: "r"(shared_address(shared)), "l"(global), "n"(BYTES), "r"(int(ignore))
                     : "memory");
}

// cp.async.commit_group, 9.7.9.25.3.2: the copies that this thread started since the last one
// become a group, perhaps an empty one. sm_80.
__device__ inline void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// cp.async.wait_group, 9.7.9.25.3.3: wait until at most PENDING of this thread's groups, the
// newest, are under way. sm_80.
template <int PENDING> __device__ inline void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

}  // namespace ptx
