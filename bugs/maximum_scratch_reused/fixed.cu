// Maxima of tiles, of four warps that meet at a barrier of their own: each warp leaves its maximum,
// all read the four. A warp that is ahead leaves that of the next tile before all have read.
#include "bug.cuh"

constexpr int WARPS = 4, THREADS = 32 * WARPS, TILES = 3;

__device__ int over_block(int x, int* scratch) {
    for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    asm volatile("bar.sync 1, 128;" ::: "memory");
    int most = scratch[0];
    for (int i = 1; i < WARPS; ++i) most = max(most, scratch[i]);
    asm volatile("bar.sync 1, 128;" ::: "memory");  // all have read
    return most;
}

__global__ void maxima(const int* in,  // (TILES, THREADS)
                       int* out)       // (TILES, THREADS): how far below its tile's maximum
{
    __shared__ int scratch[WARPS];
    for (int tile = 0; tile < TILES; ++tile) {
        const int x = in[tile * THREADS + threadIdx.x];
        out[tile * THREADS + threadIdx.x] = over_block(x, scratch) - x;
    }
}

int main() {
    std::vector<int> in(TILES * THREADS), wanted(in.size());
    for (int tile = 0; tile < TILES; ++tile) {
        int most = 0;
        for (int i = 0; i < THREADS; ++i)
            most = std::max(most, in[tile * THREADS + i] = (i * i + 50 * tile) % 101);
        for (int i = 0; i < THREADS; ++i)
            wanted[tile * THREADS + i] = most - in[tile * THREADS + i];
    }
    int* out = poisoned<int>(wanted.size());
    maxima<<<1, THREADS>>>(to_device(in), out);
    return verdict(to_host(out, wanted.size()), wanted);
}
