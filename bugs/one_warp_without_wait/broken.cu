// Four warps load, each with a branch of its own. Three branches wait for the kernel before; the
// one that loads the scale factors was added later, and does not.
#include "bugs_dependent.cuh"

constexpr int THREADS = 128, COUNT = THREADS;

__global__ void quantise(int* values, int* scales) {
    launch_dependents();
    values[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 32) scales[threadIdx.x] = 2;
}

__global__ void multiply(const int* values, const int* scales, int* y) {
    __shared__ int value[THREADS], scale[32];
    const int warp = threadIdx.x / 32;
    if (warp < 3) {
        wait_for_kernels();
        for (int i = threadIdx.x; i < THREADS; i += 96) value[i] = values[i];
    } else {
        scale[threadIdx.x % 32] = scales[threadIdx.x % 32];
    }
    __syncthreads();
    y[threadIdx.x] = value[threadIdx.x] * scale[threadIdx.x / 4];
}

int main() {
    int *values = poisoned<int>(COUNT), *scales = poisoned<int>(32), *y = poisoned<int>(COUNT);
    std::vector<int> wanted(COUNT);
    for (int i = 0; i < COUNT; ++i) wanted[i] = 2 * i;
    quantise<<<1, THREADS>>>(values, scales);
    launch_early(multiply, 1, THREADS, (const int*)values, (const int*)scales, y);
    return verdict(to_host(y, COUNT), wanted);
}
