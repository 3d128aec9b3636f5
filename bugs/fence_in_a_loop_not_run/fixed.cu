// A state is set to zero, updated step by step, and stored by the copy engine. The fence stands in
// the loop over steps: for a sequence without steps the zeros are never fenced.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 64, SEQUENCES = 3;

__global__ void states(const int* steps,  // (SEQUENCES)
                       int* out)          // (SEQUENCES, THREADS): the number of steps
{
    __shared__ alignas(128) int state[THREADS];
    state[threadIdx.x] = 0;
    for (int i = 0; i < steps[blockIdx.x]; ++i) {
        state[threadIdx.x] += 1;
    }
    ptx::fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_store(out + blockIdx.x * THREADS, state, sizeof state);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group<0>();
    }
}

int main() {
    const std::vector<int> steps{2, 0, 1};
    std::vector<int> wanted(SEQUENCES * THREADS);
    for (int i = 0; i < SEQUENCES * THREADS; ++i) wanted[i] = steps[i / THREADS];
    int* out = poisoned<int>(wanted.size());
    states<<<SEQUENCES, THREADS>>>(to_device(steps), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
