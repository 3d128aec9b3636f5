// The two products of attention as wgmma instructions, and what goes with them. One instruction a
// function, as in ptx_sm90.cuh; a function is chosen by the number of sums that a thread holds.
#pragma once
#include "ptx_sm90.cuh"

// Lists for assembler statements: the names of eight registers from %FIRST on, and eight sums.
#define NAMES(a, b, c, d, e, f, g, h) \
    "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h
#define NAMES_0_31 NAMES(0, 1, 2, 3, 4, 5, 6, 7) ", " NAMES(8, 9, 10, 11, 12, 13, 14, 15) ", " \
    NAMES(16, 17, 18, 19, 20, 21, 22, 23) ", " NAMES(24, 25, 26, 27, 28, 29, 30, 31)
#define NAMES_32_63 NAMES(32, 33, 34, 35, 36, 37, 38, 39) ", " \
    NAMES(40, 41, 42, 43, 44, 45, 46, 47) ", " NAMES(48, 49, 50, 51, 52, 53, 54, 55) ", " \
    NAMES(56, 57, 58, 59, 60, 61, 62, 63)
#define SUMS(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), \
    "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define SUMS_32(i) SUMS(i), SUMS(i + 8), SUMS(i + 16), SUMS(i + 24)

namespace ptx {

// wgmma.mma_async, 9.7.15.5.2: begin d (64, n) = a (64, 16) · b (16, n) + d, or without + d where
// `add` is false; bf16 into f32, a and b K-major in shared memory. Thread t of the warp group
// holds in d[i] row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2), column 8(i / 4) + 2(t % 4) + i % 2.
// sm_90a.
__device__ inline void wgmma(float (&d)[32], unsigned long long a, unsigned long long b,
                             bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 NAMES_0_31
                 "}, %32, %33, p, 1, 1, 0, 0; }"
                 : SUMS_32(0)
                 : "l"(a), "l"(b), "r"(int(add)));
}
__device__ inline void wgmma(float (&d)[48], unsigned long long a, unsigned long long b,
                             bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %50, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
                 NAMES_0_31 ", " NAMES(32, 33, 34, 35, 36, 37, 38, 39) ", " NAMES(40, 41, 42, 43,
                 44, 45, 46, 47)
                 "}, %48, %49, p, 1, 1, 0, 0; }"
                 : SUMS_32(0), SUMS(32), SUMS(40)
                 : "l"(a), "l"(b), "r"(int(add)));
}
__device__ inline void wgmma(float (&d)[64], unsigned long long a, unsigned long long b,
                             bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 NAMES_0_31 ", " NAMES_32_63
                 "}, %64, %65, p, 1, 1, 0, 0; }"
                 : SUMS_32(0), SUMS_32(32)
                 : "l"(a), "l"(b), "r"(int(add)));
}
__device__ inline void wgmma(float (&d)[72], unsigned long long a, unsigned long long b,
                             bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %74, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n144k16.f32.bf16.bf16 {"
                 NAMES_0_31 ", " NAMES_32_63 ", " NAMES(64, 65, 66, 67, 68, 69, 70, 71)
                 "}, %72, %73, p, 1, 1, 0, 0; }"
                 : SUMS_32(0), SUMS_32(32), SUMS(64)
                 : "l"(a), "l"(b), "r"(int(add)));
}
__device__ inline void wgmma(float (&d)[80], unsigned long long a, unsigned long long b,
                             bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %82, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 {"
                 NAMES_0_31 ", " NAMES_32_63 ", " NAMES(64, 65, 66, 67, 68, 69, 70, 71) ", "
                 NAMES(72, 73, 74, 75, 76, 77, 78, 79)
                 "}, %80, %81, p, 1, 1, 0, 0; }"
                 : SUMS_32(0), SUMS_32(32), SUMS(64), SUMS(72)
                 : "l"(a), "l"(b), "r"(int(add)));
}
__device__ inline void wgmma(float (&d)[88], unsigned long long a, unsigned long long b,
                             bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %90, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n176k16.f32.bf16.bf16 {"
                 NAMES_0_31 ", " NAMES_32_63 ", " NAMES(64, 65, 66, 67, 68, 69, 70, 71) ", "
                 NAMES(72, 73, 74, 75, 76, 77, 78, 79) ", " NAMES(80, 81, 82, 83, 84, 85, 86, 87)
                 "}, %88, %89, p, 1, 1, 0, 0; }"
                 : SUMS_32(0), SUMS_32(32), SUMS(64), SUMS(72), SUMS(80)
                 : "l"(a), "l"(b), "r"(int(add)));
}
__device__ inline void wgmma(float (&d)[96], unsigned long long a, unsigned long long b,
                             bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %98, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
                 NAMES_0_31 ", " NAMES_32_63 ", " NAMES(64, 65, 66, 67, 68, 69, 70, 71) ", "
                 NAMES(72, 73, 74, 75, 76, 77, 78, 79) ", " NAMES(80, 81, 82, 83, 84, 85, 86, 87)
                 ", " NAMES(88, 89, 90, 91, 92, 93, 94, 95)
                 "}, %96, %97, p, 1, 1, 0, 0; }"
                 : SUMS_32(0), SUMS_32(32), SUMS_32(64)
                 : "l"(a), "l"(b), "r"(int(add)));
}

// The same, always with + d; a is in registers: thread t of the warp group holds in a[i] of row
// 16(t / 32) + t % 32 / 4 + 8(i % 2) the columns 8(i / 2) + 2(t % 4) and the one after it. b lies
// in shared memory with its columns together, "N-major" (the last 1). sm_90a.
__device__ inline void wgmma(float (&d)[32], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                 NAMES_0_31
                 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1; }"
                 : SUMS_32(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void wgmma(float (&d)[64], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("{ .reg .pred p; setp.eq.b32 p, 0, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 NAMES_0_31 ", " NAMES_32_63
                 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1; }"
                 : SUMS_32(0), SUMS_32(32)
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
#undef NAMES
#undef NAMES_0_31
#undef NAMES_32_63
#undef SUMS
#undef SUMS_32
