// wgmma of any width that is a multiple of 16: d (64, N) = a (64, 16) · b (16, N) + d.
//
// PTX writes each register of the sums by name, so every width is an instruction of its own;
// wgmma<N> below is what the kernels use.
#pragma once
#include "ptx_sm90.cuh"
#include "wgmma_lists.cuh"

namespace ptx {

// wgmma.mma_async, 9.7.15.5.2: begin d = a · b + d, or without + d where `add` is false; bf16 into
// f32, a and b K-major in shared memory. Thread t of the warp group holds in d[i] row
// 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2) and column 8(i / 4) + 2(t % 4) + i % 2. sm_90a.
template <int N> struct Wgmma;
#define WGMMA(N, EIGHTS, A, B, ADD)                                                            \
    template <> struct Wgmma<N> {                                                              \
        __device__ static void begin(float (&d)[N / 2], unsigned long long a,                  \
                                     unsigned long long b, bool add) {                         \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                        \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {"          \
                         WGMMA_NAMES_##EIGHTS "}, " A ", " B ", p, 1, 1, 0, 0; }"              \
                         : WGMMA_SUMS_##EIGHTS : "l"(a), "l"(b), "r"(int(add)));               \
        }                                                                                      \
    };
WGMMA(16, 1, "%8", "%9", "%10")
WGMMA(32, 2, "%16", "%17", "%18")
WGMMA(48, 3, "%24", "%25", "%26")
WGMMA(64, 4, "%32", "%33", "%34")
WGMMA(80, 5, "%40", "%41", "%42")
WGMMA(96, 6, "%48", "%49", "%50")
WGMMA(112, 7, "%56", "%57", "%58")
WGMMA(128, 8, "%64", "%65", "%66")
WGMMA(144, 9, "%72", "%73", "%74")
WGMMA(160, 10, "%80", "%81", "%82")
WGMMA(176, 11, "%88", "%89", "%90")
WGMMA(192, 12, "%96", "%97", "%98")
WGMMA(208, 13, "%104", "%105", "%106")
WGMMA(224, 14, "%112", "%113", "%114")
WGMMA(240, 15, "%120", "%121", "%122")
WGMMA(256, 16, "%128", "%129", "%130")

template <int N>
__device__ inline void wgmma(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                             bool add) {
    Wgmma<N>::begin(d, a, b, add);
}

}  // namespace ptx
