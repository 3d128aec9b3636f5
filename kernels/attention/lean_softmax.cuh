// LeanSoftmax: the online softmax with fewer instructions for a tile of scores.
#pragma once
#include "attention/attention.cuh"
#include <climits>

// What is subtracted from a row's scores need not be their maximum: the quotient is the same for
// any number, and no exponential overflows as long as that is near the maximum. So `top` stays
// where it is until a score lies ROOM powers of two above it. Most tiles then need no exchange
// between lanes, no factor, and no rescaling.
struct LeanSoftmax : Softmax {
    static constexpr float ROOM = 8;
    float base[2];                      // top · factor; 0 for -∞, since -∞ − -∞ would be NaN
    int limit[2] = {INT_MIN, INT_MIN};  // the bits of top + ROOM / factor; INT_MIN where negative

    // Moves top where a score of the warp has reached the limit; what was summed under the old one
    // must then be multiplied by shrink[h]. Floats that are not negative are ordered as whole
    // numbers are, and of those an instruction takes the largest of three; a negative float is less
    // than all of them. INT_MIN is reached by every score. factor: scale · log₂ e, positive.
    template <int N>
    __device__ bool move(const float (&s)[N], float (&shrink)[2], float factor) {
        int bits[2][2] = {{INT_MIN, INT_MIN}, {INT_MIN, INT_MIN}};
#pragma unroll
        for (int i = 0; i < N; i += 2) {
            int& most = bits[i / 2 % 2][i / 4 % 2];
            most = __vimax3_s32(most, __float_as_int(s[i]), __float_as_int(s[i + 1]));
        }
        const bool reached = max(bits[0][0], bits[0][1]) >= limit[0]
                             || max(bits[1][0], bits[1][1]) >= limit[1];
        if (!__any_sync(~0u, reached)) return false;
        float high[2] = {top[0], top[1]};
#pragma unroll
        for (int i = 0; i < N; ++i) high[i / 2 % 2] = fmaxf(high[i / 2 % 2], s[i]);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float most = high[h];
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
            base[h] = most == -INFINITY ? 0 : most * factor;
            shrink[h] = ptx::ex2(top[h] * factor - base[h]);
            top[h] = most;
            sum[h] *= shrink[h];
            const float room = most + ROOM / factor;
            limit[h] = room >= 0 ? __float_as_int(room) : INT_MIN;
        }
        return true;
    }

    // s becomes 2^(factor · (s − top)).
    template <int N> __device__ void weigh(float (&s)[N], float factor) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            s[i] = ptx::ex2(s[i] * factor - base[i / 2 % 2]);
            sum[i / 2 % 2] += s[i];
        }
    }
};
