// What the filters of *Asynchronous copies* share: the job, a weighted sum of neighbours.
#pragma once

constexpr int RADIUS = 4;               // neighbours on each side; 16 bytes of floats
constexpr int WIDTH = 2 * RADIUS + 1;   // weights

struct Weights { float of[WIDTH]; };

// How many of the floats first … first + 3 lie in 0 … n - 1; first is a multiple of 4.
__device__ inline int inside(int first, int n) {
    return first < 0 ? 0 : min(4, max(0, n - first));
}

// The floats first … first + 3 of x (n), zeros for those outside.
__device__ inline float4 read_chunk(const float* x, int n, int first) {
    const int there = inside(first, n);
    if (there == 4) return *reinterpret_cast<const float4*>(x + first);
    return {there > 0 ? x[first] : 0, there > 1 ? x[first + 1] : 0, there > 2 ? x[first + 2] : 0, 0};
}

// Four outputs, y[first] … y[first + 3], from this thread's three chunks of the slot:
// the floats x[first - 4] … x[first + 7].
__device__ inline void weigh(const float4* slot, float* y, int n, int first,
                             const Weights& weights) {
    const int chunk = threadIdx.x;
    alignas(16) float near[12];
    for (int i = 0; i < 3; ++i)
        reinterpret_cast<float4*>(near)[i] = slot[chunk + i];
    float sum[4] = {};
    for (int j = 0; j < WIDTH; ++j)
        for (int i = 0; i < 4; ++i) sum[i] += weights.of[j] * near[i + j];
    if (first + 4 <= n) *reinterpret_cast<float4*>(y + first) = {sum[0], sum[1], sum[2], sum[3]};
    else
        for (int i = 0; i < 4; ++i)
            if (first + i < n) y[first + i] = sum[i];
}
