// Two f32 in one register of 64 bits, for instructions that take two at a time. sm_100.
#pragma once

#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM100_ALL)

using Pair = unsigned long long;

__device__ inline Pair pair(unsigned low, unsigned high) {
    Pair both;
    asm("mov.b64 %0, {%1, %2};" : "=l"(both) : "r"(low), "r"(high));
    return both;
}

__device__ inline Pair pair(float x) { return pair(__float_as_uint(x), __float_as_uint(x)); }

__device__ inline uint2 parts(Pair both) {
    uint2 two;
    asm("mov.b64 {%0, %1}, %2;" : "=r"(two.x), "=r"(two.y) : "l"(both));
    return two;
}

// add.rn.f32x2, 9.7.3.6: two sums. sm_100.
__device__ inline Pair add2(Pair a, Pair b) {
    Pair sum;
    asm("add.rn.f32x2 %0, %1, %2;" : "=l"(sum) : "l"(a), "l"(b));
    return sum;
}

// fma.rn.f32x2, 9.7.3.9: a · b + c, twice. sm_100.
__device__ inline Pair fma2(Pair a, Pair b, Pair c) {
    Pair sum;
    asm("fma.rn.f32x2 %0, %1, %2, %3;" : "=l"(sum) : "l"(a), "l"(b), "l"(c));
    return sum;
}

// max.f32 of three, 9.7.3.14; numbers as their bits, like all that follow. sm_100.
__device__ inline unsigned max3(unsigned a, unsigned b, unsigned c) {
    unsigned most;
    asm("max.f32 %0, %1, %2, %3;" : "=r"(most) : "r"(a), "r"(b), "r"(c));
    return most;
}

// max.f32, 9.7.3.14.
__device__ inline unsigned at_least(unsigned x, float least) {
    unsigned most;
    asm("max.f32 %0, %1, %2;" : "=r"(most) : "r"(x), "f"(least));
    return most;
}

// ex2.approx.ftz.f32, 9.7.3.21: 2^x.
__device__ inline unsigned exp2_bits(unsigned x) {
    unsigned y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=r"(y) : "r"(x));
    return y;
}

// cvt.rn.bf16x2.f32, 9.7.9.22: two numbers rounded, the first into the lower half.
__device__ inline unsigned bf16_pair(uint2 two) {
    unsigned rounded;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(rounded) : "r"(two.y), "r"(two.x));
    return rounded;
}

#endif
