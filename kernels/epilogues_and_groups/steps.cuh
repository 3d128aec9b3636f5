// Epilogues: what is done to a product's sums while they are in registers. Each step is a struct
// whose `apply` takes two neighbours in a row of the result, f32, and their place; a chain applies
// its steps from left to right. What the steps read they ask of Given, or of what a kernel has in
// its place.
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

    // Each is read from memory, when a step asks.
    __device__ float scale_of(int row) const { return row_scale[row]; }
    __device__ float2 bias_of(int col) const {
        return *reinterpret_cast<const float2*>(bias + col);
    }
    __device__ void see(unsigned magnitude) { seen = max(seen, magnitude); }
    // Where beta is 0 it is not read: what stands there may be a NaN.
    __device__ float2 residual_of(int row, int col) const {
        if (beta == 0) return {};
        return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(
            residual + size_t(row) * N + col));
    }
};

// Twice the same function, for two neighbours.
template <class F> __device__ inline float2 both(float2 x, F f) { return {f(x.x), f(x.y)}; }

struct Alpha {
    template <class G> static __device__ float2 apply(float2 x, int, int, G& g) {
        return {g.alpha * x.x, g.alpha * x.y};
    }
};
struct RowScale {
    template <class G> static __device__ float2 apply(float2 x, int row, int, G& g) {
        const float scale = g.scale_of(row);
        return {scale * x.x, scale * x.y};
    }
};
struct Bias {
    template <class G> static __device__ float2 apply(float2 x, int, int col, G& g) {
        const float2 bias = g.bias_of(col);
        return {x.x + bias.x, x.y + bias.y};
    }
};
struct Gelu {
    template <class G> static __device__ float2 apply(float2 x, int, int, G&) {
        return both(x, [](float v) { return 0.5f * v * (1 + erff(v * 0.70710678f)); });
    }
};
// The same, cheaper: v · Φ(v), where the normal distribution's tail is exp(-v²/2) times a function
// that falls slowly; of that a polynomial in 1 / (1 + 0.375 |v|), within 4 · 10⁻⁵ of it.
struct GeluByTail {
    template <class G> static __device__ float2 apply(float2 x, int, int, G&) {
        return both(x, [](float v) {
            float t, e;  // the units' own functions, without the care for the smallest numbers
            asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(fmaf(0.375f, fabsf(v), 1)));
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-0.72134752f * v * v));  // e^(-v²/2)
            float p = fmaf(t, -0.09064347f, 0.20028272f);
            p = fmaf(t, p, 0.08356357f), p = fmaf(t, p, 0.15773403f), p = fmaf(t, p, 0.14906103f);
            const float tail = t * p * e;
            return v * (v < 0 ? tail : 1 - tail);
        });
    }
};
struct Silu {
    template <class G> static __device__ float2 apply(float2 x, int, int, G&) {
        return both(x, [](float v) { return v / (1 + __expf(-v)); });
    }
};
// + beta · residual.
struct Residual {
    template <class G> static __device__ float2 apply(float2 x, int row, int col, G& g) {
        const float2 old = g.residual_of(row, col);
        return {x.x + g.beta * old.x, x.y + g.beta * old.y};
    }
};
// The largest magnitude, before it is rounded. Magnitudes of floats are in the order of their bits,
// an infinity above all numbers and a NaN above that: one NaN makes amax a NaN.
struct Amax {
    template <class G> static __device__ float2 apply(float2 x, int, int, G& g) {
        g.see(max(__float_as_uint(fabsf(x.x)), __float_as_uint(fabsf(x.y))));
        return x;
    }
};

template <class... Steps> struct Chain {
    template <class G> static __device__ float2 apply(float2 x, int row, int col, G& g) {
        ((x = Steps::apply(x, row, col, g)), ...);
        return x;
    }
};

// A warp has done with its tiles: its part of amax goes to memory.
template <class G> __device__ void finish(const G& g) {
    const unsigned most = __reduce_max_sync(~0u, g.seen);
    if (most > 0 && threadIdx.x % 32 == 0) atomicMax(g.amax, most);
}
