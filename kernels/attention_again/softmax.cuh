// The softmax of a tile of scores, a thread a row: S is fetched from tensor memory in pieces, and P
// goes back to where S was. `s` and `o` are the tile's columns in the lanes of the thread's warp.
//
// A row keeps a reference, the maximum that its weights were divided by, and their sum. With
// weights 2^(scale · (score - reference)) any reference gives the same quotient.
#pragma once
#include "attention_again/tile.cuh"

constexpr float LOWEST = -1e30f;  // below every score, and finite: no infinity minus infinity

struct Row {
    float reference = LOWEST, sum = 0;
};

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

__device__ inline void fetch(unsigned (&r)[PIECE], unsigned address) {
    ptx::tcgen05_ld_32x32b_x32(r, address);
    ptx::tcgen05_wait_ld();
}

// Minus infinity for the keys of this tile that the row does not see, from number `seen` on.
__device__ inline void mask(unsigned s, int seen) {
#pragma unroll 1
    for (int first = 0; first < ROWS; first += PIECE) {
        unsigned r[PIECE];
        fetch(r, s + first);
        for (int j = 0; j < PIECE; ++j)
            if (first + j >= seen) r[j] = 0xff800000;
        ptx::tcgen05_st_32x32b_x32(s + first, r);
    }
    ptx::tcgen05_wait_st();
}

__device__ inline float largest(unsigned s) {
    float most = -INFINITY;
#pragma unroll 1
    for (int first = 0; first < ROWS; first += PIECE) {
        unsigned r[PIECE];
        fetch(r, s + first);
        for (int j = 0; j < PIECE; ++j) most = fmaxf(most, __uint_as_float(r[j]));
    }
    return most;
}

// Moves the row's reference to the largest score if that is more than `threshold`, in powers of
// two, above it. Returns the factor for what was summed up with the old reference: 1 if it stays.
__device__ inline float follow(Row& row, float most, float scale, float threshold) {
    const float moved = (most - row.reference) * scale;
    if (moved <= threshold) return 1;
    row.reference = most;
    return exp2f(-moved);
}

// 2^f for |f| ≤ ½: the polynomial of degree 3 with the least relative error, by Remez's exchange
// (phasebit/chapters/attention_again/polynomial.py).
constexpr float C0 = 0.99992806f, C1 = 0.69326097f, C2 = 0.24261113f, C3 = 0.05517167f;

// 2^x for x ≤ 127 on the FMA units: x = n + f with |f| ≤ ½, by adding and subtracting a number
// whose last bit is worth 1; 2^f by a polynomial whose relative error is below 2⁻¹³; n is added to
// the exponent. No less than about 2⁻¹²⁶.
__device__ inline float exp2_polynomial(float x) {
    x = fmaxf(x, -126);
    const float whole = x + 12582912.f;  // 1.5 · 2²³
    const float f = x - (whole - 12582912.f);
    float p = fmaf(C3, f, C2);
    p = fmaf(p, f, C1);
    p = fmaf(p, f, C0);
    return __uint_as_float(__float_as_uint(p) + (__float_as_uint(whole) << 23));
}

// 2^x by the special function unit: ex2.approx.
__device__ inline float exp2_unit(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// P in place of S, and the sum of its weights. Of eight neighbouring keys, SHARE are left to the
// polynomial.
template <int SHARE> __device__ float weights(unsigned s, float scale, float reference) {
    float sum = 0;
    const float below = -reference * scale;
#pragma unroll 1
    for (int first = 0; first < ROWS; first += PIECE) {
        unsigned r[PIECE], p[PIECE / 2];
        fetch(r, s + first);
        for (int j = 0; j < PIECE; j += 2) {
            float w[2];
            for (int i = 0; i < 2; ++i) {
                const float x = fmaf(__uint_as_float(r[j + i]), scale, below);
                w[i] = (j + i) % 8 < SHARE ? exp2_polynomial(x) : exp2_unit(x);
            }
            sum += w[0] + w[1];
            const __nv_bfloat162 two = __floats2bfloat162_rn(w[0], w[1]);
            p[j / 2] = reinterpret_cast<const unsigned&>(two);
        }
        tcgen05_st_32x32b_x16(s + first / 2, p);  // over scores that this thread has fetched
    }
    ptx::tcgen05_wait_st();
    return sum;
}

// O times a factor for each row.
__device__ inline void rescale(unsigned o, float factor) {
#pragma unroll 1
    for (int first = 0; first < DEPTH; first += PIECE) {
        unsigned r[PIECE];
        fetch(r, o + first);
        for (int j = 0; j < PIECE; ++j) r[j] = __float_as_uint(__uint_as_float(r[j]) * factor);
        ptx::tcgen05_st_32x32b_x32(o + first, r);
    }
    ptx::tcgen05_wait_st();
}

// O over the sum of the row's weights, as bf16, to its row of a tile in shared memory: 16 bytes go
// to a place that the swizzle chooses. The largest weight is at least 1, so a row whose sum is not
// has seen no key; its result is 0.
__device__ inline void finish(Tile& out, int row, unsigned o, float sum) {
    const float factor = sum > 0.5f ? 1 / sum : 0;
#pragma unroll 1
    for (int first = 0; first < DEPTH; first += PIECE) {
        unsigned r[PIECE];
        fetch(r, o + first);
        for (int j = 0; j < PIECE; j += 8) {
            uint4 eight;
            for (int i = 0; i < 4; ++i) {
                const __nv_bfloat162 two =
                    __floats2bfloat162_rn(__uint_as_float(r[j + 2 * i]) * factor,
                                          __uint_as_float(r[j + 2 * i + 1]) * factor);
                (&eight.x)[i] = reinterpret_cast<const unsigned&>(two);
            }
            const int col = first + j;
            Element* line = out.box[col / BOX][row];
            reinterpret_cast<uint4*>(line)[col % BOX / 8 ^ row % 8] = eight;
        }
    }
    ptx::fence_proxy_async_shared();  // the copy engine sees it
}

#endif
