// A pipeline of cp.async fetches two tiles ahead; past the last tile it fetches the last one again,
// so that every round has a group. The loop ends, and the epilogue stores to the same slots.
#include "bug.cuh"
#include "ptx.cuh"

constexpr int THREADS = 32, TILES = 4, STAGES = 3;

__device__ void fetch(int* slot, const int* in, int tile) {
    const int from = min(tile, TILES - 1) * 4 * THREADS;
    ptx::cp_async<16>(slot + 4 * threadIdx.x, in + from + 4 * threadIdx.x);
    ptx::cp_async_commit_group();
}

__global__ void sums(const int* in,  // (TILES, THREADS, 4)
                     int* out)       // (THREADS): the sum of the column on the other side
{
    __shared__ alignas(16) int slot[STAGES][4 * THREADS];
    int sum = 0;
    for (int tile = 0; tile < STAGES - 1; ++tile) fetch(slot[tile], in, tile);
    for (int tile = 0; tile < TILES; ++tile) {
        ptx::cp_async_wait_group<STAGES - 2>();
        __syncthreads();
        for (int i = 0; i < 4; ++i) sum += slot[tile % STAGES][4 * threadIdx.x + i];
        fetch(slot[(tile + STAGES - 1) % STAGES], in, tile + STAGES - 1);
    }
    __syncthreads();
    int* exchange = slot[(TILES + STAGES - 2) % STAGES];
    exchange[threadIdx.x] = sum;
    __syncthreads();
    out[threadIdx.x] = exchange[THREADS - 1 - threadIdx.x];
}

int main() {
    std::vector<int> in(TILES * 4 * THREADS), wanted(THREADS);
    for (size_t i = 0; i < in.size(); ++i)
        wanted[THREADS - 1 - i / 4 % THREADS] += in[i] = int(i * i % 31);
    int* out = poisoned<int>(THREADS);
    sums<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, THREADS), wanted);
}
