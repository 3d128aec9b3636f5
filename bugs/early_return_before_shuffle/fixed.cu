// Softmax of short rows. Threads without a column return at once; the others of their warp then
// exchange values with the whole warp, those who have left included.
#include "bug.cuh"

constexpr int THREADS = 64, COLUMNS = 40;

__global__ void maximum(const float* in,  // (COLUMNS)
                        float* out)       // one number
{
    __shared__ float most[THREADS / 32];
    float x = threadIdx.x < COLUMNS ? in[threadIdx.x] : -INFINITY;
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_down_sync(~0u, x, step));
    if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0) *out = fmaxf(most[0], most[1]);
}

int main() {
    std::vector<float> in(COLUMNS);
    for (int i = 0; i < COLUMNS; ++i) in[i] = float(-1 - i % 7);  // lanes that left must not give 0
    float* out = poisoned<float>(1);
    maximum<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, 1), {-1.0f});
}
