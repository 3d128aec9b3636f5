// Epilogues: what is done to a product's sums while they are in registers. Each step is a struct
// whose `apply` takes two neighbours in a row of the result, f32, and their place; a chain applies
// its steps from left to right. What the steps read is in Given.
#pragma once
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

struct Given {
    int M, N;               // the result's rows and columns; N is even
    const float* bias;      // (N): one number a column
    const float* row_scale; // (M): one number a row
    const bf16* residual;   // (M, N), may be where the result goes
    unsigned* amax;         // bits of the largest magnitude; 0 before the launch
    float alpha, beta;
    unsigned seen = 0;      // of amax, this thread's part
};

// Twice the same function, for two neighbours.
template <class F> __device__ inline float2 both(float2 x, F f) { return {f(x.x), f(x.y)}; }

struct Alpha {
    static __device__ float2 apply(float2 x, int, int, Given& g) {
        return {g.alpha * x.x, g.alpha * x.y};
    }
};
struct RowScale {
    static __device__ float2 apply(float2 x, int row, int, Given& g) {
        const float scale = g.row_scale[row];
        return {scale * x.x, scale * x.y};
    }
};
struct Bias {
    static __device__ float2 apply(float2 x, int, int col, Given& g) {
        const float2 bias = *reinterpret_cast<const float2*>(g.bias + col);
        return {x.x + bias.x, x.y + bias.y};
    }
};
struct Gelu {
    static __device__ float2 apply(float2 x, int, int, Given&) {
        return both(x, [](float v) { return 0.5f * v * (1 + erff(v * 0.70710678f)); });
    }
};
struct Silu {
    static __device__ float2 apply(float2 x, int, int, Given&) {
        return both(x, [](float v) { return v / (1 + __expf(-v)); });
    }
};
// + beta · residual. Where beta is 0 it is not read: what stands there may be a NaN.
struct Residual {
    static __device__ float2 apply(float2 x, int row, int col, Given& g) {
        if (g.beta == 0) return x;
        const auto old = *reinterpret_cast<const __nv_bfloat162*>(
            g.residual + size_t(row) * g.N + col);
        return {x.x + g.beta * __low2float(old), x.y + g.beta * __high2float(old)};
    }
};
// The largest magnitude, before it is rounded. Magnitudes of floats are in the order of their bits,
// an infinity above all numbers and a NaN above that: one NaN makes amax a NaN.
struct Amax {
    static __device__ float2 apply(float2 x, int, int, Given& g) {
        g.seen = max(g.seen, max(__float_as_uint(fabsf(x.x)), __float_as_uint(fabsf(x.y))));
        return x;
    }
};

template <class... Steps> struct Chain {
    static __device__ float2 apply(float2 x, int row, int col, Given& g) {
        ((x = Steps::apply(x, row, col, g)), ...);
        return x;
    }
};

// A warp has done with its tiles: its part of amax goes to memory.
__device__ inline void finish(const Given& g) {
    const unsigned most = __reduce_max_sync(~0u, g.seen);
    if (most > 0 && threadIdx.x % 32 == 0) atomicMax(g.amax, most);
}
