// Threads write a tile into shared memory, meet, and one gives it to the copy engine. A barrier
// orders the threads; what they stored through the generic proxy the copy engine need not see.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 128;

__global__ void numbers(int* out)  // (THREADS): out[i] = i
{
    __shared__ alignas(128) int tile[THREADS];
    tile[threadIdx.x] = threadIdx.x;
    ptx::fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_store(out, tile, sizeof tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group<0>();
    }
}

int main() {
    std::vector<int> wanted(THREADS);
    for (int i = 0; i < THREADS; ++i) wanted[i] = i;
    int* out = poisoned<int>(THREADS);
    numbers<<<1, THREADS>>>(out);
    return verdict(to_host(out, THREADS), wanted);
}
