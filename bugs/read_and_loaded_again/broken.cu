// A warp reads a slot, and its first lane has the copy engine fill it again. __syncwarp orders the
// lanes; the loads of the generic proxy may still be under way when the copy engine writes.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 32, TILES = 4;

__global__ void twice(const int* in,  // (TILES, THREADS)
                      int* out)       // (TILES, THREADS): 2 · in
{
    __shared__ alignas(128) int slot[THREADS];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
    }
    __syncwarp();
    for (int i = 0; i < TILES; ++i) {
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expect_tx(&full, sizeof slot);
            ptx::cp_async_bulk_load(slot, in + i * THREADS, sizeof slot, &full);
        }
        __syncwarp();
        ptx::mbarrier_wait(&full, i % 2);
        out[i * THREADS + threadIdx.x] = 2 * slot[threadIdx.x];
        __syncwarp();
    }
}

int main() {
    std::vector<int> in(TILES * THREADS), wanted(in.size());
    for (size_t i = 0; i < in.size(); ++i) wanted[i] = 2 * (in[i] = int(i) + 1);
    int* out = poisoned<int>(wanted.size());
    twice<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
