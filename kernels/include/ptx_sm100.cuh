// PTX instructions of Blackwell: tensor memory and the fifth generation of tensor cores.
// One instruction a function, as in ptx.cuh; what Hopper has as well is in ptx_sm90.cuh, which
// this file includes.
#pragma once
#include "ptx_sm90.cuh"

namespace ptx {

// The fifth generation of tensor cores is in sm_100a and not in what came before or after.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

// GROUP: 1, or 2 where two neighbouring blocks of a cluster, a pair, work on one product. A kernel
// keeps to one of them.

// tcgen05.alloc, 9.7.16.7.1: a warp takes COLUMNS (a power of two, 32 to 512) of tensor memory, and
// waits while they are not free; their address goes to shared memory. Of a pair, a warp of each
// block. sm_100a.
template <int COLUMNS, int GROUP = 1> __device__ inline void tcgen05_alloc(unsigned* address) {
    static_assert(COLUMNS >= 32 && COLUMNS <= 512 && (COLUMNS & (COLUMNS - 1)) == 0);
    if constexpr (GROUP == 1)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                     :: "r"(shared_address(address)), "n"(COLUMNS) : "memory");
    else
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
                     :: "r"(shared_address(address)), "n"(COLUMNS) : "memory");
}

// tcgen05.dealloc, 9.7.16.7.1: a warp gives back what was allocated at this address; all must be
// given back before the block ends. sm_100a.
template <int COLUMNS, int GROUP = 1> __device__ inline void tcgen05_dealloc(unsigned address) {
    if constexpr (GROUP == 1)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;"
                     :: "r"(address), "n"(COLUMNS) : "memory");
    else
        asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;"
                     :: "r"(address), "n"(COLUMNS) : "memory");
}

// tcgen05.relinquish_alloc_permit, 9.7.16.7.1: this block will allocate no more. sm_100a.
template <int GROUP = 1> __device__ inline void tcgen05_relinquish_alloc_permit() {
    if constexpr (GROUP == 1)
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
    else asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}

// tcgen05.ld.32x32b.x32, 9.7.16.8.3: lane l of a warp loads 32 columns of lane 32 (warp % 4) + l,
// the address being that of the warp's first lane. They may be used after tcgen05_wait_ld. sm_100a.
__device__ inline void tcgen05_ld_32x32b_x32(unsigned (&r)[32], unsigned address) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "[%32];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]),
                   "=r"(r[6]), "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]),
                   "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]),
                   "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]),
                   "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]),
                   "=r"(r[30]), "=r"(r[31])
                 : "r"(address));
}

// tcgen05.ld.16x256b.x8, 9.7.16.8.3: 64 columns of 16 lanes, spread over a warp as mma.sync spreads
// its result: two neighbouring columns of lanes l / 4 and l / 4 + 8 for thread l, eight times.
// sm_100a.
__device__ inline void tcgen05_ld_16x256b_x8(unsigned (&r)[32], unsigned address) {
    asm volatile("tcgen05.ld.sync.aligned.16x256b.x8.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "[%32];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]),
                   "=r"(r[6]), "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]),
                   "=r"(r[12]), "=r"(r[13]), "=r"(r[14]), "=r"(r[15]), "=r"(r[16]), "=r"(r[17]),
                   "=r"(r[18]), "=r"(r[19]), "=r"(r[20]), "=r"(r[21]), "=r"(r[22]), "=r"(r[23]),
                   "=r"(r[24]), "=r"(r[25]), "=r"(r[26]), "=r"(r[27]), "=r"(r[28]), "=r"(r[29]),
                   "=r"(r[30]), "=r"(r[31])
                 : "r"(address));
}

// tcgen05.wait::ld, 9.7.16.8.5: the warp's loads from tensor memory have come. sm_100a.
__device__ inline void tcgen05_wait_ld() {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

// tcgen05.wait::st, 9.7.16.8.5: the warp's stores to tensor memory are done. sm_100a.
__device__ inline void tcgen05_wait_st() {
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

// A matrix descriptor for tcgen05, 9.7.16.4.1: a K-major tile with rows of 128 bytes, swizzled in
// groups of eight that lie 1024 bytes apart; version 1. 16 bytes along K are 1 more in it. sm_100a.
__device__ inline unsigned long long tcgen05_descriptor_128B(const void* tile) {
    return (shared_address(tile) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 46 |
           2ull << 61;
}

// An instruction descriptor for tcgen05.mma.kind::f16, 9.7.16.4.2: D (m, n) of f32, A and B of
// bf16, all K-major. sm_100a.
__host__ __device__ constexpr unsigned tcgen05_bf16_f32(int m, int n) {
    return 1 << 4 | 1 << 7 | 1 << 10 | n / 8 << 17 | m / 16 << 24;
}

// tcgen05.mma.kind::f16, 9.7.16.10.9.1: d += a · b, or with `accumulate` false d = a · b. One
// thread issues it for the whole block, or pair; a and b are matrix descriptors, d an address in
// tensor memory, `instruction` says shape and types. Of a pair each block holds half of the rows of
// a, of b and of d, at the same addresses. Committed, it tells when it is done. sm_100a.
template <int GROUP = 1>
__device__ inline void tcgen05_mma_f16(unsigned d, unsigned long long a, unsigned long long b,
                                       unsigned instruction, bool accumulate) {
    if constexpr (GROUP == 1)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                     "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                     :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(int(accumulate))
                     : "memory");
    else
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0;\n"
                     "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, p; }"
                     :: "r"(d), "l"(a), "l"(b), "r"(instruction), "r"(int(accumulate))
                     : "memory");
}

// tcgen05.commit, 9.7.16.12.1: the barrier gets one arrival when all that this thread has issued
// so far is done. sm_100a.
__device__ inline void tcgen05_commit(unsigned long long* barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
                 :: "r"(shared_address(barrier)) : "memory");
}

// The same for a pair, with .multicast::cluster: the barrier at this address gets an arrival in
// each block of the cluster whose bit is set in the mask. sm_100a.
__device__ inline void tcgen05_commit_multicast(unsigned long long* barrier, unsigned short mask) {
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
                 ".multicast::cluster.b64 [%0], %1;"
                 :: "r"(shared_address(barrier)), "h"(mask) : "memory");
}

// cp.async.bulk.tensor.2d with .cta_group::2, 9.7.9.27.1.2: the box comes to this block, and the
// barrier at this address in the first block of the pair counts its bytes. sm_100a.
__device__ inline void cp_async_bulk_tensor_load_pair(void* shared, const CUtensorMap& map, int x,
                                                      int y, unsigned long long* barrier) {
    asm volatile("{ .reg .b32 first; mov.b32 first, %%cluster_ctarank; and.b32 first, first, -2;\n"
                 "mapa.shared::cluster.u32 first, %4, first;\n"
                 "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".cta_group::2 [%0], [%1, {%2, %3}], [first]; }"
                 :: "r"(shared_address(shared)), "l"(&map), "r"(x), "r"(y),
                    "r"(shared_address(barrier)) : "memory");
}

// tcgen05.fence::before_thread_sync, 9.7.16.11.1: what this thread has done in tensor memory comes
// before what follows the next barrier. sm_100a.
__device__ inline void tcgen05_fence_before_thread_sync() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

// tcgen05.fence::after_thread_sync, 9.7.16.11.1: what this thread does in tensor memory comes after
// what stood before the last barrier. sm_100a.
__device__ inline void tcgen05_fence_after_thread_sync() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

#endif

}  // namespace ptx
