// The kernel waits for the one before it, and has read the size of its problem already: the
// scheduler of tiles is made before the wait, and its constructor looks at the sizes.
#include "bugs_dependent.cuh"

constexpr int THREADS = 32, MOST = 4 * THREADS;

__global__ void measure(int* size) {
    launch_dependents();
    if (threadIdx.x == 0) *size = MOST - 5;
}

struct Scheduler {
    int size;
    __device__ explicit Scheduler(const int* problem)
        : size(*problem) {}
};

__global__ void fill(const int* problem, int* y) {
    Scheduler scheduler(problem);
    wait_for_kernels();
    for (int i = threadIdx.x; i < MOST; i += THREADS) y[i] = i < scheduler.size ? i : -1;
}

int main() {
    int *size = poisoned<int>(1), *y = poisoned<int>(MOST);
    std::vector<int> wanted(MOST, -1);
    for (int i = 0; i < MOST - 5; ++i) wanted[i] = i;
    measure<<<1, THREADS>>>(size);
    launch_early(fill, 1, THREADS, (const int*)size, y);
    return verdict(to_host(y, MOST), wanted);
}
