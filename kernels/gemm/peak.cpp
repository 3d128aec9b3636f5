// How many multiply-adds one core does when all its numbers are in registers.
#include "gemm/panels.h"

#ifndef SUMS  // enough to fill two units 4 to 6 cycles deep
#define SUMS (kWidth == 16 ? 24 : 12)
#endif

// Does `steps` times SUMS vector multiply-adds, each on a sum of its own; returns how many
// floating-point operations that were. With sums that differ from the start, and a result in
// to (kWidth), the compiler can leave none of them out. No sum may go to 0: on its way it would be
// denormal, and a processor may take a hundred cycles for such a number.
extern "C" int64_t multiply_adds(int64_t steps, float* to) {
    Vector sum[SUMS], half, small;
    for (int i = 0; i < kWidth; i++) half[i] = 0.5f, small[i] = float(i + 1);
    for (int i = 0; i < SUMS; i++) sum[i] = float(i) + small;
    for (int64_t step = 0; step < steps; step++) {
#pragma GCC unroll 32
        for (int i = 0; i < SUMS; i++) sum[i] = sum[i] * half + small;
    }
    for (int i = 1; i < SUMS; i++) sum[0] += sum[i];
    *(Vector*)to = sum[0];
    return 2 * steps * SUMS * kWidth;
}
