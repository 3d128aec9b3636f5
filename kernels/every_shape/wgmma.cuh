// wgmma of any width that is a multiple of 16: d (64, N) = a (64, 16) · b (16, N) + d.
//
// PTX writes each register of the sums by name, so every width is an instruction of its own;
// wgmma<N> below is what the kernels use.
#pragma once
#include "ptx_sm90.cuh"
#include "wgmma_lists.cuh"

namespace ptx {

// wgmma.mma_async, 9.7.15.5.2: begin d = a · b + d, or without + d where `add` is false; bf16 into
// f32, a and b in shared memory. A MAJOR is 0 where neighbours along K are neighbours there, or 1.
// Thread t of the warp group holds in d[i] row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2) and column
// 8(i / 4) + 2(t % 4) + i % 2. sm_90a.
template <int N> struct Wgmma;
#define WGMMA(N, EIGHTS, A, B, ADD, OF_A, OF_B)                                                \
    template <> struct Wgmma<N> {                                                              \
        template <int MAJOR_A, int MAJOR_B>                                                    \
        __device__ static void begin(float (&d)[N / 2], unsigned long long a,                  \
                                     unsigned long long b, bool add) {                         \
            asm volatile("{ .reg .pred p; setp.ne.b32 p, " ADD ", 0;\n"                        \
                         "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {"          \
                         WGMMA_NAMES_##EIGHTS "}, " A ", " B ", p, 1, 1, " OF_A ", " OF_B "; }"\
                         : WGMMA_SUMS_##EIGHTS : "l"(a), "l"(b), "r"(int(add)),                \
                           "n"(MAJOR_A), "n"(MAJOR_B));                                        \
        }                                                                                      \
    };
WGMMA(16, 1, "%8", "%9", "%10", "%11", "%12")
WGMMA(32, 2, "%16", "%17", "%18", "%19", "%20")
WGMMA(48, 3, "%24", "%25", "%26", "%27", "%28")
WGMMA(64, 4, "%32", "%33", "%34", "%35", "%36")
WGMMA(80, 5, "%40", "%41", "%42", "%43", "%44")
WGMMA(96, 6, "%48", "%49", "%50", "%51", "%52")
WGMMA(112, 7, "%56", "%57", "%58", "%59", "%60")
WGMMA(128, 8, "%64", "%65", "%66", "%67", "%68")
WGMMA(144, 9, "%72", "%73", "%74", "%75", "%76")
WGMMA(160, 10, "%80", "%81", "%82", "%83", "%84")
WGMMA(176, 11, "%88", "%89", "%90", "%91", "%92")
WGMMA(192, 12, "%96", "%97", "%98", "%99", "%100")
WGMMA(208, 13, "%104", "%105", "%106", "%107", "%108")
WGMMA(224, 14, "%112", "%113", "%114", "%115", "%116")
WGMMA(240, 15, "%120", "%121", "%122", "%123", "%124")
WGMMA(256, 16, "%128", "%129", "%130", "%131", "%132")

template <int N, int MAJOR_A = 0, int MAJOR_B = 0>
__device__ inline void wgmma(float (&d)[N / 2], unsigned long long a, unsigned long long b,
                             bool add) {
    Wgmma<N>::template begin<MAJOR_A, MAJOR_B>(d, a, b, add);
}

// A descriptor of a tile whose lines run along M or N, 9.7.15.5.1.2.2: 64 numbers a line, a line
// for each k, swizzled in groups of eight lines that lie 1024 bytes apart. 64 lines are a box, and
// the next 64 numbers are in the next. 16 lines along K are 128 more in the descriptor. sm_90a.
__device__ inline unsigned long long descriptor_across(const void* tile) {
    return (shared_address(tile) & 0x3ffff) >> 4 | 512ull << 16 | 64ull << 32 | 1ull << 62;
}

}  // namespace ptx
