// wgmma of any width that is a multiple of 16: d (64, N) = a (64, 16) · b (16, N) + d.
//
// PTX writes each register of the sums by name, so every width is an instruction of its own. The
// macros spell them; wgmma<N> below is what the kernels use.
#pragma once
#include "ptx_sm90.cuh"

namespace ptx {

#define WGMMA_EIGHT(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
                       "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_NAMES_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_NAMES_2 WGMMA_NAMES_1 ", " "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_3 WGMMA_NAMES_2 ", " "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_4 WGMMA_NAMES_3 ", " "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_5 WGMMA_NAMES_4 ", " "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_6 WGMMA_NAMES_5 ", " "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_7 WGMMA_NAMES_6 ", " "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_8 WGMMA_NAMES_7 ", " "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_9 WGMMA_NAMES_8 ", " "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NAMES_10 WGMMA_NAMES_9 ", " "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_11 WGMMA_NAMES_10 ", " "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NAMES_12 WGMMA_NAMES_11 ", " "%88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_13 WGMMA_NAMES_12 ", " "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NAMES_14 WGMMA_NAMES_13 ", " "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_15 WGMMA_NAMES_14 ", " "%112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NAMES_16 WGMMA_NAMES_15 ", " "%120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_SUMS_1 WGMMA_EIGHT(0)
#define WGMMA_SUMS_2 WGMMA_SUMS_1, WGMMA_EIGHT(8)
#define WGMMA_SUMS_3 WGMMA_SUMS_2, WGMMA_EIGHT(16)
#define WGMMA_SUMS_4 WGMMA_SUMS_3, WGMMA_EIGHT(24)
#define WGMMA_SUMS_5 WGMMA_SUMS_4, WGMMA_EIGHT(32)
#define WGMMA_SUMS_6 WGMMA_SUMS_5, WGMMA_EIGHT(40)
#define WGMMA_SUMS_7 WGMMA_SUMS_6, WGMMA_EIGHT(48)
#define WGMMA_SUMS_8 WGMMA_SUMS_7, WGMMA_EIGHT(56)
#define WGMMA_SUMS_9 WGMMA_SUMS_8, WGMMA_EIGHT(64)
#define WGMMA_SUMS_10 WGMMA_SUMS_9, WGMMA_EIGHT(72)
#define WGMMA_SUMS_11 WGMMA_SUMS_10, WGMMA_EIGHT(80)
#define WGMMA_SUMS_12 WGMMA_SUMS_11, WGMMA_EIGHT(88)
#define WGMMA_SUMS_13 WGMMA_SUMS_12, WGMMA_EIGHT(96)
#define WGMMA_SUMS_14 WGMMA_SUMS_13, WGMMA_EIGHT(104)
#define WGMMA_SUMS_15 WGMMA_SUMS_14, WGMMA_EIGHT(112)
#define WGMMA_SUMS_16 WGMMA_SUMS_15, WGMMA_EIGHT(120)

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
