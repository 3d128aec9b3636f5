// A sum over tiles is kept in memory: old sum times a factor, plus the new part. The factor of the
// first round is zero, which clears everything but what is no number.
#include "bug.cuh"

constexpr int THREADS = 32, TILES = 3;

__global__ void running_maximum(const float* in,  // (TILES, THREADS)
                                float* out)       // (THREADS): mean of exp(x − max) over the tiles
{
    float most = -INFINITY;
    out[threadIdx.x] = 0;
    for (int tile = 0; tile < TILES; ++tile) {
        const float x = in[tile * THREADS + threadIdx.x], now = fmaxf(most, x);
        out[threadIdx.x] = expf(most - now) * out[threadIdx.x] + expf(x - now) / TILES;
        most = now;
    }
}

int main() {
    std::vector<float> in = whole_numbers(TILES * THREADS), wanted(THREADS);
    for (int thread = 0; thread < THREADS; ++thread) {
        float most = -INFINITY;
        for (int tile = 0; tile < TILES; ++tile) most = std::fmax(most, in[tile * THREADS + thread]);
        for (int tile = 0; tile < TILES; ++tile)
            wanted[thread] += std::exp(in[tile * THREADS + thread] - most) / TILES;
    }
    float* out;
    CHECK(cudaMalloc(&out, THREADS * sizeof(float)));
    running_maximum<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, THREADS), wanted, 1e-5);
}
