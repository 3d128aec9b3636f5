// Pieces of C, on their way out through shared memory.
#pragma once
#include "c_type.cuh"
#include <cuda.h>

constexpr int PIECE = 32;  // columns of C that leave at a time: 128 bytes, 64 of bf16
constexpr int PARTS = PIECE * sizeof(Out) / 16;  // of 16 bytes, in a row of a piece
constexpr auto C_SWIZZLE =
    PARTS == 8 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B;

namespace ptx {

// bar.sync, 9.7.13.1: wait at named barrier `name` until `count` threads have come. sm_30.
__device__ inline void bar_sync(int name, int count) {
    asm volatile("bar.sync %0, %1;" :: "r"(name), "r"(count) : "memory");
}

}  // namespace ptx

// Part p of a row of a piece, from the row's sums.
__device__ inline uint4 part(const unsigned (&r)[PIECE], int p) {
    if constexpr (PARTS == 8) {
        return make_uint4(r[4 * p], r[4 * p + 1], r[4 * p + 2], r[4 * p + 3]);
    } else {
        unsigned two[4];
        for (int i = 0; i < 4; ++i) {
            const __nv_bfloat162 rounded =
                __floats2bfloat162_rn(__uint_as_float(r[8 * p + 2 * i]),
                                      __uint_as_float(r[8 * p + 2 * i + 1]));
            two[i] = reinterpret_cast<const unsigned&>(rounded);
        }
        return make_uint4(two[0], two[1], two[2], two[3]);
    }
}
