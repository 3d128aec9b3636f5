// A block gives its tile to the copy engine and leaves, its shared memory still being read.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int BLOCKS = 4, THREADS = 128;

__global__ void numbers(int* out)  // (BLOCKS, THREADS): out[i] = i
{
    __shared__ alignas(128) int tile[THREADS];
    tile[threadIdx.x] = blockIdx.x * THREADS + threadIdx.x;
    ptx::fence_proxy_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk_store(out + blockIdx.x * THREADS, tile, sizeof tile);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read<0>();
    }
}

int main() {
    std::vector<int> wanted(BLOCKS * THREADS);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = int(i);
    int* out = poisoned<int>(wanted.size());
    numbers<<<BLOCKS, THREADS>>>(out);
    return verdict(to_host(out, wanted.size()), wanted);
}
