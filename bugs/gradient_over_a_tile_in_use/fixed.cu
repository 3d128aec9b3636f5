// The last product of a block reads the tile `keys`; then every warp puts its part of the result
// where `keys` lay. It lies where the warp itself has read, but other warps have read there too.
#include "bug.cuh"

constexpr int THREADS = 64, KEYS = 64;

__global__ void backward(const float* in,  // (KEYS)
                         float* queries,   // (THREADS): sums over all keys
                         float* gradient)  // (KEYS)
{
    __shared__ float keys[KEYS];
    keys[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < KEYS; ++k) sum += keys[(threadIdx.x + k) % KEYS] * (k % 3);
    queries[threadIdx.x] = sum;
    __syncthreads();
    keys[threadIdx.x] = 2 * sum;  // the result goes out through the same memory
    __syncthreads();
    gradient[threadIdx.x] = keys[KEYS - 1 - threadIdx.x];
}

int main() {
    const std::vector<float> in = whole_numbers(KEYS);
    std::vector<float> sums(THREADS), wanted(KEYS);
    for (int t = 0; t < THREADS; ++t)
        for (int k = 0; k < KEYS; ++k) sums[t] += in[(t + k) % KEYS] * (k % 3);
    for (int t = 0; t < KEYS; ++t) wanted[t] = 2 * sums[KEYS - 1 - t];
    float *queries = poisoned<float>(THREADS), *gradient = poisoned<float>(KEYS);
    backward<<<1, THREADS>>>(to_device(in), queries, gradient);
    std::vector<float> got = to_host(queries, THREADS), rest = to_host(gradient, KEYS);
    got.insert(got.end(), rest.begin(), rest.end());
    sums.insert(sums.end(), wanted.begin(), wanted.end());
    return verdict(got, sums);
}
