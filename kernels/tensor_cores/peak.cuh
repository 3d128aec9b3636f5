// How fast can mma.sync go when nothing has to be fetched? Each warp multiplies fragments that it
// holds, again and again, into sums that do not wait for each other.
#pragma once
#include "ptx.cuh"

constexpr int PEAK_THREADS = 256, PEAK_SUMS = 16;
constexpr double PEAK_FLOP = 2.0 * 16 * 8 * 16 * PEAK_SUMS;  // of a warp in a round

template <class In>
__global__ void __launch_bounds__(PEAK_THREADS) peak(int rounds, unsigned seed, float* sink) {
    // Bit patterns of ordinary numbers between 1 and 2, different in each lane.
    const unsigned bits = 0x3f803f80u | (threadIdx.x * seed & 0x007f007fu);
    const unsigned a[4] = {bits, bits ^ 1, bits ^ 2, bits ^ 3}, b[2] = {bits ^ 4, bits ^ 5};
    float sums[PEAK_SUMS][4] = {};
    for (int i = 0; i < rounds; ++i)
#pragma unroll
        for (auto& sum : sums) ptx::mma_16x8x16(sum, a, b, In());
    float all = 0;
    for (auto& sum : sums) all += sum[0] + sum[1] + sum[2] + sum[3];
    if (all < 0) *sink = all;  // never, but the compiler cannot know
}
