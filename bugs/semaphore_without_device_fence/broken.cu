// Blocks add to a result by turns. Before a block hands on the semaphore its threads meet: that
// orders them among each other. For the next block nothing says that their stores come first.
#include "bug.cuh"

constexpr int BLOCKS = 4, THREADS = 64;

__global__ void add_by_turns(volatile int* turn, int* sum)  // (1), (THREADS)
{
    if (threadIdx.x == 0) {
        while (*turn != blockIdx.x) {}
        __threadfence();
    }
    __syncthreads();
    sum[threadIdx.x] += blockIdx.x + 1;
    __syncthreads();
    if (threadIdx.x == 0) *turn = blockIdx.x + 1;
}

int main() {
    int *turn = to_device(std::vector<int>{0}), *sum = to_device(std::vector<int>(THREADS, 0));
    add_by_turns<<<BLOCKS, THREADS>>>(turn, sum);
    return verdict(to_host(sum, THREADS), std::vector<int>(THREADS, BLOCKS * (BLOCKS + 1) / 2));
}
