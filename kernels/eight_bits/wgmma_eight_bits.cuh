// The multiplications of warp groups on numbers of eight bits, as ptx_sm90.cuh has those of bf16.
#pragma once
#include "ptx_sm90.cuh"
#include "wgmma_lists.cuh"

// The formats of A and B, e4m3 or e5m2, one of each if need be: who wants another than e4m3 says so
// before this.
#ifndef A_FORMAT
#define A_FORMAT e4m3
#endif
#ifndef B_FORMAT
#define B_FORMAT e4m3
#endif
#define WGMMA_QUOTED(A, B) "." #A "." #B
#define WGMMA_FORMATS(A, B) WGMMA_QUOTED(A, B)

namespace ptx {

// wgmma.mma_async, 9.7.15.5.2: begin d (64, N) = a (64, 32) · b (32, N) + d, or without + d where
// `add` is false; eight bits into f32, a and b K-major: they can be nothing else. Thread t of the
// warp group holds in d[i] row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2) and column
// 8(i / 4) + 2(t % 4) + i % 2. A, B and ADD are the operands behind the sums. sm_90a.
#define WGMMA_EIGHT_BITS(N, EIGHTS, A, B, ADD)                                                 \
    __device__ inline void wgmma_m64n##N##k32(float (&d)[N / 2], unsigned long long a,         \
                                              unsigned long long b, bool add) {                \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                            \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32"                          \
                     WGMMA_FORMATS(A_FORMAT, B_FORMAT) " {"                                    \
                     WGMMA_NAMES_##EIGHTS "}, " A ", " B ", p, 1, 1; }"                        \
                     : WGMMA_SUMS_##EIGHTS : "l"(a), "l"(b), "r"(int(add)));                   \
    }
WGMMA_EIGHT_BITS(96, 6, "%48", "%49", "%50")
WGMMA_EIGHT_BITS(128, 8, "%64", "%65", "%66")
WGMMA_EIGHT_BITS(256, 16, "%128", "%129", "%130")
#undef WGMMA_EIGHT_BITS

}  // namespace ptx
