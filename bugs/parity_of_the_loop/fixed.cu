// Each round uses a barrier of its own, for the first time. The wait asks for the parity of the
// round: for odd ones that is the phase before the first, which counts as complete.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 32, TILES = 4;

__global__ void twice(const int* in,  // (TILES, THREADS)
                      int* out)       // (TILES, THREADS): 2 · in
{
    __shared__ alignas(128) int slot[TILES][THREADS];
    __shared__ unsigned long long full[TILES];
    if (threadIdx.x < TILES) ptx::mbarrier_init(&full[threadIdx.x], 1);
    ptx::fence_mbarrier_init();
    __syncthreads();
    for (int i = 0; i < TILES; ++i) {
        if (threadIdx.x == 0) {
            ptx::mbarrier_arrive_expect_tx(&full[i], sizeof slot[i]);
            ptx::cp_async_bulk_load(slot[i], in + i * THREADS, sizeof slot[i], &full[i]);
        }
        ptx::mbarrier_wait(&full[i], 0);
        out[i * THREADS + threadIdx.x] = 2 * slot[i][threadIdx.x];
    }
}

int main() {
    std::vector<int> in(TILES * THREADS), wanted(in.size());
    for (size_t i = 0; i < in.size(); ++i) wanted[i] = 2 * (in[i] = int(i) + 1);
    int* out = poisoned<int>(wanted.size());
    twice<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
