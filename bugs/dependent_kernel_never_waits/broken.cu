// The second kernel is launched so that it may begin early, and reads at once what the first
// writes. The kernel was made for ordinary launches: it has no wait.
#include "bugs_dependent.cuh"

constexpr int BLOCKS = 4, THREADS = 64, COUNT = BLOCKS * THREADS;

__global__ void produce(int* x) {
    launch_dependents();
    x[blockIdx.x * THREADS + threadIdx.x] = 7;
}

__global__ void consume(const int* x, int* y) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    y[i] = x[COUNT - 1 - i] + 1;
}

int main() {
    int *x = poisoned<int>(COUNT), *y = poisoned<int>(COUNT);
    produce<<<BLOCKS, THREADS>>>(x);
    launch_early(consume, BLOCKS, THREADS, (const int*)x, y);
    return verdict(to_host(y, COUNT), std::vector<int>(COUNT, 8));
}
