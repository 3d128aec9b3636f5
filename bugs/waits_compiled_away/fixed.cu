// Three kernels in a row. The wait of the second is behind a macro that the build does not define;
// the third waits, but only for the second, which says nothing of the first.
#define WAITS_ENABLED
#include "bugs_dependent.cuh"

constexpr int THREADS = 64;

__device__ void wait_if_enabled() {
#ifdef WAITS_ENABLED
    wait_for_kernels();
#endif
}

__global__ void produce(int* x) {
    launch_dependents();
    x[threadIdx.x] = 7;
}

__global__ void pass_by(int* z) {
    wait_if_enabled();
    launch_dependents();
    z[threadIdx.x] = 1;
}

__global__ void consume(const int* x, int* y) {
    wait_for_kernels();
    y[threadIdx.x] = x[threadIdx.x] + 1;
}

int main() {
    int *x = poisoned<int>(THREADS), *y = poisoned<int>(THREADS), *z = poisoned<int>(THREADS);
    produce<<<1, THREADS>>>(x);
    launch_early(pass_by, 1, THREADS, z);
    launch_early(consume, 1, THREADS, (const int*)x, y);
    return verdict(to_host(y, THREADS), std::vector<int>(THREADS, 8));
}
