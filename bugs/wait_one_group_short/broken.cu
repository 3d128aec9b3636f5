// Two tiles are under way when the first one is wanted, and the wait leaves two of them pending:
// it waits for nothing. There is a stage less than the number in the wait was written for.
#include "bug.cuh"
#include "ptx.cuh"

constexpr int THREADS = 64, TILES = 5, STAGES = 3;

__device__ void fetch(int* slot, const int* in, int tile) {
    if (tile < TILES)
        ptx::cp_async<16>(slot + 4 * threadIdx.x, in + (tile * THREADS + threadIdx.x) * 4);
    ptx::cp_async_commit_group();
}

__global__ void sums(const int* in,  // (TILES, THREADS, 4)
                     int* out)       // (THREADS): of what another thread has fetched
{
    __shared__ alignas(16) int slot[STAGES][4 * THREADS];
    int sum = 0;
    for (int tile = 0; tile < STAGES - 1; ++tile) fetch(slot[tile], in, tile);
    for (int tile = 0; tile < TILES; ++tile) {
        ptx::cp_async_wait_group<STAGES - 1>();
        __syncthreads();
        sum += slot[tile % STAGES][4 * (THREADS - 1 - threadIdx.x)];
        fetch(slot[(tile + STAGES - 1) % STAGES], in, tile + STAGES - 1);
    }
    out[threadIdx.x] = sum;
}

int main() {
    std::vector<int> in(TILES * THREADS * 4), wanted(THREADS);
    for (size_t i = 0; i < in.size(); ++i) in[i] = int(i * i % 31);
    for (int t = 0; t < THREADS; ++t)
        for (int tile = 0; tile < TILES; ++tile)
            wanted[t] += in[(tile * THREADS + THREADS - 1 - t) * 4];
    int* out = poisoned<int>(THREADS);
    sums<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, THREADS), wanted);
}
