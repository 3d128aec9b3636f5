// A persistent loop fetches the tile of the next round. In the last round there is none: the load
// has its predicate, the bytes that the barrier is told to expect have not.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 32, TILES = 3;

__device__ void fetch(int* slot, const int* tile, unsigned long long* full, bool wanted) {
    if (threadIdx.x != 0) return;
    ptx::mbarrier_arrive_expect_tx(full, THREADS * sizeof(int));
    if (wanted) ptx::cp_async_bulk_load(slot, tile, THREADS * sizeof(int), full);
}

__global__ void twice(const int* in,  // (TILES, THREADS)
                      int* out)       // (TILES, THREADS): 2 · in
{
    __shared__ alignas(128) int slot[2][THREADS];
    __shared__ unsigned long long full[2];
    if (threadIdx.x < 2) ptx::mbarrier_init(&full[threadIdx.x], 1);
    ptx::fence_mbarrier_init();
    __syncthreads();
    fetch(slot[0], in, &full[0], true);
    for (int i = 0; i < TILES; ++i) {
        const int next = i + 1;
        fetch(slot[next % 2], in + next * THREADS, &full[next % 2], next < TILES);
        ptx::mbarrier_wait(&full[i % 2], i / 2 % 2);
        out[i * THREADS + threadIdx.x] = 2 * slot[i % 2][threadIdx.x];
        ptx::fence_proxy_async_shared();  // read, before the next load overwrites it
        __syncthreads();
    }
}

int main() {
    std::vector<int> in(TILES * THREADS), wanted(in.size());
    for (size_t i = 0; i < in.size(); ++i) wanted[i] = 2 * (in[i] = int(i) + 1);
    int* out = poisoned<int>(wanted.size());
    twice<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
