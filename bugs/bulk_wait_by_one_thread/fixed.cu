// A warp group writes a tile of results, and one thread gives it to the copy engine. Bulk groups
// are those of a thread: when all wait for theirs, only that thread waits for the copy.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 128, TILES = 4;

__global__ void numbers(int* out)  // (TILES, THREADS): out[i] = i
{
    __shared__ alignas(128) int tile[THREADS];
    for (int i = 0; i < TILES; ++i) {
        ptx::cp_async_bulk_wait_group<0>();
        __syncthreads();  // the thread that waited tells the others
        tile[threadIdx.x] = i * THREADS + threadIdx.x;
        ptx::fence_proxy_async_shared();
        __syncthreads();
        if (threadIdx.x == 0) {
            ptx::cp_async_bulk_store(out + i * THREADS, tile, sizeof tile);
            ptx::cp_async_bulk_commit_group();
        }
    }
    if (threadIdx.x == 0) ptx::cp_async_bulk_wait_group<0>();
}

int main() {
    std::vector<int> wanted(TILES * THREADS);
    for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = int(i);
    int* out = poisoned<int>(wanted.size());
    numbers<<<1, THREADS>>>(out);
    return verdict(to_host(out, wanted.size()), wanted);
}
