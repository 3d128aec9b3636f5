// Softmax of rows. The maximum and the sum go through the same scratch in shared memory: a warp
// that is ahead writes its part of the sum over the maximum that the others have still to read.
#include "bug.cuh"

constexpr int THREADS = 128, WARPS = THREADS / 32, ROWS = 2, COLUMNS = 200;

template <class Operation> __device__ float over_warp(float x, Operation operation) {
    for (int step = 16; step > 0; step /= 2) x = operation(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

template <class Operation>
__device__ float over_block(float x, float* scratch, Operation operation) {
    x = over_warp(x, operation);
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x == 0)
        for (int i = 1; i < WARPS; ++i) scratch[0] = operation(scratch[0], scratch[i]);
    __syncthreads();
    x = scratch[0];
    __syncthreads();  // all have read it: the scratch is free
    return x;
}

__global__ void softmax(const float* in,  // (ROWS, COLUMNS)
                        float* out)       // (ROWS, COLUMNS)
{
    __shared__ float scratch[WARPS];
    const float* x = in + blockIdx.x * COLUMNS;
    float* y = out + blockIdx.x * COLUMNS;
    float part = -INFINITY;
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS) part = fmaxf(part, x[i]);
    const float most = over_block(part, scratch, [](float a, float b) { return fmaxf(a, b); });
    part = 0;
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS) part += y[i] = expf(x[i] - most);
    const float sum = over_block(part, scratch, [](float a, float b) { return a + b; });
    for (int i = threadIdx.x; i < COLUMNS; i += THREADS) y[i] /= sum;
}

int main() {
    std::vector<float> in = whole_numbers(ROWS * COLUMNS), wanted(in.size());
    for (int row = 0; row < ROWS; ++row) {
        double sum = 0;
        for (int i = 0; i < COLUMNS; ++i) sum += std::exp(double(in[row * COLUMNS + i]));
        for (int i = 0; i < COLUMNS; ++i)
            wanted[row * COLUMNS + i] = float(std::exp(double(in[row * COLUMNS + i])) / sum);
    }
    float* out = poisoned<float>(in.size());
    softmax<<<ROWS, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, in.size()), wanted, 1e-6);
}
