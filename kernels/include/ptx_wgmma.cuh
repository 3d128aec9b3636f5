// wgmma.mma_async of every width that the book asks for, 9.7.15.5.2: bf16 into f32, with what
// ptx_sm90.cuh leaves out: majors, negation, and A from registers. One instruction a function.
//
//     ptx::wgmma<NEGATE_A, MAJOR_A, MAJOR_B>(d, a, b, add)      d: float[N / 2], N = 8 … 256
//     ptx::wgmma_a<NEGATE_A, MAJOR_B>(d, a0, a1, a2, a3, b, add)
//
// They begin d (64, N) = ±a (64, 16) · b (16, N) + d, or without + d where `add` is 0. NEGATE_A is 1
// or -1. A MAJOR is 0 where neighbours along k are neighbours in shared memory (K-major), else 1.
// Thread t of the warp group holds in d[i] row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2) and column
// 8(i / 4) + 2(t % 4) + i % 2; of A in registers, in the two halves of a[i], row 16(t / 32) +
// t % 32 / 4 + 8(i % 2) and columns 8(i / 2) + 2(t % 4) and the next. sm_90a.
#pragma once
#include "ptx_sm90.cuh"

namespace ptx {

// The operands: %0 a descriptor of A or, in wgmma_a, %0 to %3 its registers; then B's descriptor;
// then `add`; then the sums. They are all "+", so that a number does not depend on how many sums.
#define PTX_D4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define PTX_D8(d, i) PTX_D4(d, i), PTX_D4(d, i + 4)
#define PTX_D16(d, i) PTX_D8(d, i), PTX_D8(d, i + 8)
#define PTX_D32(d, i) PTX_D16(d, i), PTX_D16(d, i + 16)
#define PTX_D64(d, i) PTX_D32(d, i), PTX_D32(d, i + 32)
#define PTX_D128(d, i) PTX_D64(d, i), PTX_D64(d, i + 64)

#define PTX_S4 "%3, %4, %5, %6"
#define PTX_S8 PTX_S4 ", %7, %8, %9, %10"
#define PTX_S16 PTX_S8 ", %11, %12, %13, %14, %15, %16, %17, %18"
#define PTX_S32 PTX_S16 \
    ", %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33" \
    ", %34"
#define PTX_S64 PTX_S32 \
    ", %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49" \
    ", %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64" \
    ", %65, %66"
#define PTX_S128 PTX_S64 \
    ", %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81" \
    ", %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96" \
    ", %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109" \
    ", %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122" \
    ", %123, %124, %125, %126, %127, %128, %129, %130"
#define PTX_R4 "%6, %7, %8, %9"
#define PTX_R8 PTX_R4 ", %10, %11, %12, %13"
#define PTX_R16 PTX_R8 ", %14, %15, %16, %17, %18, %19, %20, %21"
#define PTX_R32 PTX_R16 \
    ", %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36" \
    ", %37"
#define PTX_R64 PTX_R32 \
    ", %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52" \
    ", %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67" \
    ", %68, %69"
#define PTX_R128 PTX_R64 \
    ", %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84" \
    ", %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99" \
    ", %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112" \
    ", %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125" \
    ", %126, %127, %128, %129, %130, %131, %132, %133"

// I and J: the operands behind the sums, where the constants begin.
#define PTX_WGMMA(N, SUMS, S, R, I0, I1, I2, J0, J1)                                               \
    template <int NEGATE_A = 1, int MAJOR_A = 0, int MAJOR_B = 0>                                  \
    __device__ inline void wgmma(float (&d)[SUMS], unsigned long long a, unsigned long long b,     \
                                 int add) {                                                        \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0;\n"                                     \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" S                \
                     "}, %0, %1, p, %" #I0 ", 1, %" #I1 ", %" #I2 "; }"                            \
                     : "+l"(a), "+l"(b), "+r"(add), PTX_D##SUMS(d, 0)                              \
                     : "n"(NEGATE_A), "n"(MAJOR_A), "n"(MAJOR_B));                                 \
    }                                                                                              \
    template <int NEGATE_A = 1, int MAJOR_B = 0>                                                   \
    __device__ inline void wgmma_a(float (&d)[SUMS], unsigned a0, unsigned a1, unsigned a2,        \
                                   unsigned a3, unsigned long long b, int add) {                   \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0;\n"                                     \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" R                \
                     "}, {%0, %1, %2, %3}, %4, p, %" #J0 ", 1, %" #J1 "; }"                        \
                     : "+r"(a0), "+r"(a1), "+r"(a2), "+r"(a3), "+l"(b), "+r"(add),                 \
                       PTX_D##SUMS(d, 0)                                                           \
                     : "n"(NEGATE_A), "n"(MAJOR_B));                                               \
    }

PTX_WGMMA(8, 4, PTX_S4, PTX_R4, 7, 8, 9, 10, 11)
PTX_WGMMA(16, 8, PTX_S8, PTX_R8, 11, 12, 13, 14, 15)
PTX_WGMMA(32, 16, PTX_S16, PTX_R16, 19, 20, 21, 22, 23)
PTX_WGMMA(64, 32, PTX_S32, PTX_R32, 35, 36, 37, 38, 39)
PTX_WGMMA(128, 64, PTX_S64, PTX_R64, 67, 68, 69, 70, 71)
PTX_WGMMA(256, 128, PTX_S128, PTX_R128, 131, 132, 133, 134, 135)

}  // namespace ptx
