// The multiplications of warp groups on numbers of eight bits, as ptx_sm90.cuh has those of bf16.
#pragma once
#include "ptx_sm90.cuh"
#include "wgmma_lists.cuh"

namespace ptx {

// wgmma.mma_async, 9.7.15.5.2: begin d (64, N) = a (64, 32) · b (32, N) + d, or without + d where
// `add` is false; e4m3 into f32, a and b K-major: eight bits can be nothing else. Thread t of the
// warp group holds in d[i] row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2) and column
// 8(i / 4) + 2(t % 4) + i % 2. A, B and ADD are the operands behind the sums. sm_90a.
#define WGMMA_E4M3(N, EIGHTS, A, B, ADD)                                                       \
    __device__ inline void wgmma_m64n##N##k32_e4m3(float (&d)[N / 2], unsigned long long a,    \
                                                   unsigned long long b, bool add) {           \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                            \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {"              \
                     WGMMA_NAMES_##EIGHTS "}, " A ", " B ", p, 1, 1; }"                        \
                     : WGMMA_SUMS_##EIGHTS : "l"(a), "l"(b), "r"(int(add)));                   \
    }
WGMMA_E4M3(96, 6, "%48", "%49", "%50")
WGMMA_E4M3(128, 8, "%64", "%65", "%66")
WGMMA_E4M3(256, 16, "%128", "%129", "%130")
#undef WGMMA_E4M3

}  // namespace ptx
