// A persistent block computes tile after tile, each with a loop over K of its own. The parity is
// counted from the start of the tile; the barrier goes on from where the tile before has left it.
#include "bug.cuh"
#include "ptx_sm90.cuh"

constexpr int THREADS = 32, TILES = 2, STEPS = 3;

__global__ void sums(const int* in,  // (TILES, STEPS, THREADS)
                     int* out)       // (TILES, THREADS): sums over the steps
{
    __shared__ alignas(128) int slot[THREADS];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    for (int tile = 0; tile < TILES; ++tile) {
        int sum = 0;
        for (int k = 0; k < STEPS; ++k) {
            const int step = tile * STEPS + k;
            if (threadIdx.x == 0) {
                ptx::mbarrier_arrive_expect_tx(&full, sizeof slot);
                ptx::cp_async_bulk_load(slot, in + step * THREADS, sizeof slot, &full);
            }
            ptx::mbarrier_wait(&full, step % 2);
            sum += slot[threadIdx.x];
            ptx::fence_proxy_async_shared();  // read, before the next load overwrites it
            __syncthreads();
        }
        out[tile * THREADS + threadIdx.x] = sum;
    }
}

int main() {
    std::vector<int> in(TILES * STEPS * THREADS), wanted(TILES * THREADS);
    for (int i = 0; i < TILES * STEPS * THREADS; ++i)
        wanted[i / (STEPS * THREADS) * THREADS + i % THREADS] += in[i] = i * i % 101;
    int* out = poisoned<int>(wanted.size());
    sums<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
