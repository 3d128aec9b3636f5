// A sort goes back and forth between two buffers. The second pass clears the buffer that it will
// write before it waits; the first pass, which may still run, reads its input there.
#include "bugs_dependent.cuh"

constexpr int THREADS = 64;

__global__ void first_pass(const int* a, int* b) {
    launch_dependents();
    b[THREADS - 1 - threadIdx.x] = a[threadIdx.x];
}

__global__ void second_pass(const int* b, int* a) {
    a[threadIdx.x] = 0;
    wait_for_kernels();
    a[threadIdx.x] += b[threadIdx.x];
}

int main() {
    std::vector<int> keys(THREADS), wanted(THREADS);
    for (int i = 0; i < THREADS; ++i) wanted[THREADS - 1 - i] = keys[i] = 3 * i;
    int *a = to_device(keys), *b = poisoned<int>(THREADS);
    first_pass<<<1, THREADS>>>(a, b);
    launch_early(second_pass, 1, THREADS, (const int*)b, a);
    return verdict(to_host(a, THREADS), wanted);
}
