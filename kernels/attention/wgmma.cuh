// The two products of attention as wgmma instructions, and what goes with them. One instruction a
// function, as in ptx_sm90.cuh; a function is chosen by the number of sums that a thread holds.
#pragma once
#include "ptx_sm90.cuh"
#include "wgmma_lists.cuh"

namespace ptx {

// wgmma.mma_async, 9.7.15.5.2: begin d (64, n) = a (64, 16) · b (16, n) + d, or without + d where
// `add` is false; bf16 into f32, a and b K-major in shared memory. Thread t of the warp group
// holds in d[i] row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2), column 8(i / 4) + 2(t % 4) + i % 2.
// sm_90a.
#define WGMMA(N, EIGHTS, A, B, ADD)                                                            \
    __device__ inline void wgmma(float (&d)[N / 2], unsigned long long a,                      \
                                 unsigned long long b, bool add) {                             \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                            \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {"              \
                     WGMMA_NAMES_##EIGHTS "}, " A ", " B ", p, 1, 1, 0, 0; }"                  \
                     : WGMMA_SUMS_##EIGHTS : "l"(a), "l"(b), "r"(int(add)));                   \
    }
WGMMA(64, 4, "%32", "%33", "%34")
WGMMA(96, 6, "%48", "%49", "%50")
WGMMA(128, 8, "%64", "%65", "%66")
WGMMA(144, 9, "%72", "%73", "%74")
WGMMA(160, 10, "%80", "%81", "%82")
WGMMA(176, 11, "%88", "%89", "%90")
WGMMA(192, 12, "%96", "%97", "%98")
#undef WGMMA

// The same, always with + d; a is in registers: thread t of the warp group holds in a[i] of row
// 16(t / 32) + t % 32 / 4 + 8(i % 2) the columns 8(i / 2) + 2(t % 4) and the one after it. b lies
// in shared memory with its columns together, "N-major" (the last 1). sm_90a.
__device__ inline void wgmma(float (&d)[32], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 WGMMA_NAMES_4
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1; }"
                 : WGMMA_SUMS_4
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma(float (&d)[64], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 WGMMA_NAMES_8
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1; }"
                 : WGMMA_SUMS_8
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// A descriptor of an N-major tile for wgmma, 9.7.15.5.1.2.2: panels of 64 columns, rows of 128
// bytes that are swizzled in groups of eight. Panels lie `panel` bytes apart (the leading offset), groups
// of eight rows 1024 (the stride). 16 rows along K are 128 more in the descriptor. sm_90a.
__device__ inline unsigned long long descriptor_n_major(const void* tile, unsigned panel) {
    return (shared_address(tile) & 0x3ffff) >> 4 | (unsigned long long)(panel >> 4) << 16
           | 64ull << 32 | 1ull << 62;
}

// cp.async.bulk.tensor.3d, 9.7.9.27.1.2: the box of a tensor at column x, row y and layer z to
// shared memory; the barrier counts the bytes of the whole box. What lies outside is zero. sm_90.
__device__ inline void cp_async_bulk_tensor_load(void* shared, const CUtensorMap& map, int x, int y,
                                                 int z, unsigned long long* barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];"
                 :: "r"(shared_address(shared)), "l"(&map), "r"(x), "r"(y), "r"(z),
                    "r"(shared_address(barrier)) : "memory");
}

// barrier.cta.sync, 9.7.13.1: wait at named barrier `name` until `count` threads have come. sm_30.
__device__ inline void bar_sync(int name, int count) {
    asm volatile("barrier.cta.sync.aligned %0, %1;" :: "r"(name), "r"(count) : "memory");
}

// barrier.cta.arrive, 9.7.13.1: be counted at named barrier `name`, and go on. sm_30.
__device__ inline void bar_arrive(int name, int count) {
    asm volatile("barrier.cta.arrive.aligned %0, %1;" :: "r"(name), "r"(count) : "memory");
}

// ex2.approx, 9.7.3.22: 2 to the power of x, with a relative error below 2⁻²²; 0 for -∞. sm_50.
__device__ inline float ex2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

}  // namespace ptx
