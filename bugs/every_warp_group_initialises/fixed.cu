// Warp 1 makes the barrier: so it says, but the number of the warp counts within a warp group, and
// there are two. The second one makes it again, when the first may have used it already.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int GROUP = 128, GROUPS = 2;

__global__ void copied(const int* in,  // (GROUP)
                       int* out)       // (GROUPS, GROUP)
{
    __shared__ alignas(128) int slot[GROUP];
    __shared__ unsigned long long full;
    const bool maker = threadIdx.x == 32;
    if (maker) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, sizeof slot);
        ptx::cp_async_bulk_load(slot, in, sizeof slot, &full);
    }
    ptx::mbarrier_wait(&full, 0);
    out[threadIdx.x] = slot[threadIdx.x % GROUP];
}

int main() {
    std::vector<int> in(GROUP), wanted(GROUPS * GROUP);
    for (int i = 0; i < GROUPS * GROUP; ++i) wanted[i] = in[i % GROUP] = 5 * (i % GROUP);
    int* out = poisoned<int>(wanted.size());
    copied<<<1, GROUPS * GROUP>>>(to_device(in), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
